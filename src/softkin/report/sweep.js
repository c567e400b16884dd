// The values of α, β and other parameters that were tried

// The metrics by which values are judged; errors in percent get two digits.
const swept = () => data.metrics.map((metric) => ({ key: metric.key, name: metric.title, text: metric.percent ? (v) => percent(v, metric.larger_is_better ? 1 : 2) : (v) => fixed(v, 3), better: better(metric) }));
// Axes need fewer digits than values do.
/** @param {any} metric @param {number[]} ends */
const axisText = ({ text }, [low, high]) => (text(0.5).endsWith("%") ? (v) => percent(v, high - low < 0.04 ? 1 : 0) : (v) => fixed(v, high - low < 0.1 ? 2 : 1));
// Pages made before the data had letters show the parameter's name.
const letterOf = (key) => (data.sweep.letters || {})[key] || key;
const rounded = (v) => String(Number(Number(v).toPrecision(3)));
const valueWords = (values) => Object.entries(values).map(([key, v]) => `${letterOf(key)} = ${rounded(v)}`).join(", ");

function sweepSection() {
  const { points: tried } = data.sweep;
  const available = swept().filter(({ key }) => tried.some((p) => exists(p.validation[key])));
  const methods = [...new Set(tried.map((p) => p.method))];
  const grid = methods.find((m) => ["alpha", "beta"].every((key) => new Set(tried.filter((p) => p.method === m).map((p) => p.values[key])).size > 1));
  Object.assign(state, { sweepMethod: grid || methods[0], sweepMetric: available[0].key });
  const metric = () => available.find((m) => m.key === state.sweepMetric);
  const own = () => tried.filter((p) => p.method === state.sweepMethod && exists(p.validation[state.sweepMetric]));

  const surface = chart((width) => sweepSurface(width, own(), metric()));
  const scale = el("div", { class: "ramp" });
  const front = chart((width) => sweepFront(width, tried, metric()));
  const rows = (points) => () =>
    table("Validation metrics, mean over seeds", ["method and values", ...available.map((m) => m.name), "chosen on"], points().map((p) => [el("span", {}, named(methodName(p.method), 24), ` ${valueWords(p.values)}`), ...available.map((m) => numeric(p.validation[m.key], m.text(p.validation[m.key]))), p.chosen ? `${p.chosen} of ${p.seeds} seeds` : ""]));
  const figures = [
    figureOf({ title: "By value", drawn: surface, after: scale, rows: rows(own) }),
    figureOf({ title: "Accuracy against error", note: "Dashed: the Pareto front, the values that no others beat in both.", drawn: front, rows: rows(() => tried) }),
  ];
  watch(["sweepMethod", "sweepMetric", "methods", "theme", "printing"], () => {
    const values = own().map((p) => Number(p.validation[state.sweepMetric])).filter(Number.isFinite);
    const [first, last] = metric().better < 0 ? [Math.max(...values), Math.min(...values)] : [Math.min(...values), Math.max(...values)];
    scale.hidden = varied(own()).length < 2;
    scale.replaceChildren(metric().text(first), stripe(0.08, 0.92), metric().text(last), el("span", {}, dark() ? "lighter is better" : "darker is better"));
    surface.redraw();
    front.redraw();
    figures.forEach((figure) => figure.refresh());
  });
  return section(
    "sweep",
    "What α and β do",
    el("p", { class: "lead" }, "Every set of values that was tried, with its mean over seeds on the validation rows. A ring marks the chosen values."),
    el(
      "div",
      { class: "controls" },
      methods.length > 1 ? choice("Method", "sweep-method", methods.map((m) => ({ value: m, text: methodName(m) })), state.sweepMethod, (sweepMethod) => choose({ sweepMethod })) : null,
      choice("Metric", "sweep-metric", available.map((m) => ({ value: m.key, text: m.name })), state.sweepMetric, (sweepMetric) => choose({ sweepMetric })),
    ),
    el(
      "div",
      { class: "pair" },
      figures,
    ),
  );
}

// The parameters that took more than one value.
const varied = (tried) => [...new Set(tried.flatMap((p) => Object.keys(p.values)))].filter((key) => new Set(tried.map((p) => p.values[key])).size > 1);

// Two parameters: a grid of cells. One: a line.
function sweepSurface(width, tried, metric) {
  const keys = varied(tried);
  const value = (p) => Number(p.validation[metric.key]);
  if (keys.length < 2) {
    const key = keys[0] || Object.keys(tried[0].values)[0];
    const sorted = [...tried].sort((a, b) => a.values[key] - b.values[key]);
    const xs = sorted.map((p) => p.values[key]), ys = sorted.map(value);
    const room = (Math.max(...ys) - Math.min(...ys)) * 0.12 || 0.01;
    const y = [Math.max(0, Math.min(...ys) - room), Math.max(...ys) + room];
    const x = xs.length > 1 ? [xs[0], xs[xs.length - 1]] : [xs[0] - 0.5, xs[0] + 0.5];
    const line = { method: tried[0].method, place: place(tried[0].method), markers: true, rings: sorted.map((p) => p.chosen > 0), points: sorted.map((p, i) => [xs[i], ys[i]]), describe: (i) => [valueWords(sorted[i].values), `${metric.name} ${metric.text(ys[i])}`, sorted[i].chosen ? `chosen on ${sorted[i].chosen} of ${sorted[i].seeds} seeds` : "not chosen"] };
    return lineChart(width, 330, [line], { x, y, left: 66, bottom: 42, xTicks: niceTicks(x[0], x[1], 5), xFormat: rounded, yTicks: niceTicks(y[0], y[1], 5), yFormat: axisText(metric, y), xLabel: letterOf(key), yLabel: metric.name, label: `${metric.name} by ${key}. Arrow keys go through the values.` });
  }
  const [a, b] = keys;
  const xs = [...new Set(tried.map((p) => p.values[a]))].sort((m, n) => m - n), ys = [...new Set(tried.map((p) => p.values[b]))].sort((m, n) => m - n);
  const values = tried.map(value).filter(Number.isFinite), low = Math.min(...values), high = Math.max(...values);
  const height = Math.max(200, Math.min(360, 56 * ys.length + 52));
  const f = frame(width, height, { x: [0, xs.length], y: [0, ys.length], left: 56, bottom: 42, xLabel: letterOf(a), yLabel: letterOf(b), label: `${metric.name} by ${a} and ${b}, ${tried.length} values. Arrow keys go through them.` });
  const cells = tried.map((p) => {
    const i = xs.indexOf(p.values[a]), j = ys.indexOf(p.values[b]);
    const good = high > low ? (metric.better < 0 ? high - value(p) : value(p) - low) / (high - low) : 0.5;
    return { p, x: f.X(i), y: f.Y(j + 1), w: f.X(i + 1) - f.X(i), h: f.Y(j) - f.Y(j + 1), t: 0.08 + 0.84 * good };
  });
  const group = svg("g", { class: "surface" });
  for (const c of cells) {
    const colour = ramp(c.t), bright = (colour[0] * 299 + colour[1] * 587 + colour[2] * 114) / 1000;
    group.append(svg("rect", { x: c.x + 1, y: c.y + 1, width: c.w - 2, height: c.h - 2, rx: 4, fill: `rgb(${colour})`, "data-value": value(c.p) }));
    if (c.w > 46) group.append(svg("text", { class: bright > 140 ? "on-light" : "on-dark", x: c.x + c.w / 2, y: c.y + c.h / 2 + 4, "text-anchor": "middle" }, metric.text(value(c.p))));
    if (c.p.chosen) group.append(svg("rect", { class: "chosen", x: c.x + 3, y: c.y + 3, width: c.w - 6, height: c.h - 6, rx: 3, fill: "none" }));
  }
  xs.forEach((v, i) => group.append(svg("text", { class: "tick", x: f.X(i + 0.5), y: f.base + 17, "text-anchor": "middle" }, rounded(v))));
  ys.forEach((v, j) => group.append(svg("text", { class: "tick", x: f.left - 8, y: f.Y(j + 0.5) + 4, "text-anchor": "end" }, rounded(v))));
  f.root.append(group);
  const tip = inspect(f.root, {
    count: () => cells.length,
    at: (i) => ({ x: cells[i].x + cells[i].w / 2, y: cells[i].y }),
    pick: (x, y) => cells.findIndex((c) => x >= c.x && x < c.x + c.w && y >= c.y && y < c.y + c.h),
    describe: (i) => [valueWords(cells[i].p.values), `${metric.name} ${metric.text(value(cells[i].p))}`, `accuracy ${percent(cells[i].p.validation.accuracy)}`, cells[i].p.chosen ? `chosen on ${cells[i].p.chosen} of ${cells[i].p.seeds} seeds` : "not chosen"],
  });
  return [f.root, tip];
}

function sweepFront(width, tried, metric) {
  // Accuracy against itself shows nothing: use the error of the output instead.
  const error = metric.key === "accuracy" ? swept()[0] : metric;
  const points = tried.filter((p) => exists(p.validation.accuracy) && Number.isFinite(Number(p.validation[error.key]))).map((p) => ({ p, a: Number(p.validation.accuracy), e: Number(p.validation[error.key]) }));
  if (!points.length) return el("p", { class: "note" }, "Nothing to draw.");
  const ends = (values) => {
    const low = Math.min(...values), high = Math.max(...values), room = (high - low) * 0.1 || 0.01;
    return [Math.max(0, low - room), high + room];
  };
  const x = ends(points.map((p) => p.a)), y = ends(points.map((p) => p.e));
  const f = frame(width, 360, { x, y, left: 66, bottom: 42, xTicks: niceTicks(x[0], x[1], width < 460 ? 4 : 5), yTicks: niceTicks(y[0], y[1], 5), xFormat: (v) => percent(v, x[1] - x[0] < 0.04 ? 1 : 0), yFormat: axisText(error, y), xLabel: "accuracy", yLabel: error.name, label: `Accuracy against ${error.name} of ${points.length} values. Arrow keys go through them.` });
  const cost = (p) => (error.better > 0 ? -p.e : p.e);
  const best = points.filter((p) => !points.some((q) => q.a >= p.a && cost(q) <= cost(p) && (q.a > p.a || cost(q) < cost(p)))).sort((p, q) => p.a - q.a);
  f.root.append(svg("path", { class: "front", d: path(best.map((p) => [f.X(p.a), f.Y(p.e)])), "data-front": best.length }));
  const order = [...points].sort((p, q) => p.a - q.a);
  for (const { p, a, e } of order) {
    const own = p.method === state.sweepMethod;
    if (p.chosen) f.root.append(svg("circle", { class: "ring chosen", cx: f.X(a), cy: f.Y(e), r: 8 }));
    const shape = marker(place(p.method), f.X(a), f.Y(e), own ? 4.6 : 3.2);
    if (!own) shape.classList.add("faded");
    f.root.append(shape);
  }
  const tip = inspect(f.root, {
    count: () => order.length,
    at: (i) => ({ x: f.X(order[i].a), y: f.Y(order[i].e) }),
    pick: (px, py) => {
      let nearest = -1, least = 30 ** 2;
      order.forEach((o, i) => {
        const far = (f.X(o.a) - px) ** 2 + (f.Y(o.e) - py) ** 2;
        if (far < least) [nearest, least] = [i, far];
      });
      return nearest;
    },
    describe: (i) => [isolated(methodName(order[i].p.method), 30), valueWords(order[i].p.values), `accuracy ${percent(order[i].a)}`, `${error.name} ${error.text(order[i].e)}`, best.includes(order[i]) ? "on the front" : "beaten in both"],
  });
  return [f.root, tip];
}
