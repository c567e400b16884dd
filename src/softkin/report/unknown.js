// Out-of-distribution samples, and disagreement between members: how well each score detects them.

const SCORED_BY = { confidence: "the winning score", mutual_information: "the members' disagreement" };

// How sure the model is of what it knows and of what it does not, and what the certified threshold would answer.
function unknownFigure({ name, num_samples: count, count: cells, answered }) {
  const rule = data.variants[0].abstention && data.variants[0].abstention.rule;
  const m = 20, size = CELLS / m, known = binsOf(data.variants[0].prediction, m);
  const shares = [known.map((b) => b.count / data.num_samples), Array.from({ length: m }, (_, b) => cells.slice(b * size, (b + 1) * size).reduce((sum, v) => sum + v, 0) / count)];
  const labels = ["known", "unknown"];
  const most = Math.max(...shares.flat(), 0.01) * 1.08;
  const drawn = chart((width) => {
    const f = frame(width, 280, { x: [0, 1], y: [0, most], left: 58, bottom: 42, xTicks: sharesFor(width), xFormat: (v) => percent(v, 0), yTicks: niceTicks(0, most, 4), yFormat: (v) => percent(v, 0), xLabel: "confidence of the answer", yLabel: "share of samples", label: `Confidence on known and on unknown samples. Arrow keys go through the bins.` });
    shares.forEach((values, which) => values.forEach((v, b) => {
      const x = f.X(b / m) + 1, half = (f.X((b + 1) / m) - f.X(b / m)) / 2 - 1;
      f.root.append(svg("rect", { class: which ? "gap over" : "bar", x: x + which * half, width: Math.max(1, half), y: f.Y(v), height: f.base - f.Y(v) }));
    }));
    if (rule) f.root.append(svg("line", { class: "rule truth", x1: f.X(rule.threshold), x2: f.X(rule.threshold), y1: f.top, y2: f.base }), svg("text", { class: "rule-text truth", x: f.X(rule.threshold) - 6, y: f.top + 12, "text-anchor": "end" }, "certified threshold"));
    const tip = inspect(f.root, {
      count: () => m,
      at: (b) => ({ x: f.X((b + 0.5) / m), y: f.Y(Math.max(shares[0][b], shares[1][b])) }),
      pick: (x) => Math.floor(((x - f.left) / (f.width - f.left - f.right)) * m),
      describe: (b) => [`${percent(b / m, 0)} to ${percent((b + 1) / m, 0)}`, `${share(shares[0][b])} of the known`, `${share(shares[1][b])} of the unknown`],
    });
    return [f.root, tip];
  });
  const keys = () => [[svg("svg", { viewBox: "0 0 22 14", width: 22, height: 14 }, svg("rect", { class: "bar", width: 22, height: 14 })), "known"], [svg("svg", { viewBox: "0 0 22 14", width: 22, height: 14 }, svg("rect", { class: "gap over", width: 22, height: 14 })), "unknown"]];
  drawn.legend = keys;
  watch(["theme"], drawn.redraw);
  const says = rule === null || answered === null ? "No threshold is certified, so everything would be answered." : `At the certified threshold (${exact(rule.threshold)}) ${whole(answered)} of the ${whole(count)} unknown samples (${percent(answered / count)}) would still be answered, beside ${percent(rule.coverage)} of the known ones.`;
  return figureOf({ title: `Known against unknown: ${cut(name, 60)}`, note: says, before: el("ul", { class: "legend" }, keys().map(([drawing, text]) => el("li", {}, drawing, text))), drawn, rows: () => table("Confidence", ["confidence", ...labels], shares[0].map((v, b) => [`${percent(b / m, 0)} to ${percent((b + 1) / m, 0)}`, numeric(v, share(v)), numeric(shares[1][b], share(shares[1][b]))])) });
}

function unknownSection() {
  const sets = data.out_of_distribution, spread = data.mutual_information;
  const rows = sets.flatMap(({ name, num_samples: count, scores }) =>
    Object.entries(scores).map(([score, { auroc, fpr_at_95: accepted }]) => [named(name || "unknown samples"), numeric(count, whole(count)), SCORED_BY[score], numeric(auroc, percent(auroc)), numeric(accepted, percent(accepted))]),
  );
  const errors = spread ? Object.entries(spread.auroc_of_errors).map(([score, auroc]) => ["its own wrong answers", "", SCORED_BY[score], numeric(auroc, percent(auroc)), ""]) : [];
  return section(
    "unknown",
    sets.length ? "On out-of-distribution data" : "Where the members disagree",
    el("p", { class: "lead" }, `How well a score separates ${sets.length ? "samples of none of the classes" : "wrong answers"} from the others. AUROC: how often one of the others scores higher; 50${THIN}% is chance.${sets.length ? ` FPR@95: the share of unknown samples accepted at the threshold that accepts 95${THIN}% of the known ones.` : ""}`),
    ...(data.unknown || []).map(unknownFigure),
    el("div", { class: "card flush" }, table("Detected by each score", ["data", "samples", "score", "AUROC", "FPR@95"], [...rows, ...errors])),
    spread ? el("p", { class: "note" }, "The model averages over members. Their disagreement is the mutual information of label and member: the entropy of the mean minus the mean entropy of the members. On the samples of this page it is ", numeric(spread.mean, fixed(spread.mean, 4)), " nats on average.") : null,
  );
}

addSection("model", { id: "unknown", link: "Unknown data", after: "abstain", when: () => (data.out_of_distribution || []).length || data.mutual_information, make: unknownSection });
