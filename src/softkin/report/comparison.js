// The page of a comparison: the methods of a study, or several models, side by side.

// Binary models and labels are judged by the probability of what they are about.
const ofPositive = () => (data.overview && data.overview.words && data.overview.words.positive) || null;

function comparisonPage() {
  const drawn = data.curves ? data.methods.filter((m) => data.curves[m.key]) : [];
  Object.assign(state, { bins: 15, methods: new Set((drawn.length ? drawn : data.methods).map((m) => m.key)) });
  const charts = () => Boolean(data.curves || data.ood || (data.histories && data.histories.length));
  const overview = document.getElementById("overview");
  if (ofPositive()) Object.assign(WORDS.prediction, { title: `Probability of ${cut(ofPositive(), 30)}`, what: "samples", x: `probability of ${cut(ofPositive(), 30)}`, y: "share for which it is true", note: "" });
  drawPage(
    "comparison",
    [
      { id: "table", link: "Table", make: tableSection },
      { id: "pairs", link: "Differences", when: () => data.pairs && data.pairs.length, make: pairsSection },
      { id: "methods", when: charts, make: methodBar },
      { id: "reliability", link: "Reliability", within: "methods", when: () => data.curves, make: overlaySection },
      { id: "wins", link: "Classes", within: "methods", when: () => data.classes, make: winsSection },
      { id: "agreement", link: "Agreement", within: "methods", when: () => data.agreement, make: agreementSection },
      { id: "sweep", link: "α and β", within: "methods", when: () => data.sweep, make: sweepSection },
      { id: "ood", link: "Unknown data", within: "methods", when: () => data.ood, make: oodSection },
      { id: "training", link: "Training", within: "methods", when: () => data.histories && data.histories.length, make: trainingSection },
      { id: "similarity", link: "Similarity", when: () => data.similarity, make: similarityChoice },
    ],
    ["A bin is (low, high]; 0 lies in the first. The error of the whole output is a sum per sample, as in the paper's tables."],
  );
  if (overview && data.overview) overview.replaceChildren(overviewFigure());
}
addPage("comparison", comparisonPage);

// Up to four methods share one chart; more get small charts, each with the others behind it. `groups` gives the lines of each
// method, `axes` the options of frame() for all of them, `brief` the options that differ in a small chart.
const TOGETHER = 4;

function methodCharts({ groups, height, axes, brief, beside = null, empty = "Choose a method above." }) {
  const drawable = () => groups().filter(({ lines }) => lines.some((line) => line.points.length));
  const all = (shown) => shown.flatMap(({ lines }) => lines);
  const together = chart((width) => {
    const shown = drawable();
    return shown.length ? lineChart(width, height(width), all(shown), axes(width, all(shown))) : el("p", { class: "note" }, empty);
  });
  const small = chart((width) => {
    const shown = drawable();
    const gap = 12, columns = Math.max(2, Math.floor((width + gap) / (170 + gap))), each = Math.floor((width - gap * (columns - 1)) / columns);
    const options = { ...axes(each, all(shown)), ...brief(all(shown)), xLabel: null, yLabel: null };
    return smallCharts(
      shown.map(({ method, lines }) => {
        // Behind each method stands the baseline alone, where there is one; all others would hide it.
        const baseline = data.overview && data.overview.baseline;
        const ghosts = all(shown).filter((line) => line.method !== method && !line.faded && (!baseline || line.method === baseline)).map((line) => ({ ...line, ghost: true, markers: false, bands: null }));
        const behind = baseline ? `${shortName(baseline)} behind it` : "the others behind it";
        const [root, tip] = lineChart(each, each * 0.92, [...ghosts, ...lines], { ...options, label: `${cut(methodName(method), 40)}, ${behind}: ${options.label} Page Down goes to the next chart.` });
        return el("div", { class: "multiple" }, el("p", { class: "multiple-name" }, swatch(place(method)), shortly(method), beside ? el("span", { class: "note" }, beside(method)) : null), el("div", { class: "chart" }, root, tip));
      }),
    );
  });
  const many = () => drawable().length > TOGETHER;
  const drawn = el("div", { class: "methods-drawn" }, together, small);
  drawn.picture = () => (many() ? gathered(small) : together.querySelector("svg"));
  drawn.legend = () => (many() ? [] : drawable().map(({ method }) => [swatch(place(method)), shortName(method)]));
  drawn.redraw = () => {
    together.hidden = many();
    small.hidden = !many();
    (many() ? together : small).replaceChildren();
    (many() ? small : together).redraw();
  };
  return drawn;
}

function overlaySection() {
  const figure = (scope) => {
    const lineOf = (method) => {
      const bins = binsOf(data.curves[method][scope], state.bins).filter((b) => b.count >= FEW);
      // Seeds may share their test samples, so a bin counts as one seed's; scores of one sample depend on each other.
      const seeds = Math.max(1, data.seeds.length);
      const bands = scope === "prediction" ? bins.map((b) => wilson(b.likelihood, b.count / seeds)) : null;
      return { method, place: place(method), markers: true, points: bins.map((b) => [b.confidence, b.likelihood]), bands, describe: (i) => [isolated(methodName(method), 40), ...binWords(bins[i], scope, bands && bands[i])] };
    };
    const shown = () => shownMethods().filter((m) => data.curves[m]);
    const drawn = methodCharts({
      groups: () => shown().map((method) => ({ method, lines: [lineOf(method)] })),
      beside: (method) => `ECE ${share(meanOf(data.curves[method][scope].ece[state.bins]))}`,
      height: (width) => Math.min(width, 480) * 0.92,
      axes: (width) => ({
        x: [0, 1], y: [0, 1], diagonal: true, left: 58, bottom: 42, xTicks: sharesFor(width), yTicks: ticks(0, 1, 5), xFormat: (v) => percent(v, 0), yFormat: (v) => percent(v, 0), xLabel: WORDS[scope].x, yLabel: WORDS[scope].y,
        label: `Reliability of ${WORDS[scope].what}, ${state.bins} bins. Arrow keys go through the points.`,
      }),
      brief: () => ({ left: 30, right: 14, bottom: 24, xTicks: [0, 0.5, 1], yTicks: [0, 0.5, 1], xFormat: (v) => fixed(100 * v, 0), yFormat: (v) => fixed(100 * v, 0) }),
    });
    const ranking = el("div", { class: "ranking" });
    const rows = () => {
      const lines = shown().map((method) => ({ method, values: data.curves[method][scope].ece[state.bins] }));
      return lines.sort((a, b) => meanOf(a.values) - meanOf(b.values));
    };
    const node = figureOf({
      title: WORDS[scope].title,
      note: `${WORDS[scope].note} Horizontal axis: ${WORDS[scope].x}. Vertical axis: ${WORDS[scope].y}. Both in %. ${scope === "prediction" ? `Upright lines: 95${THIN}% bands${data.seeds.length > 1 ? ", of as many samples as one seed has" : ""}. ` : ""}Bins with fewer than ${FEW} scores are left out.${data.overview && data.overview.baseline ? ` Grey: ${shortName(data.overview.baseline)}.` : ""}`,
      drawn,
      rows: () => table(`Reliability, ${WORDS[scope].what}`, [data.subject.slice(0, -1), "bin", WORDS[scope].what, "claimed", "true"], shown().flatMap((method) => binsOf(data.curves[method][scope], state.bins).filter((b) => b.count).map((b) => [named(methodName(method), 40), `${fixed(100 * b.low, 1)}–${percent(b.high)}`, numeric(b.count, whole(b.count)), numeric(b.confidence, percent(b.confidence, 2)), numeric(b.likelihood, percent(b.likelihood, 2))]))),
      after: el("div", {}, el("h4", {}, data.seeds.length > 1 ? "ECE with these bins, mean over seeds" : "ECE with these bins"), ranking),
    });
    watch(["methods", "bins"], () => {
      drawn.redraw();
      node.refresh();
      const lines = rows();
      const most = Math.max(...lines.map((line) => meanOf(line.values)), 1e-9);
      ranking.replaceChildren(
        ...lines.map(({ method, values }) => {
          const fill = el("span", { class: "fill" });
          fill.style.width = `${(100 * meanOf(values)) / most}%`;
          const number = output(`ece-${scope}`, { class: "num", "data-method": method });
          number.show(meanOf(values), percent(meanOf(values), 2));
          return el("div", { class: "barline" }, el("span", { class: "who" }, swatch(place(method)), shortly(method)), el("span", { class: "track" }, fill), number);
        }),
      );
    });
    return node;
  };
  return section(
    "reliability",
    "Is each as right as it is sure?",
    el("p", { class: "lead" }, `Below the dashed line a ${data.subject.slice(0, -1)} is over-confident; above it, under-confident.${data.seeds.length > 1 ? " The test samples of all seeds are pooled." : ""}`),
    el("div", { class: "controls" }, binsSlider()),
    ofPositive() ? figure("prediction") : el("div", { class: "pair" }, figure("prediction"), figure("output")),
  );
}

// Several small charts as one drawing, for saving. The holder has the class chart too, so that ".chart svg" would also
// match the swatch before a name.
function gathered(holder) {
  const box = holder.getBoundingClientRect();
  const root = svg("svg", { viewBox: `0 0 ${Math.ceil(box.width)} ${Math.ceil(box.height)}`, width: box.width, height: box.height });
  holder.querySelectorAll(".multiple").forEach((panel) => {
    const name = panel.querySelector(".name"), above = name.getBoundingClientRect();
    for (const drawing of panel.querySelectorAll(":scope > .chart > svg, .swatch")) {
      const at = drawing.getBoundingClientRect(), copy = drawing.cloneNode(true);
      Object.entries({ x: at.left - box.left, y: at.top - box.top }).forEach(([key, value]) => copy.setAttribute(key, String(value)));
      root.append(copy);
    }
    root.append(svg("text", { x: above.left - box.left, y: above.bottom - box.top - 4 }, name.textContent));
    const beside = panel.querySelector(".multiple-name .note");
    if (beside) {
      const at = beside.getBoundingClientRect();
      root.append(svg("text", { x: at.right - box.left, y: at.bottom - box.top - 4, "text-anchor": "end" }, beside.textContent));
    }
  });
  return root;
}

// Samples of none of the classes

function oodSection() {
  const figures = data.ood.map((set) => {
    const lineOf = (method) => {
      const m = state.bins, size = CELLS / m;
      const counts = Array.from({ length: m }, (_, b) => set.count[method].slice(b * size, (b + 1) * size).reduce((s, v) => s + v, 0));
      const total = counts.reduce((s, v) => s + v, 0) || 1;
      return { method, place: place(method), steps: true, points: counts.map((c, b) => [(b + 0.5) / m, c / total, 0.5 / m]), describe: (b) => [isolated(methodName(method), 30), `${percent(b / m)} to ${percent((b + 1) / m)}`, `${percent(counts[b] / total)} of the samples`] };
    };
    const highest = (lines) => Math.max(0.01, ...lines.flatMap((line) => line.points.map((p) => p[1]))) * 1.06;
    const drawn = methodCharts({
      groups: () => shownMethods().filter((method) => set.count[method]).map((method) => ({ method, lines: [lineOf(method)] })),
      height: () => 280,
      axes: (width, lines) => ({ x: [0, 1], y: [0, highest(lines)], left: 58, bottom: 42, xTicks: sharesFor(width), xFormat: (v) => percent(v, 0), yTicks: niceTicks(0, highest(lines), 4), yFormat: (v) => percent(v, 0), xLabel: "confidence of the answer", yLabel: "share of samples", label: `Confidence on ${cut(set.name, 60)}. Arrow keys go through the bins.` }),
      brief: (lines) => ({ left: 30, right: 14, bottom: 24, xTicks: [0, 0.5, 1], yTicks: niceTicks(0, highest(lines), 2), xFormat: (v) => fixed(100 * v, 0), yFormat: (v) => fixed(100 * v, 0) }),
    });
    const rows = () => {
      const known = shownMethods().filter((method) => set.count[method]);
      const columns = [set.mean, set.auroc, set.fpr_at_95, ...(set.auroc_mutual_information ? [set.auroc_mutual_information] : [])];
      const titles = ["method", "mean confidence", "AUROC", "FPR@95", "AUROC by disagreement"].slice(0, columns.length + 1);
      return table("Mean over seeds", titles, known.map((method) => [shortly(method), ...columns.map((values) => (values[method] === undefined ? "–" : numeric(values[method], percent(values[method]))))]));
    };
    const holder = el("div");
    watch(["methods", "bins"], () => {
      drawn.redraw();
      holder.replaceChildren(rows());
    });
    return figureOf({ title: cut(set.name, 60), note: "Horizontal axis: confidence of the answer. Vertical axis: share of samples. Both in %.", drawn, rows, after: holder });
  });
  return section("ood", "On out-of-distribution data", el("p", { class: "lead" }, `How confident each method is on samples that belong to none of its classes. It should not be confident there. AUROC: how often a known sample scores above an unknown one. FPR@95: the share of unknown samples accepted at the threshold that accepts 95${THIN}% of the known ones.${data.ood.some((set) => set.auroc_mutual_information) ? " By disagreement: the same AUROC by the mutual information of methods that average over members, in place of the winning score." : ""}`), el("div", { class: "multiples" }, figures));
}

// Training curves

const CURVES = [
  { key: "alpha", name: "α, adjusted by the validation gap", text: (v) => fixed(v, 3), short: (v) => fixed(v, 2) },
  { key: "loss", name: "Training loss", text: (v) => fixed(v, 2), short: (v) => fixed(v, 1) },
  { key: "validation_nll", name: "Validation NLL", text: (v) => fixed(v, 2), short: (v) => fixed(v, 1) },
  { key: "validation_accuracy", name: "Validation accuracy, %", text: (v) => percent(v, 0), short: (v) => fixed(100 * v, 0) },
  { key: "validation_ece", name: "Validation ECE, %", text: (v) => percent(v, 1), short: (v) => fixed(100 * v, 0) },
];

function trainingSection() {
  const figures = CURVES.filter(({ key }) => data.histories.some((h) => h.values[key])).map(({ key, name, text, short }) => {
    const finite = (run) => run.epochs.map((epoch, i) => [epoch, run.values[key][i]]).filter((p) => exists(p[1]) && Number.isFinite(Number(p[1]))).map(([x, y]) => [x, Number(y)]);
    // The mean over seeds, and each seed as a pale line where there are several.
    const linesOf = (method) => {
      const runs = data.histories.filter((h) => h.method === method && h.values[key]);
      const own = { method, place: place(method) }, sums = new Map(), seeds = [];
      for (const run of runs) {
        const points = finite(run);
        if (runs.length > 1) seeds.push({ ...own, faded: true, points, describe: (i) => [isolated(methodName(method), 30), `seed ${run.seed}, epoch ${points[i][0]}`, text(points[i][1])] });
        points.forEach(([x, y]) => sums.set(x, [...(sums.get(x) || []), y]));
      }
      const mean = [...sums].sort((a, b) => a[0] - b[0]).map(([x, values]) => [x, meanOf(values)]);
      return [...seeds, { ...own, points: mean, describe: (i) => [isolated(methodName(method), 30), `epoch ${mean[i][0]}, mean of ${sums.get(mean[i][0]).length}`, text(mean[i][1])] }];
    };
    const ends = (lines) => {
      const ys = lines.flatMap((line) => line.points.map((p) => p[1])), share = key.includes("accuracy");
      return [share ? Math.max(0, Math.min(...ys) - 0.02) : 0, share ? Math.min(1, Math.max(...ys) + 0.02) : Math.max(...ys) * 1.05 || 1];
    };
    const last = (lines) => Math.max(...lines.flatMap((line) => line.points.map((p) => p[0])), 2);
    const drawn = methodCharts({
      groups: () => shownMethods().map((method) => ({ method, lines: linesOf(method) })),
      height: () => 260,
      empty: "Choose a method that trains a network.",
      axes: (width, lines) => ({ x: [1, last(lines)], y: ends(lines), left: 58, bottom: 42, xTicks: niceTicks(1, last(lines), width < 460 ? 4 : 6), yTicks: niceTicks(...ends(lines), 4), yFormat: text, xLabel: "epoch", label: `${name} by epoch. Arrow keys go through the points.` }),
      brief: (lines) => ({ left: 34, right: 14, bottom: 24, xTicks: [1, last(lines)], yTicks: niceTicks(...ends(lines), 2), yFormat: short }),
    });
    watch(["methods"], drawn.redraw);
    const rows = () => {
      const runs = data.histories.filter((h) => state.methods.has(h.method) && h.values[key]);
      return table(`${name}, each run`, ["method", "seed", "epoch", name], runs.flatMap((run) => run.epochs.map((epoch, i) => [shortly(run.method), String(run.seed), String(epoch), exists(run.values[key][i]) ? numeric(run.values[key][i], text(run.values[key][i])) : "–"])));
    };
    return figureOf({ title: name, drawn, rows });
  });
  return section("training", "Training", el("p", { class: "lead" }, "The networks behind the results, by epoch; each pale line is one seed. A calibrator trains no network of its own."), el("div", { class: "multiples" }, figures));
}

function similarityChoice() {
  const holder = el("div");
  const show = (i) => {
    while (watchers.length > fixedWatchers) watchers.pop(); // the watchers of the removed section, which are the last ones
    while (ADDRESS.length > fixedAddress) ADDRESS.pop();
    const content = data.similarity[i];
    holder.replaceChildren(similaritySection(content, state.own ?? content.order[0]));
    const controls = holder.querySelector("section .lead");
    if (data.similarity.length > 1) controls.after(choice("Distances", "distances", data.similarity.map((s, value) => ({ value, text: s.name })), i, (value) => show(Number(value))));
  };
  const fixedWatchers = watchers.length, fixedAddress = ADDRESS.length;
  show(0);
  return holder;
}
