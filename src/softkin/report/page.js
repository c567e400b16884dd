// Elements, texts, numbers and state: what every part of the page uses. All texts become text nodes, never markup.

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
const given = (x) => x !== null && x !== undefined;

function fixed(x, digits) {
  if (!given(x)) return "–";
  x = Number(x);
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const text = x.toFixed(digits);
  return signed(/^-0\.?0*$/.test(text) ? text.slice(1) : text);
}

const percent = (x, digits = 1) => (given(x) ? `${fixed(100 * Number(x), digits)}${THIN}%` : "–");
const points = (x, digits = 1) => `${x > 0 ? "+" : ""}${fixed(100 * x, digits)}`;
// Small shares keep two digits that say something.
const share = (x) => (x !== 0 && Math.abs(x) < 0.0995 ? percent(x, x < 0.001 ? 3 : 2) : percent(x, 1));

// A metric's values as text, by what its declaration says of it.
function textOf(metric, digits = 3) {
  if (!metric.percent) return (v) => fixed(v, digits);
  if (metric.signed) return (v) => `${points(v)}${THIN}pts`;
  return metric.larger_is_better ? (v) => percent(v) : share;
}
// 1: larger is better, -1: smaller is, 0: neither.
const better = (metric) => (metric.larger_is_better === true ? 1 : metric.larger_is_better === false ? -1 : 0);

// A name is somebody's text: of any length, in any direction, with any character.
function cut(text, most) {
  const clean = text.slice(0, 4 * most + 8).replace(/[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
  const letters = Array.from(clean);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : clean;
}
const isolated = (text, most) => `\u2068${cut(text, most)}\u2069`; // for SVG and sentences, where <bdi> cannot stand
const named = (text, most = 60) => el("bdi", { class: "name", title: text.length > most ? cut(text, 600) : null }, cut(text, most));
const className = (k) => data.class_names[k];

// What the reader has chosen; parts of the page watch the keys that they show.
const state = {};
const watchers = [];

function choose(changes) {
  Object.assign(state, changes);
  for (const { keys, run } of watchers) if (keys.some((key) => key in changes)) run();
}

function watch(keys, run) {
  watchers.push({ keys, run });
  run();
}

// A number that changes: screen readers hear it, tests read it in full from data-value.
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

function table(caption, head, rows, attributes) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      attributes,
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, place) => el(place ? "td" : "th", place ? {} : { scope: "row" }, cell))))),
    ),
  );
}

// Every chart has its numbers as a table too; it is made when somebody opens it.
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
    button.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
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
      // a page opened from a file may have no storage; the choice then lasts as long as the page
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

function masthead(title, facts, links) {
  document.getElementById("top").append(
    el(
      "div",
      { class: "bar" },
      el("span", { class: "mark" }, "softkin"),
      el("nav", { "aria-label": "Sections" }, links.map(([id, text]) => el("a", { href: `#${id}` }, text))),
      el("span", { class: "tools" }, el("button", { type: "button", class: "quiet", click: () => print() }, "Print"), themeButton()),
    ),
    el("p", { class: "eyebrow" }, named(title, 120), ...facts.filter(Boolean).map((fact) => el("span", {}, fact))),
  );
}
