// Plain SVG: axes, marks, and one way to look at a chart's parts by pointer, touch or arrow keys.

// A chart is drawn for its current width, and again when the width changes or on request.
const CHARTS = [];
function chart(draw) {
  const node = el("div", { class: "chart" });
  let width = 0;
  const run = () => {
    width = width || Math.floor(node.clientWidth); // 0 outside the page
    if (width) node.replaceChildren(...[draw(width, node)].flat());
  };
  CHARTS.push(node);
  new ResizeObserver((entries) => {
    const next = Math.floor(entries[0].contentRect.width);
    if (next !== width) {
      width = next;
      run();
    }
  }).observe(node);
  node.redraw = run;
  return node;
}

const ticks = (low, high, count) => Array.from({ length: count + 1 }, (_, i) => low + ((high - low) * i) / count);

const sharesFor = (width, many = 5) => ticks(0, 1, width < 460 ? 4 : many);

// Round steps: 1, 2 or 5 times a power of ten.
function niceTicks(low, high, about = 5) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / about));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= about + 0.5);
  const marks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) marks.push(i * step + 0); // not −0
  return marks;
}

function frame(width, height, options) {
  const { x, y, label, xLabel, yLabel, left = 46, right = 20, top = 10, bottom = 40 } = options;
  const { xTicks = [], yTicks = [], xFormat = String, yFormat = String, yScale = (v) => v } = options;
  const X = (v) => left + ((v - x[0]) / (x[1] - x[0])) * (width - left - right);
  const [y0, y1] = y.map(yScale);
  const Y = (v) => height - bottom - ((yScale(v) - y0) / (y1 - y0)) * (height - top - bottom);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  const axes = svg("g", { class: "axes", "aria-hidden": "true" });
  for (const v of yTicks) {
    axes.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: Y(v), y2: Y(v) }),
      svg("text", { x: left - 7, y: Y(v) + 4, "text-anchor": "end" }, yFormat(v)),
    );
  }
  for (const v of xTicks) {
    axes.append(svg("text", { x: X(v), y: height - bottom + 17, "text-anchor": "middle" }, xFormat(v)));
  }
  axes.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  if (xLabel) axes.append(svg("text", { class: "title", x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle" }, xLabel));
  if (yLabel) {
    const middle = (top + height - bottom) / 2;
    axes.append(svg("text", { class: "title", x: 12, y: middle, "text-anchor": "middle", transform: yLabel.length > 2 ? `rotate(-90 12 ${middle})` : null }, yLabel));
  }
  root.append(axes);
  return { root, X, Y, left, right, top, bottom, width, height, base: height - bottom };
}

// Pointer, touch and arrow keys choose one of `count()` parts; a tip beside the part describes it, also to screen
// readers. Up and down move by `stride()` parts if the parts lie in lines. A click, Enter or a second tap calls
// `open(i)`, if there is one, to show more of a part. What was chosen by touch stays chosen until the next touch.
/**
 * @param {any} root
 * @param {{ count: () => number, at: (i: number) => { x: number, y: number }, pick: (x: number, y: number) => number,
 *   describe: (i: number) => string[], mark?: (i: number) => void, stride?: () => number,
 *   open?: { what?: string, possible: (i: number) => boolean, run: (i: number) => void } }} parts
 */
function inspect(root, { count, at, pick, describe, mark, open, stride = () => 1 }) {
  const tip = el("div", { class: "tip", role: "status", "aria-live": "polite", hidden: true });
  let current = -1;
  let byTouch = false;
  let before = -1; // what was chosen when the finger came down
  const show = (i) => {
    if (i < 0 || i >= count()) return hide();
    if (i === current) return;
    current = i;
    const lines = describe(i);
    if (open && open.possible(i)) lines.push(byTouch ? `tap again for ${open.what || "the samples"}` : `click or Enter for ${open.what || "the samples"}`);
    tip.replaceChildren(...lines.map((line, place) => el(place ? "span" : "strong", {}, line)));
    tip.hidden = false;
    const { x, y } = at(i);
    const room = root.parentNode ? root.parentNode.clientWidth : 0;
    const scale = room && root.viewBox ? root.getBoundingClientRect().width / root.viewBox.baseVal.width : 1;
    const half = tip.offsetWidth / 2;
    tip.style.left = `${Math.max(half, Math.min(room - half, x * scale))}px`;
    tip.style.top = `${y * scale}px`;
    tip.classList.toggle("below", y * scale < tip.offsetHeight + 14);
    if (mark) mark(i);
  };
  const hide = () => {
    current = -1;
    tip.hidden = true;
    if (mark) mark(-1);
  };
  const over = (event) => {
    byTouch = event.pointerType === "touch";
    const box = root.getBoundingClientRect();
    const scale = root.viewBox ? root.viewBox.baseVal.width / box.width : 1;
    show(pick((event.clientX - box.left) * scale, (event.clientY - box.top) * scale));
  };
  const more = (i) => {
    if (!open || i < 0 || !open.possible(i)) return;
    open.run(i);
  };
  root.setAttribute("tabindex", "0");
  root.addEventListener("pointermove", over);
  root.addEventListener("pointerdown", (event) => {
    before = current;
    over(event);
  });
  root.addEventListener("pointerleave", (event) => event.pointerType === "touch" || hide());
  root.addEventListener("click", () => (!byTouch || before === current) && more(current));
  root.addEventListener("blur", () => byTouch || hide());
  addEventListener("pointerdown", (event) => {
    if (byTouch && event.target instanceof Node && !root.contains(event.target)) hide();
  });
  root.addEventListener("keydown", (event) => {
    byTouch = false;
    const step = { ArrowRight: 1, ArrowDown: stride(), ArrowLeft: -1, ArrowUp: -stride() }[event.key];
    if (event.key === "Escape") hide();
    else if (event.key === "Home" || event.key === "End") show(event.key === "Home" ? 0 : count() - 1);
    else if (step) show(current < 0 ? (step > 0 ? 0 : count() - 1) : Math.max(0, Math.min(count() - 1, current + step)));
    else if (open && (event.key === "Enter" || event.key === " ")) more(current);
    else return;
    event.preventDefault();
  });
  return tip;
}

// Several parts count as one stop of the Tab key: `keys` lead from one to the next, as +1 or −1.
function oneStop(holder, parts, keys) {
  parts.forEach((part, i) => part.setAttribute("tabindex", i ? "-1" : "0"));
  holder.addEventListener("keydown", (event) => {
    const at = parts.indexOf(document.activeElement), next = parts[at + (keys[event.key] || 0)];
    if (at < 0 || !keys[event.key] || !next) return;
    event.preventDefault();
    parts[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  return holder;
}
const PAGE_KEYS = { PageDown: 1, PageUp: -1 };
const ARROW_KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
const smallCharts = (panels) => {
  const holder = el("div", { class: "multiples-small" }, panels);
  return oneStop(holder, Array.from(holder.querySelectorAll(".multiple > .chart > svg")), PAGE_KEYS);
};

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");

const nearest = (values, wanted) => {
  let best = -1;
  values.forEach((value, i) => {
    if (best < 0 || Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = i;
  });
  return best;
};

// Up to 20 methods differ in colour, dash and marker; those that share a colour share neither dash nor marker, so that
// nobody has to tell colours apart. diagrams.py draws the same series.
const DASHES = ["", "7 3", "2 2.5", "8 3 2 3", "4 2", "1 3", "12 3", "6 2 2 2 2 2", "3 5", "10 2 4 2"];
const MARKERS = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  (x, y, r) => `M${x} ${y - r * 1.3}L${x + r * 1.3} ${y}L${x} ${y + r * 1.3}L${x - r * 1.3} ${y}Z`,
  (x, y, r) => `M${x} ${y - r * 1.2}L${x + r * 1.2} ${y + r}L${x - r * 1.2} ${y + r}Z`,
  (x, y, r) => `M${x} ${y + r * 1.2}L${x + r * 1.2} ${y - r}L${x - r * 1.2} ${y - r}Z`,
  (x, y, r) => `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`,
  (x, y, r) => `M${x - r * 1.2} ${y}H${x + r * 1.2}M${x} ${y - r * 1.2}V${y + r * 1.2}`,
];
const COLOURS = 8;
function series(i) {
  const round = Math.floor(i / COLOURS);
  return { colour: i % COLOURS, dash: DASHES[(i + 3 * round) % DASHES.length], marker: (i + round) % MARKERS.length };
}
const marker = (i, x, y, r = 3.4) => svg("path", { class: `mark m${series(i).colour}`, d: MARKERS[series(i).marker](x, y, r) });

function swatch(i) {
  return svg(
    "svg",
    { class: "swatch", viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true" },
    svg("path", { class: `line m${series(i).colour}`, "stroke-dasharray": series(i).dash, d: "M0 6H30" }),
    marker(i, 15, 6),
  );
}


// From pale to dark on a light background, the reverse on a dark one. One family of hues: lightness alone shows the order.
const RAMPS = {
  light: [[247, 246, 241], [205, 222, 233], [134, 181, 212], [49, 124, 177], [10, 70, 122], [6, 34, 68]],
  dark: [[27, 30, 36], [22, 54, 84], [23, 92, 138], [55, 140, 184], [134, 191, 216], [226, 239, 243]],
};
function ramp(t) {
  const stops = RAMPS[dark() ? "dark" : "light"];
  const place = Math.max(0, Math.min(1, t)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(place));
  return stops[i].map((c, channel) => Math.round(c + (stops[i + 1][channel] - c) * (place - i)));
}

function stripe(from = 0, to = 1) {
  const strip = el("i", { "aria-hidden": "true" });
  strip.style.background = `linear-gradient(to right, ${ticks(from, to, 5).map((t) => `rgb(${ramp(t)})`).join(", ")})`;
  return strip;
}
