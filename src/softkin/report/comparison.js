// The page of a comparison: methods side by side.

const place = (method) => data.methods.findIndex((m) => m.key === method);
const methodName = (method) => data.methods[place(method)].name;
const shownMethods = () => data.methods.filter((m) => state.methods.has(m.key)).map((m) => m.key);

function comparisonPage() {
  const drawn = data.curves ? data.methods.filter((m) => data.curves[m.key]) : [];
  // Eight lines are the most that an eye tells apart; the reader adds the others.
  Object.assign(state, { bins: 15, methods: new Set((drawn.length ? drawn : data.methods).slice(0, 8).map((m) => m.key)) });
  const seeds = data.seeds.length;
  masthead(
    data.name,
    [`${whole(data.methods.length)} methods`, seeds ? `${seeds} seed${seeds > 1 ? "s" : ""}` : null, `${whole(data.num_samples)} test samples`, `${whole(data.num_classes)} classes`],
    [["table", "Table"], data.curves ? ["reliability", "Reliability"] : null, data.sweep ? ["sweep", "α and β"] : null, data.ood ? ["ood", "Unknown data"] : null, data.histories && data.histories.length ? ["training", "Training"] : null, data.similarity ? ["similarity", "Similarity"] : null].filter(Boolean),
  );
  const parts = [tableSection(), data.curves || data.ood || data.histories ? methodBar() : null];
  if (data.curves) parts.push(overlaySection());
  if (data.sweep) parts.push(sweepSection());
  if (data.ood) parts.push(oodSection());
  if (data.histories && data.histories.length) parts.push(trainingSection());
  if (data.similarity) parts.push(similarityChoice());
  document.getElementById("main").replaceChildren(patterns(), ...parts.filter(Boolean));
  foot(["A bin is (low, high]; 0 lies in the first. The error of the whole output is a sum per sample, as in the paper's tables."]);
}

// The table, with its winner in plain words

function cellText(column, cell) {
  const scale = column.percent ? 100 : 1, digits = column.percent ? (column.key.startsWith("ece") ? 2 : 1) : 3;
  const text = `${column.signed && cell.mean > 0 ? "+" : ""}${fixed(cell.mean === null ? null : scale * Number(cell.mean), digits)}`;
  const beside = [given(cell.calibrated) ? fixed(scale * Number(cell.calibrated), digits) : "", given(cell.floor) ? `floor ${fixed(scale * Number(cell.floor), digits)}` : ""].filter(Boolean);
  return [text, given(cell.std) ? `±${THIN}${fixed(scale * Number(cell.std), digits)}` : "", beside.join(", ")];
}

// Who is best, and who is not told apart from the best, by the table's own marks.
function leader(key) {
  const best = data.table.rows.find((r) => r.cells[key] && r.cells[key].best);
  if (!best) return null;
  const level = data.table.rows.filter((r) => r !== best && r.cells[key] && r.cells[key].tie);
  return { best: isolated(methodName(best.method), 24), level: level.map((r) => isolated(methodName(r.method), 24)) };
}

function headline() {
  const found = leader("ece_hist");
  if (!found) return named(data.name, 120);
  if (found.level.length > 2) return `${found.level.length + 1} methods are level in calibration`;
  return found.level.length ? `Best calibrated: ${[found.best, ...found.level].join(" and ")}, which are level` : `Best calibrated: ${found.best}`;
}

function findings() {
  const say = (key, what) => {
    const found = leader(key);
    if (!found) return null;
    return `${what}: ${found.best}${found.level.length ? `, not told apart from ${found.level.join(", ")}` : ", ahead of all others beyond chance"}.`;
  };
  return data.metrics.filter(({ winner }) => winner).map(({ key, winner }) => say(key, winner)).filter(Boolean);
}

function tableSection() {
  const { rows } = data.table;
  const columns = data.table.columns.filter((c) => !data.ood || !/^(auroc|fpr_at_95) /.test(c.key)); // they have their own section
  state.tableSort = null;
  state.tableRising = false;
  const body = el("tbody");
  const arrow = (column) => (column.larger_is_better === true ? " ↑" : column.larger_is_better === false ? " ↓" : "");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", "data-key": `table-${column.key}`, click: () => choose({ tableSort: column.key, tableRising: state.tableSort === column.key ? !state.tableRising : column.larger_is_better !== true }) }, `${cut(column.title, 40)}${arrow(column)}`);
    return { column, th: el("th", { scope: "col" }, button) };
  });
  watch(["tableSort", "tableRising"], () => {
    const key = state.tableSort, turn = state.tableRising ? 1 : -1;
    const mean = (r) => (r.cells[key] && given(r.cells[key].mean) ? Number(r.cells[key].mean) : null);
    const sorted = key === null ? rows : [...rows].sort((a, b) => (mean(a) === null || mean(b) === null ? (mean(a) === null) - (mean(b) === null) : turn * (mean(a) - mean(b))));
    heads.forEach(({ column, th }) => (column.key === key ? th.setAttribute("aria-sort", state.tableRising ? "ascending" : "descending") : th.removeAttribute("aria-sort")));
    body.replaceChildren(
      ...sorted.map((row) =>
        el(
          "tr",
          { "data-method": row.method },
          el("th", { scope: "row" }, named(methodName(row.method), 40), row.chosen ? el("span", { class: "note chosen" }, cut(row.chosen, 80)) : null),
          columns.map((column) => {
            const cell = row.cells[column.key];
            if (!cell) return el("td", {}, "–");
            const [text, std, calm] = cellText(column, cell);
            const mark = cell.best ? "best" : cell.tie ? "tie" : null;
            return el(
              "td",
              { "data-column": column.key, "data-value": cell.mean },
              el("span", { class: mark }, text),
              cell.tie && !cell.best ? el("span", { class: "tie-mark", title: "not significantly worse than the best" }, " ≈") : null,
              std ? el("span", { class: "std" }, ` ${std}`) : null,
              calm ? el("span", { class: "note" }, `(${calm})`) : null,
            );
          }),
        ),
      ),
    );
  });
  const said = findings();
  return el(
    "section",
    { id: "table", class: "hero", "aria-labelledby": "verdict" },
    el("h1", { id: "verdict", class: "calm-title" }, headline()),
    data.recommendation && data.recommendation.length ? el("p", { class: "lead", id: "recommendation" }, data.recommendation.map((text) => cut(text, 400)).join(" ")) : null,
    data.source ? el("p", { class: "lead" }, named(data.source, 300)) : null,
    said.length ? el("ul", { class: "findings" }, said.map((text) => el("li", {}, text))) : null,
    el("div", { class: "scroll card flush", tabindex: "0", role: "region", "aria-label": "Table of methods" }, el("table", { class: "results" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Method"), heads.map(({ th }) => th))), body)),
    el("ul", { class: "notes" }, data.notes.map((note) => el("li", { class: "note" }, cut(note, 600)))),
  );
}

function methodBar() {
  const boxes = data.methods.map((m, i) => {
    const input = el("input", { type: "checkbox", value: m.key, checked: state.methods.has(m.key), "data-method": m.key });
    input.addEventListener("change", () => {
      if (input.checked) state.methods.add(m.key);
      else state.methods.delete(m.key);
      choose({ methods: state.methods });
    });
    return { input, node: el("label", {}, input, swatch(i), named(m.name, 24)) };
  });
  const every = (on) => () => {
    boxes.forEach(({ input }) => {
      input.checked = on;
      if (on) state.methods.add(input.value);
      else state.methods.delete(input.value);
    });
    choose({ methods: state.methods });
  };
  return el("div", { class: "sticky" }, el("fieldset", { class: "methods" }, el("legend", {}, "Methods on the charts"), boxes.map(({ node }) => node), el("button", { type: "button", class: "chip", click: every(true) }, "All"), el("button", { type: "button", class: "chip", click: every(false) }, "None")));
}

// Lines of several methods with one way to point at them

function lineChart(width, height, lines, options) {
  const f = frame(width, height, options);
  const all = lines.flatMap((line) => line.points.map((p, i) => ({ line, i, x: f.X(p[0]), y: f.Y(p[1]) })));
  const marked = svg("circle", { class: "ring", r: 7, cx: -20, cy: -20 });
  if (options.diagonal) f.root.append(svg("line", { class: "diagonal", x1: f.X(0), y1: f.Y(0), x2: f.X(1), y2: f.Y(1) }));
  for (const line of lines) {
    if (!line.points.length) continue;
    f.root.append(svg("path", { class: `line m${line.place % 8} ${line.faded ? "faded" : ""}`, "stroke-dasharray": line.faded ? null : DASHES[line.place % DASHES.length], d: line.steps ? steps(line.points, f) : path(line.points.map(([x, y]) => [f.X(x), f.Y(y)])), "data-method": line.method }));
    if (line.rings) f.root.append(...line.points.filter((_, i) => line.rings[i]).map(([x, y]) => svg("circle", { class: "ring chosen", cx: f.X(x), cy: f.Y(y), r: 8 })));
    if (line.markers) f.root.append(...line.points.map(([x, y]) => marker(line.place, f.X(x), f.Y(y), 3)));
  }
  f.root.append(marked);
  const tip = inspect(f.root, {
    count: () => all.length,
    at: (i) => all[i],
    pick: (x, y) => {
      let best = -1, least = 40 ** 2;
      all.forEach((p, i) => {
        const far = (p.x - x) ** 2 + (p.y - y) ** 2;
        if (far < least) [best, least] = [i, far];
      });
      return best;
    },
    describe: (i) => all[i].line.describe(all[i].i),
    mark: (i) => {
      marked.setAttribute("cx", i < 0 ? -20 : all[i].x);
      marked.setAttribute("cy", i < 0 ? -20 : all[i].y);
    },
  });
  return [f.root, tip];
}

// A histogram's outline: flat over each bin.
const steps = (points, f) => path(points.flatMap(([x, y, half]) => [[f.X(x - half), f.Y(y)], [f.X(x + half), f.Y(y)]]));

const meanOf = (values) => values.reduce((sum, v) => sum + Number(v), 0) / values.length;

function overlaySection() {
  const figure = (scope) => {
    const drawn = chart((width) => {
      const lines = shownMethods().filter((m) => data.curves[m]).map((method) => {
        const bins = binsOf(data.curves[method][scope], state.bins).filter((b) => b.count >= FEW);
        return {
          method, place: place(method), markers: true,
          points: bins.map((b) => [b.confidence, b.likelihood]),
          describe: (i) => [isolated(methodName(method), 30), ...binWords(bins[i], scope, null)],
        };
      });
      return lineChart(width, Math.min(width, 480) * 0.92, lines, {
        x: [0, 1], y: [0, 1], diagonal: true, left: 58, bottom: 42, xTicks: sharesFor(width), yTicks: ticks(0, 1, 5), xFormat: (v) => percent(v, 0), yFormat: (v) => percent(v, 0), xLabel: WORDS[scope].x, yLabel: WORDS[scope].y,
        label: `Reliability of ${WORDS[scope].title.toLowerCase()} of ${lines.length} methods, ${state.bins} bins. Arrow keys go through the points.`,
      });
    });
    const list = el("div", { class: "ranking" });
    watch(["methods", "bins"], () => {
      drawn.redraw();
      const rows = shownMethods().filter((m) => data.curves[m]).map((method) => ({ method, values: data.curves[method][scope].ece[state.bins] }));
      rows.sort((a, b) => meanOf(a.values) - meanOf(b.values));
      const most = Math.max(...rows.map((r) => meanOf(r.values)), 1e-9);
      list.replaceChildren(
        ...rows.map(({ method, values }) => {
          const fill = el("span", { class: "fill" });
          fill.style.width = `${(100 * meanOf(values)) / most}%`;
          const number = output(`ece-${scope}`, { class: "num", "data-method": method });
          number.show(meanOf(values), percent(meanOf(values), 2));
          return el("div", { class: "barline" }, el("span", { class: "who" }, swatch(place(method)), named(methodName(method), 20)), el("span", { class: "track" }, fill), number);
        }),
      );
    });
    return el("figure", { class: "card" }, el("figcaption", {}, el("h3", {}, WORDS[scope].title), el("p", { class: "note" }, `${WORDS[scope].note} Bins with fewer than ${FEW} scores are left out.`)), drawn, el("h4", {}, data.seeds.length > 1 ? "Calibration error with these bins, mean over seeds" : "Calibration error with these bins"), list);
  };
  return section(
    "reliability",
    "Is each as right as it is sure?",
    el("p", { class: "lead" }, "Below the dashed line a method claims more than comes true; above it, less. Test samples of all seeds together."),
    el("div", { class: "controls" }, binsSlider()),
    el("div", { class: "pair" }, figure("prediction"), figure("output")),
  );
}

// α and β

// The metrics that values are judged by, with two digits where they are percent and errors.
const swept = () => data.metrics.map((metric) => ({ key: metric.key, name: metric.title, text: metric.percent ? (v) => percent(v, metric.larger_is_better ? 1 : 2) : (v) => fixed(v, 3), better: better(metric) }));
// Axes need fewer digits than values do.
const axisText = ({ text }, [low, high]) => (text(0.5).endsWith("%") ? (v) => percent(v, high - low < 0.04 ? 1 : 0) : (v) => fixed(v, high - low < 0.1 ? 2 : 1));
const LETTERS = { alpha: "α", beta: "β", mixing: "a", gamma: "γ", margin: "m" };
const rounded = (v) => String(Number(Number(v).toPrecision(3)));
const valueWords = (values) => Object.entries(values).map(([key, v]) => `${LETTERS[key] || key} = ${rounded(v)}`).join(", ");

function sweepSection() {
  const { points: tried } = data.sweep;
  const available = swept().filter(({ key }) => tried.some((p) => given(p.validation[key])));
  const methods = [...new Set(tried.map((p) => p.method))];
  const grid = methods.find((m) => ["alpha", "beta"].every((key) => new Set(tried.filter((p) => p.method === m).map((p) => p.values[key])).size > 1));
  Object.assign(state, { sweepMethod: grid || methods[0], sweepMetric: available[0].key });
  const metric = () => available.find((m) => m.key === state.sweepMetric);
  const own = () => tried.filter((p) => p.method === state.sweepMethod && given(p.validation[state.sweepMetric]));

  const surface = chart((width) => sweepSurface(width, own(), metric()));
  const scale = el("div", { class: "ramp" });
  const front = chart((width) => sweepFront(width, tried, metric()));
  const numbers = asTable("Everything that was tried, as a table", () =>
    table("Validation metrics, mean over seeds", ["method and values", ...available.map((m) => m.name), "chosen on"], tried.map((p) => [el("span", {}, named(methodName(p.method), 24), ` ${valueWords(p.values)}`), ...available.map((m) => m.text(p.validation[m.key])), p.chosen ? `${p.chosen} of ${p.seeds} seeds` : ""])),
  );
  watch(["sweepMethod", "sweepMetric", "methods", "theme", "printing"], () => {
    const values = own().map((p) => Number(p.validation[state.sweepMetric])).filter(Number.isFinite);
    const [first, last] = metric().better < 0 ? [Math.max(...values), Math.min(...values)] : [Math.min(...values), Math.max(...values)];
    scale.hidden = varied(own()).length < 2;
    scale.replaceChildren(metric().text(first), stripe(0.08, 0.92), metric().text(last), el("span", {}, dark() ? "lighter is better" : "darker is better"));
    surface.redraw();
    front.redraw();
  });
  return section(
    "sweep",
    "What α and β do",
    el("p", { class: "lead" }, "Every set of values that was tried, judged on validation rows, as a mean over seeds. A ring marks what was chosen."),
    el(
      "div",
      { class: "controls" },
      methods.length > 1 ? choice("Method", "sweep-method", methods.map((m) => ({ value: m, text: methodName(m) })), state.sweepMethod, (sweepMethod) => choose({ sweepMethod })) : null,
      choice("Metric", "sweep-metric", available.map((m) => ({ value: m.key, text: m.name })), state.sweepMetric, (sweepMetric) => choose({ sweepMetric })),
    ),
    el(
      "div",
      { class: "pair" },
      el("figure", { class: "card" }, el("figcaption", {}, el("h3", {}, "By value")), surface, scale),
      el("figure", { class: "card" }, el("figcaption", {}, el("h3", {}, "Accuracy against error"), el("p", { class: "note" }, "Dashed: the front, values that none beats in both.")), front),
    ),
    numbers,
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
    return lineChart(width, 330, [line], { x, y, left: 66, bottom: 42, xTicks: niceTicks(x[0], x[1], 5), xFormat: rounded, yTicks: niceTicks(y[0], y[1], 5), yFormat: axisText(metric, y), xLabel: LETTERS[key] || key, yLabel: metric.name, label: `${metric.name} by ${key}. Arrow keys go through the values.` });
  }
  const [a, b] = keys;
  const xs = [...new Set(tried.map((p) => p.values[a]))].sort((m, n) => m - n), ys = [...new Set(tried.map((p) => p.values[b]))].sort((m, n) => m - n);
  const values = tried.map(value).filter(Number.isFinite), low = Math.min(...values), high = Math.max(...values);
  const height = Math.max(200, Math.min(360, 56 * ys.length + 52));
  const f = frame(width, height, { x: [0, xs.length], y: [0, ys.length], left: 56, bottom: 42, xLabel: LETTERS[a] || a, yLabel: LETTERS[b] || b, label: `${metric.name} by ${a} and ${b}, ${tried.length} values. Arrow keys go through them.` });
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
  // Accuracy against itself says nothing: then the output's error stands in.
  const error = metric.key === "accuracy" ? swept()[0] : metric;
  const points = tried.filter((p) => given(p.validation.accuracy) && Number.isFinite(Number(p.validation[error.key]))).map((p) => ({ p, a: Number(p.validation.accuracy), e: Number(p.validation[error.key]) }));
  if (!points.length) return el("p", { class: "note" }, "Nothing to draw.");
  const ends = (values) => {
    const low = Math.min(...values), high = Math.max(...values), room = (high - low) * 0.1 || 0.01;
    return [Math.max(0, low - room), high + room];
  };
  const x = ends(points.map((p) => p.a)), y = ends(points.map((p) => p.e));
  const f = frame(width, 360, { x, y, left: 66, bottom: 42, xTicks: niceTicks(x[0], x[1], width < 460 ? 4 : 5), yTicks: niceTicks(y[0], y[1], 5), xFormat: (v) => percent(v, x[1] - x[0] < 0.04 ? 1 : 0), yFormat: axisText(error, y), xLabel: "accuracy", yLabel: error.name, label: `Accuracy against ${error.name} of ${points.length} values. Arrow keys go through them.` });
  const best = points.filter((p) => !points.some((q) => q.a >= p.a && q.e <= p.e && (q.a > p.a || q.e < p.e))).sort((p, q) => p.a - q.a);
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
      let found = -1, least = 30 ** 2;
      order.forEach((o, i) => {
        const far = (f.X(o.a) - px) ** 2 + (f.Y(o.e) - py) ** 2;
        if (far < least) [found, least] = [i, far];
      });
      return found;
    },
    describe: (i) => [isolated(methodName(order[i].p.method), 30), valueWords(order[i].p.values), `accuracy ${percent(order[i].a)}`, `${error.name} ${error.text(order[i].e)}`, best.includes(order[i]) ? "on the front" : "beaten in both"],
  });
  return [f.root, tip];
}

// Samples of none of the classes

function oodSection() {
  const figures = data.ood.map((set) => {
    const drawn = chart((width) => {
      const m = state.bins;
      const size = CELLS / m;
      const lines = shownMethods().filter((method) => set.count[method]).map((method) => {
        const counts = Array.from({ length: m }, (_, b) => set.count[method].slice(b * size, (b + 1) * size).reduce((s, v) => s + v, 0));
        const total = counts.reduce((s, v) => s + v, 0) || 1;
        return { method, place: place(method), steps: true, points: counts.map((c, b) => [(b + 0.5) / m, c / total, 0.5 / m]), describe: (b) => [isolated(methodName(method), 30), `${percent(b / m)} to ${percent((b + 1) / m)}`, `${percent(counts[b] / total)} of the samples`] };
      });
      const most = Math.max(0.01, ...lines.flatMap((line) => line.points.map((p) => p[1]))) * 1.06;
      return lineChart(width, 280, lines, { x: [0, 1], y: [0, most], left: 58, bottom: 42, xTicks: sharesFor(width), xFormat: (v) => percent(v, 0), yTicks: niceTicks(0, most, 4), yFormat: (v) => percent(v, 0), xLabel: "confidence of the answer", yLabel: "share of samples", label: `Confidence on ${cut(set.name, 60)} of ${lines.length} methods. Arrow keys go through the bins.` });
    });
    const rows = el("div");
    watch(["methods", "bins"], () => {
      drawn.redraw();
      const some = shownMethods().filter((method) => set.count[method]);
      rows.replaceChildren(table("Mean over seeds", ["method", "mean confidence", "AUROC", "FPR@95"], some.map((method) => [named(methodName(method), 24), percent(set.mean[method]), percent(set.auroc[method]), percent(set.fpr_at_95[method])])));
    });
    return el("figure", { class: "card" }, el("figcaption", {}, el("h3", {}, named(set.name, 60))), drawn, rows);
  });
  return section("ood", "On data of no class", el("p", { class: "lead" }, "How sure each method is of samples that belong to none of its classes. It should not be. AUROC: how often a known sample scores above an unknown one. FPR@95: the share of unknown samples accepted where 95 % of the known are."), el("div", { class: "multiples" }, figures));
}

// Training curves

const CURVES = [
  { key: "loss", name: "Training loss", text: (v) => fixed(v, 2) },
  { key: "validation_nll", name: "Validation log loss", text: (v) => fixed(v, 2) },
  { key: "validation_accuracy", name: "Validation accuracy", text: (v) => percent(v, 0) },
  { key: "validation_ece", name: "Validation ECE", text: (v) => percent(v, 1) },
  { key: "alpha", name: "α, moved by the validation gap", text: (v) => fixed(v, 3) },
];

function trainingSection() {
  const figures = CURVES.filter(({ key }) => data.histories.some((h) => h.values[key])).map(({ key, name, text }) => {
    const drawn = chart((width) => {
      const lines = [];
      for (const method of shownMethods()) {
        const runs = data.histories.filter((h) => h.method === method && h.values[key]);
        const sums = new Map();
        for (const run of runs) {
          const points = run.epochs.map((epoch, i) => [epoch, run.values[key][i]]).filter((p) => given(p[1]) && Number.isFinite(Number(p[1]))).map(([x, y]) => [x, Number(y)]);
          if (runs.length > 1) lines.push({ method, place: place(method), faded: true, points, describe: (i) => [isolated(methodName(method), 30), `seed ${run.seed}, epoch ${points[i][0]}`, text(points[i][1])] });
          points.forEach(([x, y]) => sums.set(x, [...(sums.get(x) || []), y]));
        }
        const mean = [...sums].sort((a, b) => a[0] - b[0]).map(([x, values]) => [x, meanOf(values)]);
        lines.push({ method, place: place(method), points: mean, describe: (i) => [isolated(methodName(method), 30), `epoch ${mean[i][0]}, mean of ${sums.get(mean[i][0]).length}`, text(mean[i][1])] });
      }
      const all = lines.flatMap((line) => line.points);
      if (!all.length) return el("p", { class: "note" }, "Choose a method that trains a network.");
      const ys = all.map((p) => p[1]), last = Math.max(...all.map((p) => p[0]), 2);
      const low = key.includes("accuracy") ? Math.max(0, Math.min(...ys) - 0.02) : 0, high = key.includes("accuracy") ? Math.min(1, Math.max(...ys) + 0.02) : Math.max(...ys) * 1.05 || 1;
      return lineChart(width, 260, lines, { x: [1, last], y: [low, high], left: 58, bottom: 42, xTicks: niceTicks(1, last, width < 460 ? 4 : 6), yTicks: niceTicks(low, high, 4), yFormat: text, xLabel: "epoch", label: `${name} by epoch. Arrow keys go through the points.` });
    });
    watch(["methods"], drawn.redraw);
    return el("figure", { class: "card" }, el("figcaption", {}, el("h3", {}, name)), drawn);
  });
  return section("training", "Training", el("p", { class: "lead" }, "Networks behind the results, pale lines a seed each. A calibrator trains none of its own."), el("div", { class: "multiples" }, figures));
}

function similarityChoice() {
  const holder = el("div");
  const show = (i) => {
    while (watchers.length > fixedWatchers) watchers.pop(); // those of the section that goes
    const content = data.similarity[i];
    holder.replaceChildren(similaritySection(content, state.own ?? content.order[0]));
    const controls = holder.querySelector("section .lead");
    if (data.similarity.length > 1) controls.after(choice("Distances", "distances", data.similarity.map((s, value) => ({ value, text: s.name })), i, (value) => show(Number(value))));
  };
  const fixedWatchers = watchers.length;
  show(0);
  return holder;
}
