// Elements, texts, numbers and state: what every part of the page uses. All texts become text nodes, never markup.
//
// The data are those of the JSON file beside the page; types.d.ts states their form, docs/report.md says what they mean.
// All files of this folder are joined into one closure (render.SCRIPTS has their order) and share these names:
// the checkers (`npm run check`) see them as one program.
//
// To add a section to a page: put its data into the dictionary from report.build or report.build_comparison under a key
// of your own (report.write keeps it), add a file to render.SCRIPTS before start.js, and in it
//
//   addSection("model", { id: "decisions", link: "Decisions", after: "abstain", when: () => data.decisions, make: decisionsSection });
//
// `make` returns an element, preferably from section(id, title, ...children). Draw charts with figureOf(…), which adds a
// table and buttons for SVG, PNG and CSV. showSamples(title, rows) lists samples. Keep settings that the reader can
// change in `state`, by choose(); addAddress(…) puts a setting into the page's address. For a page of a new kind, call
// addPage("kind", draw), and add an entry to first_screen.FIRST_SCREENS in Python for the part that needs no script.

/** @type {PageData} */
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function dress(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key, value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const el = (tag, attributes, ...children) => dress(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => dress(document.createElementNS(SVG, tag), attributes, children);

let ids = 0;
const fresh = (stem) => `${stem}-${++ids}`;

// Numbers as people read them. Narrow no-break spaces keep a number and its unit on one line.
const THIN = "\u202f";
const signed = (text) => text.replace("-", "\u2212");
const grouped = new Intl.NumberFormat("en-US");
const whole = (x) => grouped.format(x);
const exists = (x) => x !== null && x !== undefined;

function fixed(x, digits) {
  if (!exists(x)) return "–";
  x = Number(x);
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const text = x.toFixed(digits);
  return signed(/^-0\.?0*$/.test(text) ? text.slice(1) : text);
}

const percent = (x, digits = 1) => (exists(x) ? `${fixed(100 * Number(x), digits)}${THIN}%` : "–");
// A threshold with enough digits to count its samples again.
const exact = (t) => {
  const text = Number((100 * t).toPrecision(6));
  return `${t < 1 && text >= 100 ? 100 * t : text}${THIN}%`;
};
const points = (x, digits = 1) => {
  const text = fixed(100 * x, digits);
  return `${x > 0 && Number(text) ? "+" : ""}${text}`;
};
// Small shares keep two significant digits.
const share = (x) => (x !== 0 && Math.abs(x) < 0.0995 ? percent(x, x < 0.001 ? 3 : 2) : percent(x, 1));

// A metric's values as text, formatted as its declaration says.
function textOf(metric, digits = 3) {
  if (!metric.percent) return (v) => fixed(v, digits);
  if (metric.signed) return (v) => `${points(v)}${THIN}pts`;
  return metric.larger_is_better ? (v) => percent(v) : share;
}
// 1: larger is better, -1: smaller is, 0: neither.
const better = (metric) => (metric.larger_is_better === true ? 1 : metric.larger_is_better === false ? -1 : 0);

// A name is untrusted text: of any length, in any direction, with any characters.
function cut(text, most) {
  const clean = text.slice(0, 4 * most + 8).replace(/[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
  const letters = Array.from(clean);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : clean;
}
const isolated = (text, most) => `\u2068${cut(text, most)}\u2069`; // for SVG and sentences, which cannot contain <bdi>
const named = (text, most = 60) => el("bdi", { class: "name", title: text.length > most ? cut(text, 600) : null }, cut(text, most));
const className = (k) => data.class_names[k];
// A sentence made in Python: its numbers keep their unit and their minus sign.
const sentence = (text) => text.replace(/(\d) %/g, `$1${THIN}%`).replace(/(^|[\s(])-(?=\d)/g, "$1\u2212");

// What the reader has chosen. Each part of the page watches the keys that it shows.
const state = {};
const watchers = [];

function choose(changes) {
  const focused = document.activeElement instanceof HTMLElement || document.activeElement instanceof SVGElement ? document.activeElement : null;
  Object.assign(state, changes);
  for (const { keys, run } of watchers) if (keys.some((key) => key in changes)) run();
  keepFocus(focused);
  if (typeof writeAddress === "function") writeAddress();
}

// Redrawing may have removed the focused element. Its successor has the same data-focus, or is named by data-focus-else.
function keepFocus(focused) {
  if (!focused || focused.isConnected || !focused.dataset) return;
  for (const key of [focused.dataset.focus, focused.dataset.focusElse]) {
    const next = key && document.querySelector(`[data-focus="${CSS.escape(key)}"]`);
    if (next instanceof HTMLElement || next instanceof SVGElement) return next.focus({ preventScroll: true });
  }
}

function watch(keys, run) {
  watchers.push({ keys, run });
  run();
}

// A number that changes: screen readers announce it, and data-value holds all of its digits for tests.
function output(key, attributes) {
  const node = el("output", { "data-key": key, ...attributes });
  node.show = (value, text) => {
    node.setAttribute("data-value", String(value));
    node.textContent = text;
  };
  return node;
}

function slider(label, { min, max, step, value, key, change, text }) {
  const id = fresh("slider");
  const shown = el("output", { for: id, class: "setting" });
  const input = el("input", { id, type: "range", min, max, step, value, "data-key": key });
  const show = () => {
    shown.textContent = text(Number(input.value));
    input.setAttribute("aria-valuetext", text(Number(input.value)));
  };
  input.addEventListener("input", () => {
    show();
    change(Number(input.value));
  });
  show();
  const node = el("div", { class: "slider" }, el("label", { for: id }, label), input, shown);
  node.set = (next) => {
    input.value = next;
    show();
  };
  return node;
}

function choice(legend, key, options, chosen, change) {
  const group = fresh("choice");
  const radios = options.map(({ value, text }) => {
    const id = fresh("option");
    const input = el("input", { type: "radio", id, name: group, value, checked: value === chosen, "data-key": key });
    input.addEventListener("change", () => change(value));
    return [input, el("label", { for: id }, typeof text === "string" ? el("bdi", {}, cut(text, 48)) : text)];
  });
  const node = el("fieldset", { class: "choice" }, el("legend", {}, legend), el("div", { class: "options" }, radios));
  node.set = (value) => radios.forEach(([input]) => (input.checked = input.value === String(value)));
  return node;
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), children);
}

// A cell whose data-value holds all digits of the number shown, for tests and CSV files.
const numeric = (value, text) => el("span", { "data-value": value }, text);

function table(caption, head, rows, attributes) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      attributes,
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, head.map((text) => (text === "" ? el("td") : el("th", { scope: "col" }, text))))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, place) => el(place ? "td" : "th", place ? {} : { scope: "row" }, cell))))),
    ),
  );
}

// A chart's numbers as a table, built when the reader opens it.
function asTable(summary, make) {
  const body = el("div");
  const node = el("details", { class: "numbers" }, el("summary", {}, summary), body);
  const fill = () => node.open && body.replaceChildren(make());
  node.addEventListener("toggle", fill);
  node.refresh = fill;
  return node;
}

const dark = () => {
  if (state.printing) return false;
  return document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
};

function themeButton() {
  const button = el("button", { type: "button", class: "quiet", "data-key": "theme" });
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours");
  };
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    show();
    choose({ theme });
  };
  button.addEventListener("click", () => {
    const theme = dark() ? "light" : "dark";
    apply(theme);
    try {
      localStorage.setItem("softkin-theme", theme);
    } catch {
      // a page opened from a file may have no storage; the choice then lasts until the page is closed
    }
  });
  try {
    const kept = localStorage.getItem("softkin-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // as above
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    show();
    choose({ theme: null });
  });
  show();
  return button;
}

function masthead(links) {
  document.getElementById("top").prepend(
    el(
      "div",
      { class: "bar" },
      el("span", { class: "mark" }, "softkin"),
      el("nav", { "aria-label": "Sections" }, links.map(([id, text]) => el("a", { href: `#${id}` }, text))),
      el("span", { class: "tools" }, cardButton(), el("button", { type: "button", class: "quiet", click: () => print() }, "Print"), themeButton()),
    ),
  );
}

// How each kind of page is drawn, and the sections that other files add to it.
const PAGES = {};
const ADDED = {};
const addPage = (kind, draw) => (PAGES[kind] = draw);
const addSection = (kind, section) => (ADDED[kind] = [...(ADDED[kind] || []), section]);

// The sections of a page in order: its own, with each added one after the section that it names.
function arranged(kind, own) {
  const all = [...own];
  for (const added of ADDED[kind] || []) {
    const place = all.findIndex(({ id }) => id === added.after);
    all.splice(place < 0 ? all.length : place + 1, 0, added);
  }
  return all.filter(({ when }) => !when || when());
}

function drawPage(kind, own, notes) {
  const all = arranged(kind, own);
  masthead(all.filter(({ link }) => link).map(({ id, link }) => [id, link]));
  document.querySelectorAll(".no-script, noscript").forEach((node) => node.remove());
  document.getElementById("foot").append(...notes.map((note) => el("p", {}, note)), el("p", {}, `Made with softkin ${data.softkin}. This file is complete and makes no network requests.`));
  copyButtons();
  // A section `within` another stays inside its frame, so that a bar which controls several sticks to the screen there only.
  const home = (within) => (within && document.getElementById(`${within}-frame`)) || document.getElementById("main");
  UNMADE.push(...all.map(({ make, within }) => () => home(within).append(...[make()].filter(Boolean))));
  UNMADE.splice(0, AT_ONCE).forEach((make) => make());
}

// The first screen is in the file, and the sections that may show below it are made at once. Each later section is made in
// a task of its own, so that the page stays responsive. makeAll makes all of them now, for an address or for printing.
const UNMADE = [];
const AT_ONCE = 2;
function makeAll() {
  UNMADE.splice(0).forEach((make) => make());
}
function makeRest() {
  if (!UNMADE.length) return performance.mark("softkin-complete");
  UNMADE.shift()();
  setTimeout(makeRest);
}

// Add a copy button to each code block of the first screen.
function copyButtons() {
  document.querySelectorAll(".code pre").forEach((pre) => {
    const button = el("button", { type: "button", class: "chip copy" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre); // a page opened from a file has no clipboard: select the text instead
        button.textContent = "Selected";
      }
    });
    pre.after(button);
  });
}
