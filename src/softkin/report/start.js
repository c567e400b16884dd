// Draw the page, restore the state in the address, prepare for printing, and mark when the page is interactive.

function followAddress() {
  seenHash = location.hash;
  if (location.hash.length < 2) return;
  makeAll();
  readAddress();
  const section = location.hash.slice(1).split("&")[0];
  const node = section.includes("=") ? null : document.getElementById(decodeURIComponent(section));
  if (node) landAt(node);
}

// Go to a section, and stay there while charts above it get their height, until the reader moves.
function landAt(node) {
  const land = () => node.scrollIntoView({ behavior: "instant" });
  const watch = new ResizeObserver(land);
  const leave = () => watch.disconnect();
  watch.observe(document.body); // which calls it once at the start
  for (const event of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(event, leave, { once: true });
  setTimeout(leave, 1000);
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
