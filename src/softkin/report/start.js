// Draw the page, restore the state in the address, prepare for printing, and mark when the page is interactive.

function followAddress() {
  seenHash = location.hash;
  if (location.hash.length < 2) return;
  makeAll();
  readAddress();
  const section = location.hash.slice(1).split("&")[0];
  if (!section.includes("=")) document.getElementById(decodeURIComponent(section))?.scrollIntoView();
}

PAGES[data.kind]();
followAddress();
addEventListener("hashchange", followAddress);
addEventListener("beforeprint", () => {
  makeAll();
  choose({ printing: true });
  CHARTS.forEach((node) => node.isConnected && !node.firstChild && node.redraw());
});
addEventListener("afterprint", () => choose({ printing: false }));
requestAnimationFrame(() => {
  performance.mark("softkin-interactive");
  setTimeout(makeRest);
});
