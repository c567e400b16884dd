// The page of one model.

const variant = () => data.variants[state.variant];

function modelPage() {
  Object.assign(state, { variant: 0, bins: 15, sort: "adds", rising: false, filter: "", open: null, all: false });
  masthead(
    data.name,
    [`${whole(data.num_samples)} samples`, `${whole(data.num_classes)} classes`, data.source && data.source !== data.name ? named(data.source, 80) : null],
    [["reliability", "Reliability"], ["classes", "Classes"], ["mistakes", "Mistakes"], ["calibrators", "Calibrators"], ["abstain", "Abstaining"], data.similarity ? ["similarity", "Similarity"] : null].filter(Boolean),
  );
  const parts = [heroSection(), data.variants.length > 1 ? variantBar() : null, reliabilitySection(), confidenceSection(), classesSection(), mistakesSection(), calibratorsSection(), abstainSection()];
  if (data.similarity) {
    const adds = classRows().map((c) => c.adds);
    parts.push(similaritySection(data.similarity, adds.indexOf(Math.max(...adds))));
  }
  document.getElementById("main").replaceChildren(patterns(), ...parts.filter(Boolean));
  foot([
    `Brackets and bands are ${percent(data.level, 0)} intervals from ${whole(data.resamples)} resamples of whole samples. For calibration errors they are for the error over these bins; chance only ever adds to such an error.`,
    "A bin is (low, high]; 0 lies in the first. The error of the whole output is a sum per sample, as in the paper's tables, so it can be larger than that of the answers.",
  ]);
}

function foot(notes) {
  document.getElementById("foot").append(...notes.map((note) => el("p", {}, note)), el("p", {}, `Made with softkin ${data.softkin}. This file is complete: it asks nothing of any network.`));
}

// Headline, sentence, and the few numbers that matter

function heroSection() {
  const kind = el("p", { class: "verdict-kind" });
  const headline = el("h1", { id: "verdict" });
  const detail = el("p", { class: "lead" });
  const cards = el("div", { class: "cards" });
  const more = asTable("More numbers", () => {
    const m = variant().metrics;
    const rows = data.metrics.filter(({ key, shown }) => m[key] && !shown.includes("card")).map((metric) => {
      const { value, low, high, floor, caveat } = m[metric.key], text = textOf(metric, 4);
      return [
        metric.name,
        el("span", { "data-metric": metric.key, "data-value": value }, text(value)),
        given(low) ? `${text(low)} – ${text(high)}` : "",
        given(floor) ? `smoothing alone shows ${share(floor)}: read this number against that, and call no winner by it` : caveat || "",
      ];
    });
    return table("More numbers", ["metric", "value", "interval", "note"], rows);
  });
  const made = data.metrics.filter(({ shown }) => shown.includes("card")).map(metricCard);
  cards.append(...made.map(({ node }) => node));
  watch(["variant"], () => {
    const v = variant();
    kind.textContent = state.variant ? `With ${v.name.charAt(0).toLowerCase()}${v.name.slice(1)}` : "Verdict";
    headline.textContent = v.verdict.headline;
    headline.className = v.verdict.kind;
    detail.textContent = v.verdict.detail;
    made.forEach(({ show }) => show(v));
    more.refresh();
  });
  return el("section", { class: "hero", "aria-labelledby": "verdict" }, kind, el("div", { "aria-live": "polite" }, headline, detail), cards, more);
}

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
  const ends = data.variants.flatMap((v) => [v.metrics[key].value, v.metrics[key].low, v.metrics[key].high]).filter(given).map(Number).filter(Number.isFinite);
  const low = Math.min(0, ...ends), high = metric.larger_is_better && given(metric.at_most) ? metric.at_most : Math.max(0, ...ends) * 1.06 || 0.01;
  const at = (v) => `${Math.max(0, Math.min(100, (100 * (Number(v) - low)) / (high - low)))}%`;
  const span = (node, a, b) => {
    node.style.left = at(a);
    node.style.right = `calc(100% - ${at(b)})`;
  };
  const zero = metric.signed ? el("span", { class: "zero" }) : null;
  if (zero) {
    zero.style.left = at(0);
    track.append(zero);
  }
  const show = (v) => {
    const m = v.metrics[key];
    number.show(m.value, text(m.value));
    interval.textContent = given(m.low) ? `${text(m.low)} to ${text(m.high)}` : "";
    note.textContent = [about, m.calibrated ? `if calibrated, chance alone would show ${share(m.calibrated.value)}` : "", m.caveat || ""].filter(Boolean).join("; ");
    dot.style.left = at(m.value);
    if (given(m.low)) span(range, m.low, m.high);
    calm.hidden = !m.calibrated;
    if (m.calibrated) span(calm, m.calibrated.low, m.calibrated.high);
    // Better or worse only where the paired interval of the difference leaves out 0.
    const moved = v.against_raw && v.against_raw[key];
    const told = moved && Number(moved.difference) !== 0 ? Math.sign(Number(moved.low)) === Math.sign(Number(moved.high)) : null;
    const gain = moved ? better(metric) * Number(moved.difference) : 0;
    change.textContent = told === null || told === undefined ? "" : `${told ? (gain > 0 ? "better than" : "worse than") : "not told apart from"} ${text(data.variants[0].metrics[key].value)}`;
    change.className = told ? (gain > 0 ? "change good" : "change bad") : "change";
  };
  return { node: el("div", { class: "card metric" }, el("span", { class: "metric-name" }, name), number, interval, track, change, note), show };
}

function variantBar() {
  const note = el("p", { class: "note", role: "status" });
  const best = data.calibrators.length > 1 ? data.variants.find((v) => v.name === data.calibrators[0].name) : null;
  const node = choice("Show the probabilities", "variant", data.variants.map((v, value) => ({ value, text: best === v ? `${v.name} (best of ${data.calibrators.length})` : v.name })), 0, (value) => choose({ variant: Number(value) }));
  watch(["variant"], () => {
    node.set(state.variant);
    note.textContent = variant().note || "As the file has them.";
  });
  return el("div", { class: "sticky" }, node, note);
}

// Reliability of prediction and output

function reliabilitySection() {
  const figure = (scope) => {
    const number = output(`reliability-${scope}`, { class: "big" });
    const live = { bins: [], bands: null };
    const samples = data.num_samples;
    const drawn = chart((width) => reliabilityChart(width, live.bins, live.bands, scope, `Reliability of ${WORDS[scope].title.toLowerCase()}, ${state.bins} bins, calibration error ${percent(errorOf(live.bins, samples), 2)}. Arrow keys go through the bins.`));
    const numbers = asTable("Bins as a table", () => binTable(live.bins, scope, live.bands));
    watch(["variant", "bins"], () => {
      const cells = variant()[scope];
      live.bins = binsOf(cells, state.bins);
      live.bands = cells.bands[state.bins];
      const error = errorOf(live.bins, samples);
      number.show(error, percent(error, 2));
      drawn.redraw();
      numbers.refresh();
    });
    return el("figure", { class: "card" }, el("figcaption", {}, el("h3", {}, WORDS[scope].title), el("p", { class: "note" }, WORDS[scope].note)), el("p", { class: "readout" }, number, el("span", { class: "note" }, " calibration error with these bins")), drawn, numbers);
  };
  return section(
    "reliability",
    "Is it as right as it is sure?",
    el("p", { class: "lead" }, "Bars show how often scores of a size come true. On the dashed line they would be exactly as right as they claim."),
    el("div", { class: "controls" }, binsSlider(), legend()),
    el("div", { class: "pair" }, figure("prediction"), figure("output")),
  );
}

function legend() {
  const key = (kind, text) => el("li", {}, svg("svg", { class: "key", viewBox: "0 0 22 14", width: 22, height: 14, "aria-hidden": "true" }, ...kind), text);
  return el(
    "ul",
    { class: "legend" },
    key([svg("rect", { class: "bar", width: 22, height: 14 })], "came true"),
    key([svg("rect", { class: "gap over", width: 22, height: 14 }), svg("line", { class: "claim", x1: 0, x2: 22, y1: 1, y2: 1 })], "claimed too much"),
    key([svg("rect", { class: "gap under", width: 22, height: 14 }), svg("line", { class: "claim", x1: 0, x2: 22, y1: 13, y2: 13 })], "claimed too little"),
    key([svg("path", { class: "whisker", d: "M11 1V13" })], `${percent(data.level, 0)} band`),
  );
}

// How sure the answers are: right and wrong ones

function confidenceSection() {
  const live = { bins: [] };
  const sure = output("mean-confidence"), right = output("mean-accuracy");
  const draw = (width) => {
    const most = Math.max(1, ...live.bins.map((b) => b.count));
    const f = frame(width, Math.max(200, Math.min(300, width * 0.34)), {
      x: [0, 1], y: [0, most * 1.06], label: `Histogram of the confidence of ${whole(data.num_samples)} answers, the right and the wrong ones. Arrow keys go through the bins.`,
      xTicks: sharesFor(width, 10), xFormat: (v) => percent(v, 0), yTicks: niceTicks(0, most, 4), yFormat: whole, xLabel: "confidence of the answer", yLabel: "answers", left: 64, bottom: 42,
    });
    const zones = svg("g");
    for (const b of live.bins) {
      const x = f.X(b.low), w = Math.max(1, f.X(b.high) - x - 1.5), hits = f.Y(b.hit), all = f.Y(b.count);
      zones.append(svg("rect", { class: "zone", x, width: w + 1, y: f.top, height: f.base - f.top }));
      f.root.append(svg("rect", { class: "bar", x, width: w, y: hits, height: f.base - hits }), svg("rect", { class: "gap over", x, width: w, y: all, height: hits - all }));
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
        return [`${percent(b.low, 1)} to ${percent(b.high, 1)}`, `${whole(b.hit)} right`, `${whole(b.count - b.hit)} wrong`];
      },
      mark: (i) => zones.childNodes.forEach((zone, place) => zone.classList.toggle("on", place === i)),
    });
    return [f.root, tip];
  };
  const drawn = chart(draw);
  const numbers = asTable("Histogram as a table", () => table("Answers by confidence", ["confidence", "right", "wrong"], live.bins.map((b) => [`${percent(b.low)} – ${percent(b.high)}`, whole(b.hit), whole(b.count - b.hit)])));
  watch(["variant", "bins"], () => {
    live.bins = binsOf(variant().prediction, state.bins);
    const n = data.num_samples, s = live.bins.reduce((t, b) => t + b.score, 0) / n, h = live.bins.reduce((t, b) => t + b.hit, 0) / n;
    sure.show(s, percent(s));
    right.show(h, percent(h));
    drawn.redraw();
    numbers.refresh();
  });
  return section(
    "confidence",
    "How sure it is",
    el("p", { class: "lead" }, "On average ", sure, " sure and ", right, " right. Solid: right answers; hatched: wrong ones."),
    el("figure", { class: "card" }, drawn, numbers),
  );
}

// Class by class

const COLUMNS = [
  { key: "name", text: "Class", of: (c) => c.name.toLowerCase(), words: true },
  { key: "answered", text: "Answers", of: (c) => c.answered },
  { key: "right", text: "Right", of: (c) => c.right },
  { key: "sure", text: "Sure", of: (c) => c.sure },
  { key: "gap", text: "Gap", of: (c) => c.gap },
  { key: "adds", text: "Adds to the error", of: (c) => c.adds },
  { key: "recall", text: "Found", of: (c) => c.recall },
  { key: "ece", text: "Class-wise ECE", of: (c) => c.ece },
];
const SOME = 12;

function classRows() {
  const c = variant().classes;
  return data.class_names.map((name, k) => {
    const answered = c.answered[k], size = data.class_sizes[k];
    const right = answered ? c.right[k] / answered : null, sure = answered ? c.score_sum[k] / answered : null;
    return {
      k, name, answered, right, sure, size,
      gap: answered ? sure - right : null,
      adds: Math.abs(c.score_sum[k] - c.right[k]) / data.num_samples,
      recall: size ? c.right[k] / size : null,
      ece: c.ece[k],
    };
  });
}

function classesSection() {
  const body = el("tbody");
  const more = el("button", { type: "button", class: "more", click: () => choose({ all: !state.all }) });
  const found = el("span", { class: "note", role: "status" });
  const heads = COLUMNS.map((column) => {
    const button = el("button", { type: "button", "data-key": `sort-${column.key}`, click: () => choose({ sort: column.key, rising: state.sort === column.key ? !state.rising : Boolean(column.words) }) }, column.text);
    return { column, th: el("th", { scope: "col", class: column.key }, button) };
  });
  const id = fresh("filter");
  const filter = el("input", { id, type: "search", autocomplete: "off", spellcheck: "false", placeholder: "part of a name", "data-key": "class-filter" });
  filter.addEventListener("input", () => choose({ filter: filter.value.trim().toLowerCase() }));
  watch(["variant", "sort", "rising", "filter", "open", "all"], () => {
    const column = COLUMNS.find((c) => c.key === state.sort);
    const turn = state.rising ? 1 : -1;
    const rows = classRows().filter((c) => !state.filter || c.name.toLowerCase().includes(state.filter));
    // Classes without a value come last, whichever way; ties keep the order of the classes.
    rows.sort((a, b) => {
      const x = column.of(a), y = column.of(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -turn : x > y ? turn : 0;
    });
    heads.forEach(({ column: { key }, th }) => (key === state.sort ? th.setAttribute("aria-sort", state.rising ? "ascending" : "descending") : th.removeAttribute("aria-sort")));
    const shown = state.all ? rows : rows.slice(0, SOME);
    body.replaceChildren(...shown.flatMap(classRow));
    more.hidden = rows.length <= SOME;
    more.textContent = state.all ? `Show ${SOME}` : `Show all ${whole(rows.length)}`;
    found.textContent = state.filter ? `${whole(rows.length)} of ${whole(data.num_classes)} classes` : "";
  });
  return section(
    "classes",
    "Class by class",
    el("p", { class: "lead" }, "Answers with a class, how often they are right (dot) and how sure they are (tick). Open a class to see more of it."),
    el("div", { class: "controls" }, el("div", { class: "search inline" }, el("label", { for: id }, "Find a class"), filter, found)),
    el("div", { class: "scroll card flush", tabindex: "0", role: "region", "aria-label": "Classes" }, el("table", { class: "classes" }, el("thead", {}, el("tr", {}, heads.map(({ th }) => th))), body)),
    more,
  );
}

function dumbbell(c) {
  if (c.right === null) return "–";
  const over = c.gap > 0, at = (v) => 4 + 112 * v;
  return svg(
    "svg",
    { class: "dumbbell", viewBox: "0 0 120 14", width: 120, height: 14, role: "img", "aria-label": `right ${percent(c.right)}, sure ${percent(c.sure)}` },
    svg("line", { class: "grid", x1: 4, x2: 116, y1: 7, y2: 7 }),
    svg("line", { class: over ? "span over" : "span under", x1: at(c.right), x2: at(c.sure), y1: 7, y2: 7 }),
    svg("circle", { class: "truth", cx: at(c.right), cy: 7, r: 3.5 }),
    svg("line", { class: over ? "end over" : "end under", x1: at(c.sure), x2: at(c.sure), y1: 1.5, y2: 12.5 }),
  );
}

function classRow(c) {
  const open = state.open === c.k;
  const panel = `class-${c.k}`;
  const button = el("button", { type: "button", class: "disclose", "aria-expanded": String(open), "aria-controls": panel, "data-class": c.k, click: () => choose({ open: open ? null : c.k }) }, named(c.name, 40));
  const row = el(
    "tr",
    { class: open ? "open" : null },
    el("th", { scope: "row" }, button),
    el("td", {}, whole(c.answered)),
    el("td", {}, percent(c.right)),
    el("td", {}, percent(c.sure)),
    el("td", { class: "gap" }, dumbbell(c), el("span", { class: c.gap > 0 ? "over-text" : "under-text" }, c.gap === null ? "" : points(c.gap))),
    el("td", {}, percent(c.adds, 3)),
    el("td", { class: "recall" }, percent(c.recall)),
    el("td", { class: "ece" }, percent(c.ece, 3)),
  );
  if (!open) return [row];
  const detail = el("tr", { class: "detail", id: panel }, el("td", { colspan: COLUMNS.length }, classPanel(c)));
  return [row, detail];
}

function classPanel(c) {
  const about = variant().classes;
  const m = data.class_bins;
  const bins = Array.from({ length: m }, (_, bin) => ({ bin, low: bin / m, high: (bin + 1) / m, count: 0, score: 0, hit: 0, confidence: NaN, likelihood: NaN }));
  for (const [bin, count, score, hit] of about.bins[c.k]) Object.assign(bins[bin], { count, score, hit, confidence: score / count, likelihood: hit / count });
  const pairs = (lists, empty) => (lists.length ? el("ol", {}, lists.map(([k, n]) => el("li", {}, named(className(k), 40), ` ${whole(n)}×`))) : el("p", { class: "note" }, empty));
  const wrong = about.mistakes[c.k].map(([row, score]) => miniature(row, score));
  const who = isolated(c.name, 40);
  return el(
    "div",
    { class: "panel" },
    el("figure", {}, el("figcaption", {}, el("strong", {}, "Reliability of this class’s score"), el("span", { class: "note" }, ` its score for all ${whole(data.num_samples)} samples, ${m} bins`)), chart((width) => reliabilityChart(Math.min(width, 420), bins, null, "output", `Reliability of the score of ${cut(c.name, 60)}`))),
    el(
      "div",
      { class: "stack" },
      el("p", {}, `Of ${whole(c.size)} samples of ${who}, ${whole(about.right[c.k])} were found. Of ${whole(c.answered)} answers ${who}, ${whole(c.answered - about.right[c.k])} are wrong.`),
      el("div", { class: "two" }, el("div", {}, el("h4", {}, "Answered instead"), pairs(about.instead[c.k], "Never missed.")), el("div", {}, el("h4", {}, "What the wrong answers were"), pairs(about.truly[c.k], "No wrong answers."))),
      wrong.length ? el("div", {}, el("h4", {}, "Surest mistakes"), el("div", { class: "minis" }, wrong)) : null,
    ),
  );
}

function picture(about, size) {
  if (!about.image) return null;
  return el("img", { src: about.image, width: size, height: size, alt: `sample ${cut(String(about.id ?? ""), 40)}`, decoding: "async" });
}

function miniature(row, score) {
  const about = data.samples[row];
  return el("figure", { class: "mini" }, picture(about, 56), el("figcaption", {}, named(className(about.label), 22), el("span", { class: "note" }, ` ${percent(score)}`)));
}

// The wrong answers that it was most sure of

function mistakesSection() {
  const grid = el("div", { class: "mistakes" });
  const few = matchMedia("(max-width: 44rem)").matches ? 6 : 12;
  const more = el("button", { type: "button", class: "more", click: () => choose({ allMistakes: !state.allMistakes }) });
  const lead = el("p", { class: "lead" });
  watch(["variant", "allMistakes"], () => {
    const every = variant().mistakes;
    const high = variant().risk_coverage;
    lead.textContent = every.length ? "Wrong answers, the surest first. Look here for wrong labels and for classes that cannot be told apart." : `Not one of the ${whole(high.answered[high.answered.length - 1])} answers is wrong.`;
    grid.replaceChildren(...(state.allMistakes ? every : every.slice(0, few)).map(mistakeCard));
    more.hidden = every.length <= few;
    more.textContent = state.allMistakes ? `Show ${few}` : `Show ${every.length}`;
  });
  return section("mistakes", "Surest mistakes", lead, grid, more);
}

function mistakeCard(mistake) {
  const about = data.samples[mistake.row];
  const bars = mistake.best.slice(0, 3).map(([k, p]) => {
    const fill = el("span", { class: k === about.label ? "fill own" : k === mistake.answer ? "fill wrong" : "fill" });
    fill.style.width = `${100 * p}%`;
    return el("div", { class: "barline small" }, el("span", { class: "who" }, named(className(k), 22)), el("span", { class: "track" }, fill), el("span", { class: "num" }, percent(p)));
  });
  return el(
    "article",
    { class: "card mistake" },
    picture(about, 72),
    el(
      "div",
      {},
      el("p", { class: "claim-text" }, el("strong", {}, percent(mistake.confidence)), " sure of ", el("strong", { class: "over-text" }, named(className(mistake.answer), 40))),
      el("p", {}, "It is ", el("strong", {}, named(className(about.label), 40)), el("span", { class: "note" }, `, given ${percent(mistake.truth)}`)),
      el("p", { class: "note" }, "Sample ", el("bdi", {}, cut(String(about.id ?? mistake.row), 60))),
    ),
    about.text ? el("blockquote", { dir: "auto" }, cut(about.text, 300)) : null,
    el("div", { class: "bars" }, bars),
  );
}

// What calibrators would do

function calibratorsSection() {
  if (!data.calibrators.length) {
    return section("calibrators", "What calibration would do", el("p", { class: "lead" }, "Not tried: there are too few samples to fit on one half and look at the other, or it was not asked for."));
  }
  const raw = data.variants[0].metrics;
  const compared = data.metrics.filter(({ shown }) => shown.includes("compare"));
  const exact = ({ percent: inPercent }) => (inPercent ? (v) => percent(v, 2) : (v) => fixed(v, 4));
  const rows = data.calibrators.map((one) => {
    const place = data.variants.findIndex((v) => v.name === one.name);
    const show = place > 0 ? el("button", { type: "button", class: "chip", "data-show": place, click: () => choose({ variant: place }) }, "Show") : "";
    if (one.failed) return [named(one.name), el("span", { class: "note" }, cut(one.failed, 160)), ...compared.map(() => "")];
    return [
      el("span", {}, named(one.name), one.warnings.length ? el("span", { class: "note", title: cut(one.warnings.join(" "), 600) }, " with a warning") : null),
      ...compared.map((metric) => exact(metric)(one[metric.key])),
      show,
    ];
  });
  const first = ["As it is", ...compared.map((metric) => exact(metric)(raw[metric.key].value)), el("button", { type: "button", class: "chip", "data-show": 0, click: () => choose({ variant: 0 }) }, "Show")];
  const shown = [first, ...rows].map((cells) => cells[1 + compared.length]).filter(Boolean);
  watch(["variant"], () => shown.forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.show) === state.variant))));
  return section(
    "calibrators",
    "What calibration would do",
    el("p", { class: "lead" }, "Cross-fitted in two folds on this one file: each half is calibrated by a fit on the other half, so no sample is judged by a fit that saw it. Sorted by log loss; the first was chosen on these very numbers, so expect a little less of it."),
    el("div", { class: "card flush" }, table("Calibrators, cross-fitted in two folds", ["calibrator", ...compared.map(({ name }) => name.toLowerCase()), ""], [first, ...rows])),
  );
}

// Answer only where sure: the risk–coverage curve

// Wilson's interval of a share; the normal quantile of the level comes with the data.
function wilson(rate, n) {
  const z = data.quantile, grow = 1 + (z * z) / n;
  const centre = (rate + (z * z) / (2 * n)) / grow;
  const half = (z / grow) * Math.sqrt((rate * (1 - rate)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

function abstainSection() {
  const n = data.num_samples;
  const curve = () => variant().risk_coverage;
  state.point = curve().threshold.length - 1;
  const threshold = output("threshold", { class: "big" }), coverage = output("coverage", { class: "big" }), risk = output("risk", { class: "big" });
  const between = el("span", { class: "note" }), wrong = el("span", { class: "note" }), kept = el("span", { class: "note" });
  const range = slider("Threshold", {
    min: 0, max: 1, step: 1, value: 0, key: "threshold", change: (point) => choose({ point }),
    text: (i) => (curve().threshold[i] === undefined ? "" : `answer from ${percent(curve().threshold[i])}`),
  });
  const input = range.querySelector("input");
  const draw = (width) => {
    const c = curve();
    const risks = c.wrong.map((w, i) => w / c.answered[i]), covers = c.answered.map((a) => a / n);
    const most = Math.max(0.001, ...risks) * 1.12;
    const f = frame(width, Math.max(260, Math.min(360, width * 0.5)), {
      x: [0, 1], y: [0, most], label: "Share of wrong answers against the share of samples that are answered. The slider below moves the threshold.",
      xTicks: sharesFor(width), xFormat: (v) => percent(v, 0), yTicks: niceTicks(0, most, 5), yFormat: (v) => percent(v, most < 0.05 ? 1 : 0), xLabel: "samples that are answered", yLabel: "wrong among them", left: 62, bottom: 42,
    });
    const line = covers.map((x, i) => [f.X(x), f.Y(risks[i])]);
    f.root.append(svg("path", { class: "area", d: `${path(line)}L${line[line.length - 1][0]} ${f.base}L${line[0][0]} ${f.base}Z` }), svg("path", { class: "curve", d: path(line) }));
    const [x, y] = line[state.point];
    f.root.append(svg("line", { class: "rule claimed", x1: x, x2: x, y1: f.top, y2: f.base }), svg("circle", { class: "handle", cx: x, cy: y, r: 9 }));
    const drag = (event) => {
      const box = f.root.getBoundingClientRect();
      const at = ((event.clientX - box.left) * (f.width / box.width) - f.left) / (f.width - f.left - f.right);
      choose({ point: nearest(covers, at) });
    };
    f.root.classList.add("draggable");
    f.root.addEventListener("pointerdown", (event) => {
      // The drawing is replaced while it is dragged, so its parent listens.
      const holder = drawn;
      drag(event);
      const stop = () => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", stop);
        removeEventListener("pointercancel", stop);
      };
      const move = (next) => {
        const current = holder.querySelector("svg").getBoundingClientRect();
        const at = ((next.clientX - current.left) * (f.width / current.width) - f.left) / (f.width - f.left - f.right);
        choose({ point: nearest(covers, at) });
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", stop);
      addEventListener("pointercancel", stop);
      event.preventDefault();
    });
    return f.root;
  };
  const drawn = chart(draw);
  const numbers = asTable("Curve as a table", () => {
    const c = curve(), every = Math.ceil(c.threshold.length / 40);
    const rows = c.threshold.map((t, i) => [percent(t, 2), percent(c.answered[i] / n, 1), percent(c.wrong[i] / c.answered[i], 2)]).filter((_, i) => i % every === 0 || i === c.threshold.length - 1);
    return table("Threshold, coverage, error", ["threshold", "answered", "wrong among them"], rows);
  });
  const aims = [0.1, 0.05, 0.02, 0.01].map((aim) =>
    el("button", { type: "button", class: "chip", "data-aim": aim, click: () => {
      const c = curve();
      let point = -1;
      c.wrong.forEach((w, i) => w <= aim * c.answered[i] && (point = i));
      if (point >= 0) choose({ point });
    } }, `at most ${percent(aim, 0)} wrong`),
  );
  watch(["variant"], () => {
    const c = curve();
    input.max = c.threshold.length - 1;
    state.point = Math.min(state.point, c.threshold.length - 1);
    choose({ point: state.point });
    numbers.refresh();
  });
  watch(["point", "variant"], () => {
    const c = curve(), i = state.point;
    range.set(i);
    const rate = c.wrong[i] / c.answered[i], limits = wilson(rate, c.answered[i]);
    threshold.show(c.threshold[i], percent(c.threshold[i]));
    coverage.show(c.answered[i] / n, percent(c.answered[i] / n));
    risk.show(rate, percent(rate, 2));
    between.textContent = `wrong among them, ${percent(limits[0], 2)} to ${percent(limits[1], 2)}`;
    wrong.textContent = `of the samples are answered: ${whole(c.answered[i])}, of which ${whole(c.wrong[i])} wrongly`;
    kept.textContent = `or more confidence is asked for; ${whole(n - c.answered[i])} samples are passed on`;
    drawn.redraw();
  });
  return section(
    "abstain",
    "Answer only when sure",
    el("p", { class: "lead" }, "If answers below a threshold are passed on to somebody else, how many are left, and how many of those are wrong? Drag the point, or use the slider."),
    el(
      "div",
      { class: "pair wide-left" },
      el("figure", { class: "card" }, drawn, range, numbers),
      el(
        "div",
        { class: "stack" },
        el("div", { class: "card metric" }, threshold, kept),
        el("div", { class: "card metric" }, coverage, wrong),
        el("div", { class: "card metric" }, risk, between),
        el("div", { class: "chips" }, aims),
        el("p", { class: "note" }, "The interval is for a threshold chosen beforehand. One that was chosen on these samples keeps its promise only with a margin: softkin evaluate --abstain computes it."),
      ),
    ),
  );
}
