// Class by class: a sortable, searchable table; each class opens to its reliability, its confusions and its samples.

const CLASS_COLUMNS = [
  { key: "name", text: "Class", of: (c) => c.name.toLowerCase(), words: true },
  { key: "answered", text: "Answers", of: (c) => c.answered },
  { key: "right", text: "Right", of: (c) => c.right },
  { key: "sure", text: "Sure", of: (c) => c.sure },
  { key: "gap", text: "Gap", of: (c) => c.gap },
  { key: "adds", text: "Share of the error", of: (c) => c.adds },
  { key: "recall", text: "Found", of: (c) => c.recall },
  { key: "ece", text: "Class-wise ECE", of: (c) => c.ece },
];
const SOME = 12;

function classRows() {
  const c = variant().classes;
  const total = data.class_names.reduce((sum, _, k) => sum + Math.abs(c.score_sum[k] - c.right[k]), 0) || 1;
  return data.class_names.map((name, k) => {
    const answered = c.answered[k], size = data.class_sizes[k];
    const right = answered ? c.right[k] / answered : null, sure = answered ? c.score_sum[k] / answered : null;
    return {
      k, name, answered, right, sure, size,
      gap: answered ? sure - right : null,
      adds: Math.abs(c.score_sum[k] - c.right[k]) / total,
      proved: isBeyond(c, k),
      ends: answered ? endsOf(c, k) : null,
      recall: size ? c.right[k] / size : null,
      ece: c.ece[k],
    };
  });
}

// Wilson's interval of the share of a class's answers that are right; those of all classes hold together.
const endsOf = (c, k) => wilson(c.right[k] / c.answered[k], c.answered[k], data.class_quantile);

// Whether the gap of a class is more than chance: that interval misses its confidence.
const isBeyond = (c, k) => {
  if (!c.answered[k]) return false;
  const [low, high] = endsOf(c, k), sure = c.score_sum[k] / c.answered[k];
  return sure < low || sure > high;
};

function classesSection() {
  const body = el("tbody");
  const more = el("button", { type: "button", class: "more", "data-focus": "more-classes", click: () => choose({ all: !state.all }) });
  const matches = el("span", { class: "note", role: "status" });
  const heads = CLASS_COLUMNS.map((column) => {
    const button = el("button", { type: "button", "data-key": `sort-${column.key}`, click: () => choose({ sort: column.key, rising: state.sort === column.key ? !state.rising : Boolean(column.words) }) }, column.text);
    return { column, th: el("th", { scope: "col", class: column.key }, button) };
  });
  const id = fresh("filter");
  const filter = el("input", { id, type: "search", autocomplete: "off", spellcheck: "false", placeholder: "part of a name", "data-key": "class-filter" });
  filter.addEventListener("input", () => choose({ filter: filter.value.trim().toLowerCase() }));
  const sorted = () => {
    const column = CLASS_COLUMNS.find((c) => c.key === state.sort);
    const turn = state.rising ? 1 : -1;
    const rows = classRows().filter((c) => !state.filter || c.name.toLowerCase().includes(state.filter));
    // Classes without a value come last in either direction; ties keep the order of the classes.
    return rows.sort((a, b) => {
      const x = column.of(a), y = column.of(b);
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return x < y ? -turn : x > y ? turn : 0;
    });
  };
  watch(["variant", "sort", "rising", "filter", "open", "all"], () => {
    const rows = sorted();
    heads.forEach(({ column: { key }, th }) => {
      th.classList.toggle("sorted", key === state.sort);
      if (key === state.sort) th.setAttribute("aria-sort", state.rising ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
    const shown = state.all ? rows : rows.slice(0, SOME);
    const opened = state.open !== null && rows.find(({ k }) => k === state.open);
    body.replaceChildren(...(opened && !shown.includes(opened) ? [opened, ...shown] : shown).flatMap(classRow));
    more.hidden = rows.length <= SOME;
    more.textContent = state.all ? `Show ${SOME}` : `Show all ${whole(rows.length)}`;
    matches.textContent = state.filter ? `${whole(rows.length)} of ${whole(data.num_classes)} classes` : "";
  });
  addAddress({
    key: "class",
    get: () => (state.open === null ? null : className(state.open)),
    set: (text) => {
      const k = data.class_names.indexOf(text);
      if (k < 0) return;
      choose({ open: k });
      const row = document.querySelector(`[data-focus="class-${k}"]`);
      if (row instanceof HTMLElement) {
        row.scrollIntoView({ block: "start" });
        row.focus({ preventScroll: true });
      }
    },
  });
  addAddress({
    key: "find",
    get: () => state.filter || null,
    set: (text) => {
      filter.value = text;
      choose({ filter: text.trim().toLowerCase() });
    },
  });
  addAddress({
    key: "sort",
    get: () => (state.sort === "adds" && !state.rising ? null : `${state.rising ? "" : "-"}${state.sort}`),
    set: (text) => CLASS_COLUMNS.some(({ key }) => key === text.replace(/^-/, "")) && choose({ sort: text.replace(/^-/, ""), rising: !text.startsWith("-") }),
  });
  const save = el("button", { type: "button", class: "take", "aria-label": "CSV: save all classes as a table", click: () => download(fileName("classes", "csv"), csvText([CLASS_COLUMNS.map(({ text }) => text), ...sorted().map((c) => [c.name, ...CLASS_COLUMNS.slice(1).map(({ of }) => of(c))])]), "text/csv") }, "CSV");
  return section(
    "classes",
    "Class by class",
    el("p", { class: "lead" }, "For the answers with each class: how often they are right (dot) and their mean confidence (tick). The line below them is the interval of the dot, wide enough to hold for all classes together. Open a class for details."),
    el("div", { class: "controls" }, el("div", { class: "search inline" }, el("label", { for: id }, "Find a class"), filter, matches), save),
    el("div", { class: "scroll card flush", tabindex: "0", role: "region", "aria-label": "Classes" }, el("table", { class: "classes" }, el("thead", {}, el("tr", {}, heads.map(({ th }) => th))), body)),
    more,
  );
}

function dumbbell(c) {
  if (c.right === null) return "–";
  const over = c.gap > 0, at = (v) => 4 + 112 * v;
  return svg(
    "svg",
    { class: "dumbbell", viewBox: "0 0 120 14", width: 120, height: 14, role: "img", "aria-label": `right ${percent(c.right)} (${percent(c.ends[0])} to ${percent(c.ends[1])}), sure ${percent(c.sure)}` },
    svg("line", { class: "grid", x1: 4, x2: 116, y1: 7, y2: 7 }),
    svg("line", { class: "whisker", x1: at(c.ends[0]), x2: at(c.ends[1]), y1: 12.5, y2: 12.5 }),
    svg("line", { class: over ? "span over" : "span under", x1: at(c.right), x2: at(c.sure), y1: 7, y2: 7 }),
    svg("circle", { class: "truth", cx: at(c.right), cy: 7, r: 3.5 }),
    svg("line", { class: over ? "end over" : "end under", x1: at(c.sure), x2: at(c.sure), y1: 1.5, y2: 12.5 }),
  );
}

function classRow(c) {
  const open = state.open === c.k;
  const panel = `class-${c.k}`;
  const button = el("button", { type: "button", class: "disclose", "aria-expanded": String(open), "aria-controls": open ? panel : null, "data-class": c.k, "data-focus": `class-${c.k}`, click: () => choose({ open: open ? null : c.k }) }, named(c.name, 40));
  const cell = (key, ...content) => el("td", { class: state.sort === key ? `${key} sorted` : key }, ...content);
  const row = el(
    "tr",
    { class: open ? "open" : null },
    el("th", { scope: "row" }, button),
    cell("answered", whole(c.answered)),
    cell("right", percent(c.right)),
    cell("sure", percent(c.sure)),
    cell("gap", dumbbell(c), el("span", { class: c.proved ? (c.gap > 0 ? "over-text" : "under-text") : null }, c.gap === null ? "" : points(c.gap)), c.gap === null || c.proved ? null : el("span", { class: "note" }, "may be chance")),
    cell("adds", share(c.adds)),
    cell("recall", percent(c.recall)),
    cell("ece", share(c.ece)),
  );
  if (!open) return [row];
  const detail = el("tr", { class: "detail", id: panel }, el("td", { colspan: CLASS_COLUMNS.length }, classPanel(c)));
  return [row, detail];
}

function classPanel(c) {
  const about = variant().classes;
  const m = data.class_bins;
  const bins = Array.from({ length: m }, (_, bin) => ({ bin, low: bin / m, high: (bin + 1) / m, count: 0, score: 0, hit: 0, confidence: NaN, likelihood: NaN }));
  for (const [bin, count, score, hit] of about.bins[c.k]) Object.assign(bins[bin], { count, score, hit, confidence: score / count, likelihood: hit / count });
  const ends = bins.map((b) => (b.count ? wilson(b.likelihood, b.count) : [null, null]));
  const bands = [ends.map(([low]) => low), ends.map(([, high]) => high)];
  const who = isolated(c.name, 40);
  const lists = (title, test) => () => showSamples(title, rowsWhere(test));
  const link = (text, key, run) => (haveRows() ? el("button", { type: "button", class: "link listed", "data-focus": `${key}-${c.k}`, click: run }, text) : text);
  const pairs = (counts, empty, title, test) =>
    counts.length
      ? el("ol", {}, counts.map(([k, n]) => el("li", {}, link(el("span", {}, named(className(k), 40), ` ${whole(n)}×`), `pair-${k}`, lists(title(k), test(k))))))
      : el("p", { class: "note" }, empty);
  const wrong = about.mistakes[c.k].map(([row, score]) => miniature(row, score));
  return el(
    "div",
    { class: "panel" },
    figureOf({
      title: "Reliability of this class’s score",
      heading: "h3",
      note: `Its score for all ${whole(data.num_samples)} samples, ${m} bins.`,
      drawn: chart((width) => reliabilityChart(Math.min(width, 420), bins, bands, "class", `Reliability of the score of ${cut(c.name, 60)}. Arrow keys go through the bins, Enter lists the samples.`, (b) => showSamples(`${who} given ${binName(b)}`, rowsScoring(b.bin, m, c.k), b.low < 0.2 ? `Only the ${decodedRows().most} best classes of each sample are searched.` : null))),
      rows: () => binTable(bins, "class", bands),
    }),
    el(
      "div",
      { class: "stack" },
      el("p", {}, `Of ${whole(c.size)} samples of ${who}, ${whole(about.right[c.k])} were found. Of ${whole(c.answered)} answers with ${who}, ${whole(c.answered - about.right[c.k])} are wrong.`),
      haveRows()
        ? el("p", { class: "chips" }, el("button", { type: "button", class: "chip", "data-key": "class-answers", click: lists(`Answers with ${who}`, (answer) => answer === c.k) }, "All answers with this class"), el("button", { type: "button", class: "chip", "data-key": "class-samples", click: lists(`Samples of ${who}`, (_, label) => label === c.k) }, "All samples of this class"))
        : null,
      el(
        "div",
        { class: "two" },
        el("div", {}, el("h4", {}, "Answered instead"), pairs(about.instead[c.k], "Never missed.", (k) => `${who} answered as ${isolated(className(k), 40)}`, (k) => (answer, label) => label === c.k && answer === k)),
        el("div", {}, el("h4", {}, "True classes of the wrong answers"), pairs(about.truly[c.k], "No wrong answers.", (k) => `${isolated(className(k), 40)} answered as ${who}`, (k) => (answer, label) => answer === c.k && label === k)),
      ),
      wrong.length ? el("div", {}, el("h4", {}, "Surest mistakes"), el("div", { class: "minis" }, wrong)) : null,
    ),
  );
}

function miniature(row, score) {
  const about = data.samples[row];
  return el("figure", { class: "mini" }, picture(about, 56), el("figcaption", {}, named(className(about.label), 22), el("span", { class: "note" }, ` ${percent(score)}`)));
}
