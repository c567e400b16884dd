// The page of one model. Its first screen is plain HTML, from answers.py; the sections below it are drawn here.

const variant = () => data.variants[state.variant];

function modelPage() {
  Object.assign(state, { variant: 0, bins: data.n_bins, sort: "adds", rising: false, filter: "", open: null, all: false, log: null });
  addAddress({
    key: "calibrator",
    get: () => (state.variant ? variant().key : null),
    set: (text) => {
      const wanted = { ts: "temperature" }[text] || text;
      const place = data.variants.findIndex((v) => v.key === wanted || v.name === text);
      if (place >= 0) choose({ variant: place });
    },
  });
  const worst = () => {
    const adds = classRows().map((c) => c.adds);
    return adds.indexOf(Math.max(...adds));
  };
  drawPage(
    "model",
    [
      { id: "variant", when: () => data.variants.length > 1, make: variantBar },
      { id: "numbers", link: "Numbers", make: numbersSection },
      { id: "reliability", link: "Reliability", make: reliabilitySection },
      { id: "confidence", make: confidenceSection },
      { id: "classes", link: data.pairs ? "Groups" : "Classes", when: () => !data.pairs || data.num_classes > 2, make: classesSection },
      { id: "mistakes", link: "Mistakes", make: mistakesSection },
      { id: "calibrators", link: "Calibrators", make: calibratorsSection },
      { id: "abstain", link: "Abstaining", make: abstainSection },
      { id: "similarity", link: "Similarity", when: () => data.similarity, make: () => similaritySection(data.similarity, worst()) },
    ],
    [
      `Brackets and bands are ${percent(data.level, 0)} intervals from ${whole(data.resamples)} resamples of whole samples. Intervals of calibration errors are for the error over these bins; chance can only increase such an error.`,
      "A bin is (low, high]; 0 lies in the first. The error of the whole output is summed per sample, as in the paper's tables, so it can exceed that of the answers.",
    ],
  );
}
addPage("model", modelPage);

// The few numbers that matter, each on a scale with its ends

function numbersSection() {
  const headline = el("h2", { id: "numbers-title" });
  const detail = el("p", { class: "lead" });
  const cards = el("div", { class: "cards" });
  const more = asTable("More numbers", () => {
    const m = variant().metrics;
    const rows = data.metrics.filter(({ key, shown }) => m[key] && !shown.includes("card")).map((metric) => {
      const { value, low, high, floor, caveat, no_interval: why, when_calibrated: usual } = m[metric.key], text = textOf(metric, 4);
      const notes = [
        usual && exists(low) && Number(low) === 0 ? `may be chance alone, which would show ${text(usual.value)} on average` : usual ? `if calibrated, chance alone would show ${text(usual.value)}` : "",
        exists(floor) ? `smoothing alone gives ${share(floor)}: compare this value with that, and do not rank models by it` : "",
        caveat || "",
        exists(low) ? "" : why || "",
      ];
      return [
        metric.name,
        el("span", { "data-metric": metric.key, "data-value": value }, text(value)),
        exists(low) ? `${text(low)} – ${text(high)}` : "",
        notes.filter(Boolean).join("; "),
      ];
    });
    return table("More numbers", ["metric", "value", "interval", "note"], rows);
  });
  const made = data.metrics.filter(({ shown }) => shown.includes("card")).map(metricCard);
  cards.append(...made.map(({ node }) => node));
  watch(["variant"], () => {
    const v = variant();
    headline.textContent = state.variant ? `With ${v.name.charAt(0).toLowerCase()}${v.name.slice(1)}: ${v.verdict.headline.charAt(0).toLowerCase()}${v.verdict.headline.slice(1)}` : "The numbers";
    detail.textContent = state.variant ? sentence(v.verdict.detail) : "Each value with its interval. The frame shows what chance alone would give if the model were calibrated.";
    made.forEach(({ show }) => show(v));
    more.refresh();
  });
  return el("section", { id: "numbers", "aria-labelledby": "numbers-title" }, el("div", { "aria-live": "polite" }, headline, detail), cards, more);
}

// The end of a scale: the smallest round number above all values.
const ROUND = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
const roundAbove = (v) => ROUND.find((r) => r >= v * 0.999) || 10 ** Math.ceil(Math.log10(v));

function metricCard(metric) {
  const { key, name, about } = metric, text = textOf(metric);
  const number = output(key, { class: "big" });
  const interval = el("span", { class: "interval" });
  const change = el("span", { class: "change" });
  const note = el("span", { class: "note" });
  const range = el("span", { class: "range" });
  const dot = el("span", { class: "dot" });
  const calm = el("span", { class: "calm" });
  const track = el("div", { class: "scale", "aria-hidden": "true" }, calm, range, dot);
  const ends = data.variants.flatMap((v) => [v.metrics[key].value, v.metrics[key].low, v.metrics[key].high, v.metrics[key].when_calibrated && v.metrics[key].when_calibrated.high]).filter(exists).map(Number).filter(Number.isFinite);
  const size = Math.max(0, ...ends.map(Math.abs));
  const high = metric.larger_is_better && exists(metric.at_most) ? metric.at_most : roundAbove(size || 0.01);
  const low = metric.signed ? -high : 0;
  const at = (v) => `${Math.max(0, Math.min(100, (100 * (Number(v) - low)) / (high - low)))}%`;
  const span = (node, a, b) => {
    node.style.left = at(a);
    node.style.right = `calc(100% - ${at(b)})`;
  };
  if (metric.signed) {
    const zero = el("span", { class: "zero" });
    zero.style.left = at(0);
    track.append(zero);
  }
  const brief = (v) => (metric.percent ? `${metric.signed && v > 0 ? "+" : ""}${signed(String(Number((100 * v).toPrecision(3))))}${metric.signed ? "" : `${THIN}%`}` : signed(String(v)));
  const axis = el("div", { class: "ends", "aria-hidden": "true" }, el("span", {}, brief(low)), metric.signed ? el("span", {}, "0") : null, el("span", {}, exists(metric.at_most) && high < metric.at_most ? `${brief(high)} (of ${brief(metric.at_most)})` : brief(high)));
  const show = (v) => {
    const m = v.metrics[key];
    number.show(m.value, text(m.value));
    const within = metric.percent && m.when_calibrated && exists(m.low) && Number(m.low) === 0; // chance alone may show it
    interval.textContent = !exists(m.low) ? "" : within ? `at most ${text(m.high)}; may be chance alone` : `${text(m.low)} to ${text(m.high)}`;
    note.textContent = [about, m.when_calibrated ? `if calibrated, chance alone would show ${share(m.when_calibrated.value)}` : "", m.caveat || ""].filter(Boolean).join("; ");
    dot.style.left = at(m.value);
    if (exists(m.low)) span(range, m.low, m.high);
    calm.hidden = !m.when_calibrated;
    if (m.when_calibrated) span(calm, m.when_calibrated.low, m.when_calibrated.high);
    // Say better or worse only if the paired interval of the difference excludes 0.
    const moved = v.against_raw && v.against_raw[key];
    const significant = moved && Number(moved.difference) !== 0 ? Math.sign(Number(moved.low)) === Math.sign(Number(moved.high)) : null;
    const gain = moved ? better(metric) * Number(moved.difference) : 0;
    change.textContent = significant === null || significant === undefined ? "" : `${significant ? (gain > 0 ? "better than" : "worse than") : "not significantly different from"} ${text(data.variants[0].metrics[key].value)}`;
    change.className = significant ? (gain > 0 ? "change good" : "change bad") : "change";
  };
  return { node: el("div", { class: "card metric", "data-metric": key }, el("span", { class: "metric-name" }, name), number, interval, track, axis, change, note), show };
}

function variantBar() {
  const note = el("p", { class: "note", role: "status" });
  const best = data.calibrators.length > 1 ? data.variants.find((v) => v.name === data.calibrators[0].name) : null;
  const node = choice("Show the probabilities", "variant", data.variants.map((v, value) => ({ value, text: best === v ? `${cut(v.name.replace(/ \(.*\)$/u, ""), 34)} (best of ${data.calibrators.length})` : v.name })), 0, (value) => choose({ variant: Number(value) }));
  watch(["variant"], () => {
    node.set(state.variant);
    note.textContent = variant().note || "As in the file.";
  });
  return el("div", { class: "sticky" }, node, note);
}

// Reliability of prediction and output

function reliabilitySection() {
  const figure = (scope) => {
    const number = output(`reliability-${scope}`, { class: "big" });
    const live = { bins: [], bands: null };
    const samples = data.num_samples;
    const list = (b) =>
      scope === "prediction"
        ? showSamples(`Answers given with ${binName(b)}`, rowsWhere((answer, label, code) => binOf(code, state.bins) === b.bin))
        : showSamples(`Samples with a score of ${binName(b)}`, rowsScoring(b.bin, state.bins), b.low < 0.2 ? `Only the ${decodedRows().most} best classes of each sample are searched.` : null);
    const drawn = chart((width) => reliabilityChart(width, live.bins, live.bands, scope, `Reliability of ${WORDS[scope].title.toLowerCase()}, ${state.bins} bins, ECE ${percent(errorOf(live.bins, samples), 2)}. Arrow keys go through the bins, Enter lists the samples.`, list));
    drawn.legend = () => legendKeys();
    drawn.heading = () => `${WORDS[scope].title}, ${variant().name.toLowerCase()}: ECE ${share(errorOf(live.bins, samples))}, ${state.bins} bins`;
    const node = figureOf({
      title: WORDS[scope].title,
      note: WORDS[scope].note,
      before: el("p", { class: "readout" }, number, el("span", { class: "note" }, scope === "output" ? " ECE with these bins, per sample" : " ECE with these bins")),
      drawn,
      rows: () => binTable(live.bins, scope, live.bands),
    });
    watch(["variant", "bins"], () => {
      const cells = variant()[scope];
      live.bins = binsOf(cells, state.bins);
      live.bands = cells.bands[state.bins];
      const error = errorOf(live.bins, samples);
      number.show(error, share(error));
      drawn.redraw();
      node.refresh();
    });
    return node;
  };
  return section(
    "reliability",
    "Is it as right as it is sure?",
    el("p", { class: "lead" }, `Each bar shows how often scores in that range are right. On the dashed line accuracy equals confidence. Bins with fewer than ${FEW} scores are shown as points.`),
    el("div", { class: "controls" }, binsSlider(), legend()),
    el("div", { class: "pair" }, figure("prediction"), data.pairs ? null : figure("output")),
  );
}

const binName = (b) => `${fixed(100 * b.low, (100 * b.low) % 1 ? 1 : 0)} to ${percent(b.high, (100 * b.high) % 1 ? 1 : 0)}`;

// What the marks of a reliability diagram mean, as [drawing, text].
function legendKeys() {
  const key = (kind, text) => [svg("svg", { class: "key", viewBox: "0 0 22 14", width: 22, height: 14, "aria-hidden": "true" }, ...kind), text];
  return [
    key([svg("rect", { class: "bar", width: 22, height: 14 })], "came true"),
    key([svg("rect", { class: "gap over", width: 22, height: 14 }), svg("line", { class: "claim", x1: 0, x2: 22, y1: 1, y2: 1 })], "claimed too much"),
    key([svg("rect", { class: "gap under", width: 22, height: 14 }), svg("line", { class: "claim", x1: 0, x2: 22, y1: 13, y2: 13 })], "claimed too little"),
    key([svg("path", { class: "whisker", d: "M11 1V13" })], `${percent(data.level, 0)} band`),
  ];
}
const legend = () => el("ul", { class: "legend" }, legendKeys().map(([drawing, text]) => el("li", {}, drawing, text)));

// How sure the answers are: right and wrong ones

// If one bar holds most answers, the others are invisible on a linear scale: use a logarithmic one.
const lopsided = (bins) => Math.max(...bins.map((b) => b.count)) > 0.6 * bins.reduce((sum, b) => sum + b.count, 0);

function confidenceSection() {
  const live = { bins: [] };
  const sure = output("mean-confidence"), right = output("mean-accuracy");
  const logarithmic = () => (state.log === null ? lopsided(live.bins) : state.log);
  const draw = (width) => {
    const log = logarithmic();
    const most = Math.max(1, ...live.bins.map((b) => b.count));
    const yTicks = log ? [0, ...Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, i) => 10 ** i)] : niceTicks(0, most, 4);
    const f = frame(width, Math.max(200, Math.min(300, width * 0.34)), {
      x: [0, 1], y: [0, most * (log ? 1.3 : 1.06)], yScale: log ? (v) => Math.log10(1 + v) : undefined,
      label: `Histogram of the confidence of ${whole(data.num_samples)} answers, the right and the wrong ones${log ? ", on a logarithmic scale" : ""}. Arrow keys go through the bins, Enter lists the samples.`,
      xTicks: sharesFor(width, 10), xFormat: (v) => percent(v, 0), yTicks, yFormat: whole, xLabel: "confidence of the answer", yLabel: log ? "answers (log)" : "answers", left: 64, bottom: 42,
    });
    const zones = svg("g");
    for (const b of live.bins) {
      const x = f.X(b.low), w = Math.max(1, f.X(b.high) - x - 1.5), wrong = b.count - b.hit, all = f.Y(b.count);
      // Wrong answers are at the bottom, where both scales show their number correctly.
      const split = f.Y(wrong);
      zones.append(svg("rect", { class: "zone", x, width: w + 1, y: f.top, height: f.base - f.top }));
      f.root.append(svg("rect", { class: "bar", x, width: w, y: all, height: split - all }), svg("rect", { class: "gap over", x, width: w, y: split, height: f.base - split }));
    }
    f.root.insertBefore(zones, f.root.childNodes[1]);
    const totals = live.bins.reduce((t, b) => ({ n: t.n + b.count, s: t.s + b.score, h: t.h + b.hit }), { n: 0, s: 0, h: 0 });
    const line = (v, kind, text, anchor) => [
      svg("line", { class: `rule ${kind}`, x1: f.X(v), x2: f.X(v), y1: f.top, y2: f.base }),
      svg("text", { class: `rule-text ${kind}`, x: f.X(v) + (anchor === "end" ? -6 : 6), y: f.top + 12, "text-anchor": anchor }, text),
    ];
    const s = totals.s / totals.n, h = totals.h / totals.n;
    f.root.append(...line(h, "truth", "right", h <= s ? "end" : "start"), ...line(s, "claimed", "sure", h <= s && s < 0.9 ? "start" : "end"));
    const tip = inspect(f.root, {
      count: () => live.bins.length,
      at: (i) => ({ x: (f.X(live.bins[i].low) + f.X(live.bins[i].high)) / 2, y: f.Y(live.bins[i].count) }),
      pick: (x) => Math.floor(((x - f.left) / (f.width - f.left - f.right)) * live.bins.length),
      describe: (i) => {
        const b = live.bins[i];
        return [binName(b), `${whole(b.hit)} right`, `${whole(b.count - b.hit)} wrong`];
      },
      mark: (i) => zones.childNodes.forEach((zone, place) => zone instanceof Element && zone.classList.toggle("on", place === i)),
      open: haveRows() ? { possible: (i) => live.bins[i].count > 0, run: (i) => showSamples(`Answers given with ${binName(live.bins[i])}`, rowsWhere((answer, label, code) => binOf(code, state.bins) === i)) } : undefined,
    });
    return [f.root, tip];
  };
  const drawn = chart(draw);
  const node = figureOf({
    title: "Answers by confidence",
    drawn,
    rows: () => table("Answers by confidence", ["confidence", "right", "wrong"], live.bins.map((b) => [binName(b), numeric(b.hit, whole(b.hit)), numeric(b.count - b.hit, whole(b.count - b.hit))])),
  });
  const scale = choice("Scale", "log", [{ value: "linear", text: "linear" }, { value: "log", text: "logarithmic" }], "linear", (value) => choose({ log: value === "log" }));
  watch(["variant", "bins", "log"], () => {
    live.bins = binsOf(variant().prediction, state.bins);
    const n = data.num_samples, s = live.bins.reduce((t, b) => t + b.score, 0) / n, h = live.bins.reduce((t, b) => t + b.hit, 0) / n;
    sure.show(s, percent(s));
    right.show(h, percent(h));
    scale.set(logarithmic() ? "log" : "linear");
    drawn.redraw();
    node.refresh();
  });
  return section(
    "confidence",
    "How sure it is",
    el("p", { class: "lead" }, "On average it is ", sure, " sure and ", right, " right. Wrong answers are hatched; right answers, above them, are solid."),
    el("div", { class: "controls" }, scale),
    node,
  );
}

// The wrong answers with the highest confidence

function mistakesSection() {
  const grid = el("div", { class: "mistakes" });
  const few = matchMedia("(max-width: 44rem)").matches ? 6 : 12;
  const more = el("button", { type: "button", class: "more", "data-focus": "more-mistakes", click: () => choose({ allMistakes: !state.allMistakes }) });
  const lead = el("p", { class: "lead" });
  watch(["variant", "allMistakes"], () => {
    const mistakes = variant().mistakes;
    const high = variant().risk_coverage;
    lead.textContent = mistakes.length ? "Wrong answers, the surest first. Look here for wrong labels and for classes that cannot be told apart." : `Not one of the ${whole(high.answered[high.answered.length - 1])} answers is wrong.`;
    // One card for each pair of truth and answer, its surest mistake first.
    const pairs = new Map();
    for (const mistake of mistakes) {
      const key = `${data.samples[mistake.row].label} ${mistake.answer}`;
      pairs.set(key, [...(pairs.get(key) || []), mistake]);
    }
    const groups = [...pairs.values()];
    grid.replaceChildren(...(state.allMistakes ? groups : groups.slice(0, few)).map(([first, ...others]) => {
      const node = sampleCard({ ...data.samples[first.row], ...first }), { label } = data.samples[first.row];
      if (others.length) node.append(el("p", { class: "note" }, haveRows() ? el("button", { type: "button", class: "link listed", click: () => showPair(label, first.answer) }, `and ${others.length} more of the surest like it`) : `and ${others.length} more like it`));
      return node;
    }));
    more.hidden = groups.length <= few;
    more.textContent = state.allMistakes ? `Show ${few}` : `Show ${groups.length}`;
  });
  return section("mistakes", "Surest mistakes", lead, grid, more);
}

// The pairs of classes that are confused most, with a few of their samples

const MOST_PAIRS = 5;

function confusedSection() {
  const list = el("ol", { class: "confused" });
  watch(["variant"], () => {
    const counts = new Map();
    rowsWhere((answer, label) => {
      if (answer !== label) counts.set(label * data.num_classes + answer, (counts.get(label * data.num_classes + answer) || 0) + 1);
      return false;
    });
    const turned = (pair) => (pair % data.num_classes) * data.num_classes + Math.floor(pair / data.num_classes);
    const more = ([pair, count]) => count > (counts.get(turned(pair)) || 0) || (count === counts.get(turned(pair)) && pair < turned(pair));
    const most = [...counts].filter(more).sort((a, b) => b[1] - a[1]).slice(0, MOST_PAIRS);
    list.replaceChildren(
      ...most.map(([pair, count]) => {
        const label = Math.floor(pair / data.num_classes), answer = pair % data.num_classes;
        const rows = rowsWhere((given, truth) => truth === label && given === answer);
        const shown = rows.filter((row) => data.samples[row] && data.samples[row].image).slice(0, 4);
        const text = rows.map((row) => data.samples[row] && data.samples[row].text).find(Boolean);
        return el(
          "li",
          { class: "card", "data-pair": `${label} ${answer}` },
          el("p", {}, el("strong", {}, named(className(label), 40)), " answered as ", el("strong", { class: "over-text" }, named(className(answer), 40))),
          el("p", { class: "note" }, el("button", { type: "button", class: "link listed", click: () => showPair(label, answer) }, `${whole(count)} of ${whole(data.class_sizes[label])} samples`), `, and ${whole(counts.get(answer * data.num_classes + label) || 0)} the other way`),
          shown.length ? el("div", { class: "minis" }, shown.map((row) => picture({ ...data.samples[row], id: sampleOf(row).id }, 48))) : null,
          text && !shown.length ? el("blockquote", { dir: "auto" }, cut(text, 140)) : null,
        );
      }),
    );
  });
  return section("confused", "Most confused classes", list);
}
addSection("model", { id: "confused", link: "Confused", after: "classes", when: () => haveRows() && data.num_classes > 2 && !data.pairs && data.variants[0].mistakes.length > 2, make: confusedSection });

// What calibrators would do

function calibratorsSection() {
  if (!data.calibrators.length) {
    return section("calibrators", "What calibration would do", el("p", { class: "lead" }, "Not tried: there are too few samples to fit on one half and test on the other, or no calibrator was requested."));
  }
  const raw = data.variants[0].metrics;
  const compared = data.metrics.filter(({ shown }) => shown.includes("compare"));
  const exact = ({ percent: inPercent }) => (v) => numeric(v, inPercent ? share(v) : fixed(v, 3));
  const rows = data.calibrators.map((calibrator) => {
    const place = data.variants.findIndex((v) => v.name === calibrator.name);
    const show = place > 0 ? el("button", { type: "button", class: "chip", "data-show": place, click: () => choose({ variant: place }) }, "Show") : "";
    if (calibrator.failed) return [named(calibrator.name), el("span", { class: "note" }, cut(calibrator.failed, 160)), ...compared.map(() => "")];
    return [
      el("span", {}, named(calibrator.name), calibrator.warnings.length ? el("span", { class: "note", title: cut(calibrator.warnings.join(" "), 600) }, " with a warning") : null),
      ...compared.map((metric) => exact(metric)(calibrator.metrics[metric.key])),
      show,
    ];
  });
  const first = ["As it is", ...compared.map((metric) => exact(metric)(raw[metric.key].value)), el("button", { type: "button", class: "chip", "data-show": 0, click: () => choose({ variant: 0 }) }, "Show")];
  const shown = [first, ...rows].map((cells) => cells[1 + compared.length]).filter((cell) => cell instanceof HTMLElement);
  watch(["variant"], () => shown.forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.show) === state.variant))));
  return section(
    "calibrators",
    "What calibration would do",
    el("p", { class: "lead" }, "Cross-fitted in two folds on this one file: each half is calibrated by a fit on the other half, so no sample is judged by a fit that saw it. Sorted by NLL; the first was chosen by these numbers, so expect it to do slightly worse on new data."),
    el("div", { class: "card flush" }, table("Calibrators, cross-fitted in two folds", ["calibrator", ...compared.map(({ title }) => title), "on the page"], [first, ...rows])),
  );
}
