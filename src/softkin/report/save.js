// Charts, tables and a card as files: SVG with its styles inside, PNG, CSV.

const PLAIN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "visibility"];

function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = el("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const fileName = (title, ending) => `${cut(`${data.name} ${title}`, 80).replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase() || "chart"}.${ending}`;

// A copy of a drawing that looks the same without the page's style sheet.
function standalone(root) {
  const copy = root.cloneNode(true);
  const dress = (from, to) => {
    const style = getComputedStyle(from);
    for (const property of PLAIN) {
      const value = style.getPropertyValue(property);
      if (value && value !== "none" && value !== "normal") to.setAttribute(property, value.replace(/url\("?[^#"]*(#[^")]+)"?\)/, "url($1)"));
      else if (property === "fill" && value === "none") to.setAttribute("fill", "none");
    }
    Array.from(from.children).forEach((child, i) => dress(child, to.children[i]));
  };
  dress(root, copy);
  copy.querySelectorAll(".zone, .ring:not(.chosen)").forEach((node) => node.remove());
  const { width, height } = root.viewBox.baseVal;
  const defs = document.querySelector(".patterns defs").cloneNode(true);
  dress(document.querySelector(".patterns defs"), defs);
  copy.prepend(defs, svg("rect", { width, height, fill: getComputedStyle(document.documentElement).getPropertyValue("--card").trim() }));
  copy.removeAttribute("tabindex");
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  return copy;
}

// A drawing as a file shows it: with title, the page's name, and a legend of [drawing of 30 by 14, text].
function titled(root, title, legend = []) {
  const { width, height } = root.viewBox.baseVal, most = Math.max(width, 320), row = 20;
  const spots = [];
  let x = 10, y = 62;
  for (const [drawing, text] of legend) {
    const wide = 46 + 7 * Math.min(40, text.length);
    if (x > 10 && x + wide > most) [x, y] = [10, y + row];
    spots.push([drawing, text, x, y]);
    x += wide;
  }
  const above = legend.length ? y + 12 : 50;
  const outer = svg("svg", { class: "aside", viewBox: `0 0 ${most} ${Math.ceil(height + above)}`, width: most, height: height + above });
  const copy = root.cloneNode(true);
  Object.entries({ x: 0, y: above, width, height }).forEach(([key, value]) => copy.setAttribute(key, String(value)));
  outer.append(
    svg("text", { class: "export-title", x: 10, y: 22 }, cut(title, 90)),
    svg("text", { class: "export-name", x: 10, y: 40 }, cut(data.name, 100)),
    ...spots.flatMap(([drawing, text, left, base]) => {
      const key = drawing.cloneNode(true);
      Object.entries({ x: left, y: base - 10 }).forEach(([name, value]) => key.setAttribute(name, String(value)));
      return [key, svg("text", { x: left + 36, y: base }, cut(text, 40))];
    }),
    copy,
  );
  document.body.append(outer);
  const alone = standalone(outer);
  outer.remove();
  alone.removeAttribute("class");
  return alone;
}

const svgText = (root) => new XMLSerializer().serializeToString(root);

// A PNG at twice the size, sharp on paper; the promise resolves to a Blob.
function pngOf(root, scale = 2) {
  const { width, height } = root.viewBox.baseVal;
  return new Promise((done, failed) => {
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = el("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    });
    image.addEventListener("error", failed);
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(root))}`;
  });
}

// Like softkin.escape.csv_cell: a cell that a spreadsheet would take for a formula gets a quote in front.
const csvCell = (text) => {
  const safe = /^'*[=+\-@\t\r]/.test(text) && !/^-?[\d.]+(e-?\d+)?$/i.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
const csvText = (rows) => rows.map((cells) => cells.map((cell) => csvCell(String(cell ?? ""))).join(",")).join("\r\n") + "\r\n";

// A table as CSV, with all digits of the numbers that the page holds.
function csvOf(node) {
  const rows = Array.from(node.querySelectorAll("tr"), (row) =>
    Array.from(row.children, (cell) => {
      const full = cell.querySelector("[data-value]");
      return full ? full.dataset.value : cell.textContent.replaceAll("\u202f", " ").replaceAll("\u2212", "-").trim();
    }),
  );
  return csvText(rows);
}

// A row of a table pastes as one row: cells are separated by tabs, and what stands below a number comes behind it.
const cellWords = (cell) => {
  const words = [];
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) words.push(walk.currentNode.textContent.trim());
  return words.filter(Boolean).join(" ").replaceAll("\u202f", " ").replaceAll("\u2212", "-");
};
addEventListener("copy", (event) => {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0), from = range.commonAncestorContainer;
  const holder = (from instanceof Element ? from : from.parentElement).closest("table, main, dialog");
  const rows = holder ? Array.from(holder.querySelectorAll("tr")).filter((row) => selection.containsNode(row, true)) : [];
  const touched = rows.flatMap((row) => Array.from(row.cells).filter((cell) => selection.containsNode(cell, true)));
  const outside = holder && holder.tagName !== "TABLE" && !rows.some((row) => row.contains(range.startContainer));
  if (touched.length < 2 || outside) return; // words of one cell, or of more than tables, are copied as they are
  const lines = rows.map((row) => Array.from(row.cells).filter((cell) => touched.includes(cell)).map(cellWords).join("\t"));
  event.clipboardData.setData("text/plain", lines.join("\n"));
  event.preventDefault();
});

// A button that copies a whole table, for spreadsheets.
function copyTable(node) {
  const button = el("button", { type: "button", class: "take", "data-key": "copy-table", "aria-label": "Copy the table for a spreadsheet" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(Array.from(node.querySelectorAll("tr"), (row) => Array.from(row.cells, cellWords).join("\t")).join("\n"));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(node); // a page opened from a file may have no clipboard
      button.textContent = "Selected";
    }
  });
  return button;
}

// A chart with its title, note, table and buttons to save it. `drawn` is from chart(); `rows` builds the table.
function figureOf({ title, note = null, drawn, rows, before = null, after = null, heading = "h3" }) {
  const numbers = asTable("As a table", rows);
  const root = () => {
    const picture = drawn.picture ? drawn.picture() : drawn.querySelector("svg");
    return picture && titled(picture, drawn.heading ? drawn.heading() : title, drawn.legend ? drawn.legend() : []);
  };
  const button = (text, label, run) => el("button", { type: "button", class: "take", "aria-label": `${text}: save ${title} as ${label}`, "data-take": text.toLowerCase(), click: run }, text);
  const buttons = [
    button("SVG", "a drawing (SVG)", () => {
      const picture = root();
      if (picture) download(fileName(title, "svg"), svgText(picture), "image/svg+xml");
    }),
    button("PNG", "a picture (PNG)", async () => {
      const picture = root();
      if (picture) download(fileName(title, "png"), await pngOf(picture), "image/png");
    }),
    button("CSV", "a table (CSV)", () => download(fileName(title, "csv"), csvOf(rows()), "text/csv")),
  ];
  const tools = oneStop(el("span", { class: "takes", role: "toolbar", "aria-label": `Save ${title}` }, buttons), buttons, ARROW_KEYS);
  const node = el(
    "figure",
    { class: "card" },
    el("figcaption", {}, el(heading, {}, title), note ? el("p", { class: "note" }, note) : null),
    before,
    drawn,
    el("div", { class: "under" }, numbers, tools),
    after,
  );
  node.refresh = numbers.refresh;
  return node;
}

// A picture of the result, in the size that chats and social networks show beside a link.
function cardButton() {
  return el("button", { type: "button", class: "quiet", "data-key": "card", "aria-label": "Card: save a picture of the result, 1200 by 630 pixels", click: async () => download(fileName("card", "png"), await pngOf(card(), 1), "image/png") }, "Card");
}

function card() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const font = (size, weight = 400, family = "sans") => ({ "font-size": `${size}px`, "font-weight": weight, "font-family": colour(family) }); // the content policy forbids style attributes
  const root = svg("svg", { viewBox: "0 0 1200 630", width: 1200, height: 630, xmlns: SVG });
  const say = (text, x, y, size, options = {}) => svg("text", { x, y, fill: options.fill || colour("ink"), ...font(size, options.weight, options.family), "text-anchor": options.anchor || "start" }, text);
  const lines = (text, most) => text.split(" ").reduce((all, word) => {
    const last = all[all.length - 1];
    return last !== undefined && `${last} ${word}`.length <= most ? [...all.slice(0, -1), `${last} ${word}`] : [...all, word];
  }, []);
  root.append(svg("rect", { width: 1200, height: 630, fill: colour("paper") }), svg("rect", { width: 1200, height: 12, fill: colour("accent") }));
  root.append(say(cut(data.name, 60), 60, 82, 28, { weight: 600 }), say("softkin", 1140, 82, 26, { family: "serif", weight: 600, anchor: "end", fill: colour("soft") }));
  const title = document.getElementById("headline").textContent;
  const detail = document.querySelector("#answers .lead");
  const charts = Array.from(document.querySelectorAll("#answer-trust svg, #overview-figure .chart > svg"));
  const room = charts.length ? 24 : 46;
  let y = 160;
  for (const line of lines(cut(title, 120), room).slice(0, 4)) {
    root.append(say(line, 60, y, charts.length ? 44 : 54, { family: "serif", weight: 600 }));
    y += charts.length ? 52 : 62;
  }
  for (const line of lines(cut(detail ? detail.textContent : "", 300), charts.length ? 42 : 84).slice(0, 8)) {
    root.append(say(line, 60, y, 24, { fill: colour("soft") }));
    y += 34;
  }
  y = 588;
  root.append(say(Array.from(document.querySelectorAll(".eyebrow > span"), (node) => node.textContent).map((text) => cut(text, 40)).join("  ·  "), 60, y, 24, { fill: colour("soft") }));
  const [chart] = charts;
  if (chart) {
    const copy = standalone(chart), caption = chart.parentNode.querySelector("figcaption");
    Object.entries({ x: 640, y: 108, width: 500, height: caption ? 350 : 430 }).forEach(([key, value]) => copy.setAttribute(key, value));
    const words = caption ? cellWords(caption).replace("◆", "\n◆").split("\n") : [];
    root.append(copy, ...words.flatMap((line) => lines(cut(line.trim(), 160), 58)).slice(0, 4).map((line, place) => say(line, 640, 484 + place * 24, 17, { fill: colour("soft") })));
  }
  return root;
}
