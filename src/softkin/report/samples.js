// The samples behind a bar, a bin, a class, a pair of classes or a node of the tree: listed, and saved as CSV.

// Numbers of 16 bits from base64.
function shortNumbers(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Uint16Array(bytes.buffer); // little-endian, as every machine that runs a browser is
}

// The rows of the data, decoded at first use.
const decodedRows = (() => {
  let made = null;
  return () => {
    if (made || !data.rows) return made;
    const first = shortNumbers(data.rows.variants[0].best);
    made = {
      count: data.rows.count,
      most: data.rows.most,
      label: shortNumbers(data.rows.label),
      variants: data.rows.variants.map(({ best, score }) => ({ best: best === null ? first : shortNumbers(best), score: shortNumbers(score) })),
    };
    return made;
  };
})();

// One sample in the variant that is shown: its label, answer, confidence and best classes.
function sampleOf(row) {
  const { label, most, variants } = decodedRows(), { best, score } = variants[state.variant];
  const about = data.samples[row] || { id: undefined, text: undefined, image: undefined };
  const scores = Array.from({ length: most }, (_, j) => [best[row * most + j], (score[row * most + j] + 0.5) / (CELLS * data.rows.steps)]);
  const id = about.id ?? (data.rows.ids ? data.rows.ids[row] : row);
  return { row, id, label: label[row], answer: scores[0][0], confidence: scores[0][1], best: scores, text: about.text, image: about.image };
}

const cellOf = (code) => Math.floor(code / data.rows.steps);
// The bin of a score's code: by cell if the bins consist of whole cells, else by the score itself.
const binOf = (code, m) => (CELLS % m === 0 ? Math.floor(cellOf(code) / (CELLS / m)) : Math.min(m - 1, Math.floor(((code + 0.5) / (CELLS * data.rows.steps)) * m)));

// Rows for which test(answer, label, code of the confidence, row) holds.
function rowsWhere(test) {
  const { count, most, label, variants } = decodedRows(), { best, score } = variants[state.variant];
  const hits = [];
  for (let row = 0; row < count; row++) if (test(best[row * most], label[row], score[row * most], row)) hits.push(row);
  return hits;
}

// Rows in which one of the best classes has a score in the bin; `k` restricts this to one class.
function rowsScoring(bin, m, k = null) {
  const { count, most, variants } = decodedRows(), { best, score } = variants[state.variant];
  const hits = [];
  for (let row = 0; row < count; row++) {
    for (let j = row * most; j < (row + 1) * most; j++) {
      if ((k === null || best[j] === k) && binOf(score[j], m) === bin) {
        hits.push(row);
        break;
      }
    }
  }
  return hits;
}

// How many samples of one class were answered with another, in the variant that is shown.
const pairCount = (() => {
  let counted = -1, counts = new Map();
  return (truth, answer) => {
    if (counted !== state.variant) {
      counts = new Map();
      rowsWhere((given, label) => {
        const pair = label * data.num_classes + given;
        counts.set(pair, (counts.get(pair) || 0) + 1);
        return false;
      });
      counted = state.variant;
    }
    return counts.get(truth * data.num_classes + answer) || 0;
  };
})();
const showPair = (truth, answer) => showSamples(`${isolated(className(truth), 40)} answered as ${isolated(className(answer), 40)}`, rowsWhere((given, label) => label === truth && given === answer));

const haveRows = () => data.kind === "model" && Boolean(data.rows);
const PAGE_OF_SAMPLES = 24;

// A dialog that lists samples; the focus returns to its old place when it closes.
function showSamples(title, rows, note = null) {
  const ordered = rows.map((row) => sampleOf(row)).sort((a, b) => Number(a.answer === a.label) - Number(b.answer === b.label) || b.confidence - a.confidence);
  const wrong = ordered.filter((sample) => sample.answer !== sample.label).length;
  const list = el("div", { class: "mistakes" });
  let shown = 0;
  const more = el("button", { type: "button", class: "more" });
  const add = () => {
    list.append(...ordered.slice(shown, shown + PAGE_OF_SAMPLES).map(sampleCard));
    shown = Math.min(ordered.length, shown + PAGE_OF_SAMPLES);
    more.hidden = shown >= ordered.length;
    more.textContent = `Show more of ${whole(ordered.length)}`;
  };
  more.addEventListener("click", add);
  const id = fresh("samples");
  const dialog = el(
    "dialog",
    { class: "samples", "aria-labelledby": id },
    el("h2", { id }, title),
    el("p", { class: "note" }, `${whole(ordered.length)} sample${ordered.length === 1 ? "" : "s"}, ${whole(wrong)} answered wrongly; wrong ones first, the surest first.`, note ? ` ${note}` : ""),
    el(
      "p",
      { class: "chips" },
      el("button", { type: "button", class: "chip", "data-key": "save-samples", click: () => download(fileName(title, "csv"), samplesCsv(ordered), "text/csv") }, "Save as CSV"),
      el("button", { type: "button", class: "chip", "data-key": "close-samples", click: () => dialog.close() }, "Close"),
    ),
    list,
    more,
  );
  add();
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // a click outside the dialog
  document.body.append(dialog);
  dialog.showModal();
}

function samplesCsv(samples) {
  const most = decodedRows().most;
  const extra = Array.from({ length: most - 1 }, (_, j) => [`class ${j + 2}`, `score ${j + 2}`]).flat();
  const head = ["row", "id", "true class", "answer", "confidence", "right", ...extra, "text"];
  const lines = samples.map((sample) => [sample.row, sample.id, className(sample.label), className(sample.answer), sample.confidence.toFixed(5), sample.answer === sample.label ? 1 : 0, ...sample.best.slice(1).flatMap(([k, p]) => [className(k), p.toFixed(5)]), sample.text || ""]);
  return csvText([head, ...lines]);
}

function picture(about, size) {
  if (!about.image) return null;
  return el("img", { src: about.image, width: size, height: size, alt: `sample ${cut(String(about.id ?? ""), 40)}`, decoding: "async", loading: "lazy" });
}

// A sample: what was answered, what it is, and its best classes.
function sampleCard(sample) {
  const right = sample.answer === sample.label;
  const bars = sample.best.slice(0, 3).map(([k, p]) => {
    const fill = el("span", { class: k === sample.label ? "fill own" : k === sample.answer ? "fill wrong" : "fill" });
    fill.style.width = `${100 * p}%`;
    return el("div", { class: "barline small" }, el("span", { class: "who", dir: "auto" }, named(className(k), 22)), el("span", { class: "track" }, fill), el("span", { class: "num" }, percent(p)));
  });
  const truth = sample.best.find(([k]) => k === sample.label);
  const score = exists(sample.truth) ? sample.truth : truth ? truth[1] : null;
  return el(
    "article",
    { class: "card mistake", "data-row": sample.row },
    picture(sample, 72),
    el(
      "div",
      {},
      el("p", { class: "claim-text" }, el("strong", {}, percent(sample.confidence)), " sure of ", el("strong", { class: right ? null : "over-text" }, named(className(sample.answer), 40))),
      right ? el("p", {}, "It is.") : el("p", {}, "It is ", el("strong", {}, named(className(sample.label), 40)), score === null ? null : el("span", { class: "note" }, `, given ${percent(score)}`)),
      el("p", { class: "note" }, data.ids_called ? el("bdi", {}, cut(data.ids_called, 30)) : "Sample", " ", el("bdi", {}, cut(String(sample.id ?? sample.row), 60))),
    ),
    sample.text ? el("blockquote", { dir: "auto" }, cut(sample.text, 300)) : null,
    sample.best.slice(1).some(([, p]) => p >= 0.005) ? el("div", { class: "bars" }, bars) : null, // or the sentence says it all
  );
}
