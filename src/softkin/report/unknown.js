// Out-of-distribution samples, and disagreement between members: how well each score detects them.

const SCORED_BY = { confidence: "the winning score", mutual_information: "the members' disagreement" };

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
    el("div", { class: "card flush" }, table("Detected by each score", ["data", "samples", "score", "AUROC", "FPR@95"], [...rows, ...errors])),
    spread ? el("p", { class: "note" }, "The model averages over members. Their disagreement is the mutual information of label and member: the entropy of the mean minus the mean entropy of the members. On the samples of this page it is ", numeric(spread.mean, fixed(spread.mean, 4)), " nats on average.") : null,
  );
}

addSection("model", { id: "unknown", link: "Unknown data", after: "abstain", when: () => (data.out_of_distribution || []).length || data.mutual_information, make: unknownSection });
