// Draw, go to what the address asks for, listen to the printer, and say when the page can be used.

PAGES[data.kind]();
readAddress();
if (location.hash.length > 1 && !location.hash.includes("=")) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
addEventListener("hashchange", readAddress);
addEventListener("beforeprint", () => choose({ printing: true }));
addEventListener("afterprint", () => choose({ printing: false }));
requestAnimationFrame(() => performance.mark("softkin-interactive"));
