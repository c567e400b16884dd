// Cells → bins → what a reliability diagram shows.

const CELLS = 300;
const FEW = 10; // scores in a bin; a bin with fewer is drawn as a point, because a bar would look as certain as any other

// The sums of M bins from those of the cells. If M divides 300, the edges of bins are edges of cells. For another
// requested M the data hold the sums themselves.
function binsOf(cells, m) {
  const exact = cells.exact && cells.exact[m];
  if (exact) {
    return exact.count.map((count, bin) => {
      const score = exact.score_sum[bin], hit = exact.hit_sum[bin];
      return { bin, low: bin / m, high: (bin + 1) / m, count, score, hit, confidence: score / count, likelihood: hit / count };
    });
  }
  const size = CELLS / m;
  return Array.from({ length: m }, (_, bin) => {
    let count = 0, score = 0, hit = 0;
    for (let j = bin * size; j < (bin + 1) * size; j++) {
      count += cells.count[j];
      score += cells.score_sum[j];
      hit += cells.hit_sum[j];
    }
    return { bin, low: bin / m, high: (bin + 1) / m, count, score, hit, confidence: score / count, likelihood: hit / count };
  });
}

// Σ |scores − hits| / n, with n the number of samples, also for the output, where every sample has K scores.
const errorOf = (bins, samples) => bins.reduce((sum, b) => sum + Math.abs(b.score - b.hit), 0) / samples;

const WORDS = {
  prediction: { title: "The prediction", what: "answers", x: "confidence of the answer", y: "share that is right", note: "The winning class of each sample." },
  class: { title: "The score of this class", what: "scores", x: "score of this class", y: "share that is this class", note: "" },
  output: { title: "The output", what: "scores", x: "score of any class", y: "share that is the true class", note: "Every class of every sample; summed per sample." },
};

function binWords(b, scope, band) {
  const lines = [`${fixed(100 * b.low, b.low * 100 % 1 ? 1 : 0)} to ${percent(b.high, b.high * 100 % 1 ? 1 : 0)}`];
  if (!b.count) return [...lines, `no ${WORDS[scope].what}`];
  lines.push(`${whole(b.count)} ${WORDS[scope].what}`, `claimed ${percent(b.confidence)}`, `true ${percent(b.likelihood)}`);
  if (band) lines.push(`between ${percent(band[0])} and ${percent(band[1])}`);
  lines.push(`gap ${points(b.confidence - b.likelihood)} points`);
  return lines;
}

// Bars up to the share of hits, hatched from there to the mean score; below them, how many scores each bin holds.
function reliabilityChart(width, bins, bands, scope, label, open = null) {
  const side = Math.min(width, 460), below = 74;
  const height = side * 0.86 + below;
  const f = frame(width, height, {
    x: [0, 1], y: [0, 1], label, bottom: below + 34, xTicks: [], yTicks: ticks(0, 1, 5), yFormat: (v) => percent(v, 0), yLabel: WORDS[scope].y, left: 58,
  });
  const marks = svg("g");
  const zones = svg("g");
  bins.forEach((b, i) => {
    const x = f.X(b.low), w = Math.max(1, f.X(b.high) - x - 1);
    const group = svg("g", { class: b.count < FEW ? "bin few" : "bin" });
    if (b.count && b.count < FEW) {
      group.append(svg("circle", { class: "few-point", cx: f.X(b.confidence), cy: f.Y(b.likelihood), r: 3 }));
    } else if (b.count) {
      const top = f.Y(b.likelihood), claimed = f.Y(b.confidence), over = b.confidence > b.likelihood;
      group.append(
        svg("rect", { class: "bar", x, width: w, y: top, height: f.base - top }),
        svg("rect", { class: over ? "gap over" : "gap under", x, width: w, y: Math.min(top, claimed), height: Math.abs(top - claimed) }),
        svg("line", { class: "claim", x1: x, x2: x + w, y1: claimed, y2: claimed }),
      );
      if (bands && exists(bands[0][i])) {
        const c = x + w / 2;
        group.append(svg("path", { class: "whisker", d: `M${c} ${f.Y(bands[0][i])}V${f.Y(bands[1][i])}` }));
      }
    }
    marks.append(group);
    zones.append(svg("rect", { class: "zone", x, width: w + 1, y: f.top, height: height - f.top - 34 }));
  });
  f.root.append(zones, marks, svg("line", { class: "diagonal", x1: f.X(0), y1: f.Y(0), x2: f.X(1), y2: f.Y(1) }));
  countStrip(f, bins, height - 34, below - 16, scope);
  const tip = inspect(f.root, {
    count: () => bins.length,
    at: (i) => ({ x: (f.X(bins[i].low) + f.X(bins[i].high)) / 2, y: bins[i].count ? Math.min(f.Y(bins[i].likelihood), f.Y(bins[i].confidence)) : f.Y(0.5) }),
    pick: (x) => Math.floor(((x - f.left) / (f.width - f.left - f.right)) * bins.length),
    describe: (i) => binWords(bins[i], scope, bands && exists(bands[0][i]) ? [bands[0][i], bands[1][i]] : null),
    mark: (i) => zones.childNodes.forEach((zone, place) => zone.classList.toggle("on", place === i)),
    open: open && haveRows() ? { possible: (i) => bins[i].count > 0, run: (i) => open(bins[i]) } : undefined,
  });
  return [f.root, tip];
}

// How many scores each bin holds. Nearly all scores of the whole output are near 0, so there the scale is logarithmic.
function countStrip(f, bins, base, height, scope) {
  const most = Math.max(1, ...bins.map((b) => b.count));
  const size = scope === "output" ? (c) => (c ? Math.log10(1 + c) / Math.log10(1 + most) : 0) : (c) => c / most;
  const strip = svg("g", { class: "counts" });
  for (const b of bins) {
    const x = f.X(b.low), w = Math.max(1, f.X(b.high) - x - 1), h = size(b.count) * (height - 14);
    strip.append(svg("rect", { x, width: w, y: base - h, height: h }));
  }
  strip.append(
    svg("line", { class: "axis", x1: f.left, x2: f.width - f.right, y1: base, y2: base }),
    svg("text", { class: "note", x: f.left - 7, y: base - height + 25, "text-anchor": "end" }, "how"),
    svg("text", { class: "note", x: f.left - 7, y: base - height + 38, "text-anchor": "end" }, "many"),
    scope === "output" ? svg("text", { class: "note", x: f.left - 7, y: base - height + 51, "text-anchor": "end" }, "(log)") : "",
    ...sharesFor(f.width).map((v) => svg("text", { x: f.X(v), y: base + 16, "text-anchor": "middle" }, percent(v, 0))),
    svg("text", { class: "title", x: (f.left + f.width - f.right) / 2, y: base + 30, "text-anchor": "middle" }, WORDS[scope].x),
  );
  f.root.append(strip);
}

function binTable(bins, scope, bands) {
  const rows = bins.map((b, i) => [
    `${fixed(100 * b.low, 1)}–${percent(b.high)}`,
    numeric(b.count, whole(b.count)),
    b.count ? numeric(b.confidence, percent(b.confidence, 2)) : "–",
    b.count ? numeric(b.likelihood, percent(b.likelihood, 2)) : "–",
    bands && exists(bands[0][i]) ? `${percent(bands[0][i])} – ${percent(bands[1][i])}` : "–",
    b.count ? numeric(b.confidence - b.likelihood, points(b.confidence - b.likelihood, 2)) : "–",
  ]);
  return table(`${WORDS[scope].title}, bin by bin`, ["bin", WORDS[scope].what, "claimed", "true", "between", "gap, points"], rows);
}

function binsSlider() {
  const node = slider("Bins", {
    min: 0, max: data.bins.length - 1, step: 1, value: data.bins.indexOf(state.bins), key: "bins",
    text: (i) => String(data.bins[i]), change: (i) => choose({ bins: data.bins[i] }),
  });
  const first = state.bins;
  addAddress({ key: "bins", get: () => (state.bins === first ? null : String(state.bins)), set: (text) => data.bins.includes(Number(text)) && choose({ bins: Number(text) }) });
  watch(["bins"], () => node.set(data.bins.indexOf(state.bins)));
  return node;
}
