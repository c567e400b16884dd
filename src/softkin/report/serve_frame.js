// The frame around a page that `softkin report serve` shows: reload it when its file changes, and keep its state in the address.
(() => {
  const frame = document.querySelector("iframe"), said = document.getElementById("said"), page = frame.dataset.page; // loaded once, with the state of the address
  let stamp = null;
  frame.src = page + location.hash;
  addEventListener("message", (event) => {
    if (event.source === frame.contentWindow && event.data && typeof event.data.softkin === "string") history.replaceState(null, "", event.data.softkin || "#");
  });
  setInterval(async () => {
    try {
      const next = await (await fetch(page.replace("/page/", "/stamp/"))).text();
      if (stamp !== null && next !== stamp) frame.src = `${page}?${encodeURIComponent(next)}${location.hash}`;
      stamp = next;
      said.textContent = "";
    } catch {
      said.textContent = "The server has stopped; the page no longer updates.";
    }
  }, 1000);
})();
