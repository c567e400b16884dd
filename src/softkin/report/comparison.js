// The page of a comparison: the methods of a study, or several models, side by side.

function comparisonPage() {
  const drawn = data.curves ? data.methods.filter((m) => data.curves[m.key]) : [];
  Object.assign(state, { bins: 15, methods: new Set((drawn.length ? drawn : data.methods).map((m) => m.key)) });
  const charts = () => Boolean(data.curves || data.ood || (data.histories && data.histories.length));
  drawPage(
    "comparison",
    [
      { id: "table", link: "Table", make: tableSection },
      { id: "pairs", link: "Differences", when: () => data.pairs && data.pairs.length, make: pairsSection },
      { id: "methods", when: charts, make: methodBar },
      { id: "reliability", link: "Reliability", when: () => data.curves, make: overlaySection },
      { id: "wins", link: "Classes", when: () => data.classes, make: winsSection },
      { id: "agreement", link: "Agreement", when: () => data.agreement, make: agreementSection },
      { id: "sweep", link: "α and β", when: () => data.sweep, make: sweepSection },
      { id: "ood", link: "Unknown data", when: () => data.ood, make: oodSection },
      { id: "training", link: "Training", when: () => data.histories && data.histories.length, make: trainingSection },
      { id: "similarity", link: "Similarity", when: () => data.similarity, make: similarityChoice },
    ],
    ["A bin is (low, high]; 0 lies in the first. The error of the whole output is a sum per sample, as in the paper's tables."],
  );
}
addPage("comparison", comparisonPage);

// Reliability: up to four methods in one chart; more than four in small charts, each with the others behind it.
const TOGETHER = 4;

function overlaySection() {
  const figure = (scope) => {
    const lineOf = (method) => {
      const bins = binsOf(data.curves[method][scope], state.bins).filter((b) => b.count >= FEW);
      return { method, place: place(method), markers: true, points: bins.map((b) => [b.confidence, b.likelihood]), describe: (i) => [isolated(methodName(method), 40), ...binWords(bins[i], scope, null)] };
    };
    const options = (width, label) => ({
      x: [0, 1], y: [0, 1], diagonal: true, xFormat: (v) => percent(v, 0), yFormat: (v) => percent(v, 0), label: `${label}, ${state.bins} bins. Arrow keys go through the points.`,
    });
    const shown = () => shownMethods().filter((m) => data.curves[m]);
    const together = chart((width) => {
      const lines = shown().map(lineOf);
      return lineChart(width, Math.min(width, 480) * 0.92, lines, { ...options(width, `Reliability of ${WORDS[scope].title.toLowerCase()} of ${lines.length} ${data.subject}`), left: 58, bottom: 42, xTicks: sharesFor(width), yTicks: ticks(0, 1, 5), xLabel: WORDS[scope].x, yLabel: WORDS[scope].y });
    });
    const small = chart((width) => {
      const lines = shown().map(lineOf);
      const columns = Math.max(2, Math.floor(width / 150)), each = Math.floor(width / columns) - 6;
      const multiples = lines.map((line) => {
        const ghosts = lines.filter((other) => other !== line).map((other) => ({ ...other, ghost: true, markers: false }));
        const [root, tip] = lineChart(each, each * 0.92, [...ghosts, line], { ...options(each, `Reliability of ${WORDS[scope].title.toLowerCase()} of ${cut(methodName(line.method), 40)}, the others behind it`), left: 34, right: 8, bottom: 24, xTicks: [0, 0.5, 1], yTicks: [0, 0.5, 1] });
        return el("div", { class: "multiple" }, el("p", { class: "multiple-name" }, swatch(line.place), named(methodName(line.method), 24)), el("div", { class: "chart" }, root, tip));
      });
      return el("div", { class: "multiples-small" }, multiples);
    });
    small.picture = () => gathered(small);
    const drawn = el("div", {}, together, small);
    drawn.picture = () => (shown().length > TOGETHER ? gathered(small) : together.querySelector("svg"));
    const ranking = el("div", { class: "ranking" });
    const rows = () => {
      const lines = shown().map((method) => ({ method, values: data.curves[method][scope].ece[state.bins] }));
      return lines.sort((a, b) => meanOf(a.values) - meanOf(b.values));
    };
    const node = figureOf({
      title: WORDS[scope].title,
      note: `${WORDS[scope].note} Bins with fewer than ${FEW} scores are left out.`,
      drawn,
      rows: () => table(`Reliability of ${WORDS[scope].title.toLowerCase()}`, [data.subject === "models" ? "model" : "method", "bin", WORDS[scope].what, "claimed", "true"], shown().flatMap((method) => binsOf(data.curves[method][scope], state.bins).filter((b) => b.count).map((b) => [named(methodName(method), 40), `${fixed(100 * b.low, 1)}–${percent(b.high)}`, numeric(b.count, whole(b.count)), numeric(b.confidence, percent(b.confidence, 2)), numeric(b.likelihood, percent(b.likelihood, 2))]))),
      after: el("div", {}, el("h4", {}, data.seeds.length > 1 ? "Calibration error with these bins, mean over seeds" : "Calibration error with these bins"), ranking),
    });
    watch(["methods", "bins"], () => {
      const many = shown().length > TOGETHER;
      together.hidden = many;
      small.hidden = !many;
      together.redraw();
      small.redraw();
      node.refresh();
      const lines = rows();
      const most = Math.max(...lines.map((line) => meanOf(line.values)), 1e-9);
      ranking.replaceChildren(
        ...lines.map(({ method, values }) => {
          const fill = el("span", { class: "fill" });
          fill.style.width = `${(100 * meanOf(values)) / most}%`;
          const number = output(`ece-${scope}`, { class: "num", "data-method": method });
          number.show(meanOf(values), percent(meanOf(values), 2));
          return el("div", { class: "barline" }, el("span", { class: "who" }, swatch(place(method)), named(methodName(method), 40)), el("span", { class: "track" }, fill), number);
        }),
      );
    });
    return node;
  };
  return section(
    "reliability",
    "Is each as right as it is sure?",
    el("p", { class: "lead" }, `Below the dashed line a ${data.subject === "models" ? "model" : "method"} is overconfident; above it, underconfident.${data.seeds.length > 1 ? " The test samples of all seeds are pooled." : ""}`),
    el("div", { class: "controls" }, binsSlider()),
    el("div", { class: "pair" }, figure("prediction"), figure("output")),
  );
}

// Several small charts as one drawing, for saving.
function gathered(holder) {
  const box = holder.getBoundingClientRect();
  const root = svg("svg", { class: "aside", viewBox: `0 0 ${Math.ceil(box.width)} ${Math.ceil(box.height)}`, width: box.width, height: box.height });
  holder.querySelectorAll(".multiple").forEach((one) => {
    const chartNode = one.querySelector(".chart svg"), at = chartNode.getBoundingClientRect(), name = one.querySelector(".name"), above = name.getBoundingClientRect();
    const copy = chartNode.cloneNode(true);
    Object.entries({ x: at.left - box.left, y: at.top - box.top }).forEach(([key, value]) => copy.setAttribute(key, String(value)));
    root.append(copy, svg("text", { x: above.left - box.left, y: above.bottom - box.top - 4 }, name.textContent));
  });
  holder.append(root);
  requestAnimationFrame(() => root.remove());
  return root;
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
    const rows = () => {
      const known = shownMethods().filter((method) => set.count[method]);
      return table("Mean over seeds", ["method", "mean confidence", "AUROC", "FPR@95"], known.map((method) => [named(methodName(method), 24), ...[set.mean, set.auroc, set.fpr_at_95].map((values) => numeric(values[method], percent(values[method])))]));
    };
    const holder = el("div");
    watch(["methods", "bins"], () => {
      drawn.redraw();
      holder.replaceChildren(rows());
    });
    return figureOf({ title: cut(set.name, 60), drawn, rows, after: holder });
  });
  return section("ood", "On data of no class", el("p", { class: "lead" }, "How confident each method is on samples that belong to none of its classes; it should not be. AUROC: how often a known sample scores above an unknown one. FPR@95: the share of unknown samples accepted at the threshold that accepts 95 % of the known ones."), el("div", { class: "multiples" }, figures));
}

// Training curves

const CURVES = [
  { key: "alpha", name: "α, moved by the validation gap", text: (v) => fixed(v, 3) },
  { key: "loss", name: "Training loss", text: (v) => fixed(v, 2) },
  { key: "validation_nll", name: "Validation log loss", text: (v) => fixed(v, 2) },
  { key: "validation_accuracy", name: "Validation accuracy", text: (v) => percent(v, 0) },
  { key: "validation_ece", name: "Validation ECE", text: (v) => percent(v, 1) },
];

function trainingSection() {
  const figures = CURVES.filter(({ key }) => data.histories.some((h) => h.values[key])).map(({ key, name, text }) => {
    const drawn = chart((width) => {
      const lines = [];
      for (const method of shownMethods()) {
        const runs = data.histories.filter((h) => h.method === method && h.values[key]);
        const sums = new Map();
        for (const run of runs) {
          const points = run.epochs.map((epoch, i) => [epoch, run.values[key][i]]).filter((p) => exists(p[1]) && Number.isFinite(Number(p[1]))).map(([x, y]) => [x, Number(y)]);
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
    const rows = () => {
      const runs = data.histories.filter((h) => state.methods.has(h.method) && h.values[key]);
      return table(`${name}, each run`, ["method", "seed", "epoch", name], runs.flatMap((run) => run.epochs.map((epoch, i) => [named(methodName(run.method), 24), String(run.seed), String(epoch), exists(run.values[key][i]) ? numeric(run.values[key][i], text(run.values[key][i])) : "–"])));
    };
    return figureOf({ title: name, drawn, rows });
  });
  return section("training", "Training", el("p", { class: "lead" }, "The networks behind the results; each pale line is one seed. A calibrator trains no network of its own."), el("div", { class: "multiples" }, figures));
}

function similarityChoice() {
  const holder = el("div");
  const show = (i) => {
    while (watchers.length > fixedWatchers) watchers.pop(); // those of the section that goes, which is the last
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
