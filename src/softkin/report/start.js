// Draw, listen to the printer, and say when the page can be used.

if (data.kind === "comparison") comparisonPage();
else modelPage();
addEventListener("beforeprint", () => choose({ printing: true }));
addEventListener("afterprint", () => choose({ printing: false }));
requestAnimationFrame(() => performance.mark("softkin-interactive"));
