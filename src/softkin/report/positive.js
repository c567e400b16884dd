// A binary model by the probability of its positive class: reliability, ROC, precision and recall, a threshold with its
// counts and its cost.

function positiveSection() {
  const { positive: name, negative, positives } = data.binary, n = data.num_samples, negatives = n - positives;
  const who = isolated(name, 30), other = isolated(negative, 30);
  const now = () => variant().positive;
  WORDS.positive = { title: `Probability of ${cut(name, 40)}`, what: "samples", x: `probability of ${cut(name, 24)}`, y: `share that is ${cut(name, 24)}`, note: "" };
  // The counts at a threshold: alarms are the samples at or above it.
  const counts = (i) => {
    const alarms = now().alarms[i], hit = now().caught[i];
    return { alarms, hit, false: alarms - hit, missed: positives - hit, spared: negatives - (alarms - hit) };
  };
  const cost = (i) => counts(i).false * state.costFalse + counts(i).missed * state.costMissed;
  const halfway = () => {
    let at = 0;
    now().threshold.forEach((t, i) => t >= 0.5 && (at = i));
    return at;
  };
  Object.assign(state, { costFalse: 1, costMissed: 1 });
  state.cutAt = halfway();

  // Reliability of P(positive), with its histogram below it
  const live = { bins: [], bands: null };
  const number = output("positive-error", { class: "big" });
  const chance = el("span", { class: "note" });
  const drawn = chart((width) => reliabilityChart(width, live.bins, live.bands, "positive", `Reliability of the probability of ${cut(name, 60)}, ${state.bins} bins. Arrow keys go through the bins.`));
  drawn.legend = () => legendKeys();
  drawn.heading = () => `Probability of ${cut(name, 40)}: ECE ${share(errorOf(live.bins, n))}`;
  const reliability = figureOf({ title: WORDS.positive.title, note: "Each bar shows how many of the samples in that range are positive. The strip below counts them.", before: el("p", { class: "readout" }, number, chance), drawn, rows: () => binTable(live.bins, "positive", live.bands) });
  watch(["variant", "bins"], () => {
    live.bins = binsOf(now().cells, state.bins);
    live.bands = now().cells.bands[state.bins];
    const error = errorOf(live.bins, n);
    number.show(error, share(error));
    const usual = now().error.when_calibrated;
    chance.textContent = ` ECE of this probability${usual ? `; chance alone: ${share(usual.value)} with ${data.n_bins} bins` : ""}`;
    drawn.redraw();
    reliability.refresh();
  });

  // ROC and precision–recall, with the threshold marked
  /** @type {(title: string, note: string, at: (i: number) => number[], labels: string[], look?: {diagonal?: boolean, level?: number | null, text?: (x: any, digits?: number) => string, most?: () => number, parts?: any[], rows?: (i: number) => any[]}) => any} */
  const curve = (title, note, at, labels, { diagonal = false, level = null, text = percent, most = () => 1, parts = [], rows = undefined } = {}) => {
    const lineOf = () => {
      const all = now().threshold.map((_, i) => at(i));
      return { place: 0, points: all, describe: (i) => [...(rows ? [] : [`from ${exact(now().threshold[i])}`]), `${labels[0]} ${percent(all[i][0])}`, `${labels[1]} ${text(all[i][1])}`] };
    };
    const picture = chart((width) => {
      const top = most();
      const lines = level === null ? [lineOf()] : [{ ghost: true, points: [[0, level], [1, level]] }, lineOf()];
      const [root, tip] = lineChart(width, Math.min(width, 380) * 0.86, lines, { x: [0, 1], y: [0, top], diagonal, left: 58, bottom: 42, xTicks: sharesFor(width), yTicks: top === 1 ? ticks(0, 1, 5) : niceTicks(0, top, 5), xFormat: (v) => percent(v, 0), yFormat: (v) => (top === 1 && text === percent ? percent(v, 0) : text(v)), xLabel: labels[0], yLabel: labels[1], label: `${title}. Arrow keys go through the thresholds.` });
      const [x, y] = at(Math.min(state.cutAt, now().threshold.length - 1));
      const wide = root.viewBox.baseVal.width, high = root.viewBox.baseVal.height;
      root.append(svg("circle", { class: "handle", cx: 58 + x * (wide - 78), cy: high - 42 - (y / top) * (high - 52), r: 7 }));
      return [root, tip];
    });
    watch(["variant", "cutAt", ...parts], picture.redraw);
    const cells = rows || ((i) => at(i).map((v) => numeric(v, percent(v))));
    const made = figureOf({ title, note, drawn: picture, rows: () => table(title, ["threshold", ...labels.slice(rows ? 1 : 0)], now().threshold.map((t, i) => [numeric(t, exact(t)), ...cells(i)])) });
    if (parts.length) watch(["variant", ...parts], () => made.refresh());
    return made;
  };
  const auroc = output("positive-auroc"), precise = output("positive-ap");
  const roc = curve("ROC", "The circle is the threshold below.", (i) => [negatives ? counts(i).false / negatives : 0, positives ? counts(i).hit / positives : 0], ["false alarms among the others", "caught"], { diagonal: true });
  const pr = curve("Precision and recall", `The pale line is guessing: ${percent(positives / n)} precision.`, (i) => [positives ? counts(i).hit / positives : 0, counts(i).alarms ? counts(i).hit / counts(i).alarms : 1], ["caught (recall)", "right among alarms (precision)"], { level: positives / n });
  const money = (v) => whole(Number(v.toPrecision(6)));
  const dearest = () => Math.max(...now().threshold.map((_, i) => cost(i)), 1e-9) * 1.05;
  const spent = curve("Cost of each threshold", "With the costs that you set below. The circle is the threshold.", (i) => [now().threshold[i], cost(i)], ["alarm from", "cost"], { text: money, most: dearest, parts: ["costFalse", "costMissed"], rows: (i) => [numeric(cost(i), money(cost(i)))] });
  watch(["variant"], () => {
    auroc.show(now().auroc, percent(now().auroc));
    precise.show(now().average_precision, percent(now().average_precision));
  });

  // The threshold
  const range = slider("Threshold", {
    min: 0, max: 1, step: 1, value: 0, key: "cut", change: (place) => choose({ cutAt: now().threshold.length - 1 - place }),
    text: (place) => (now().threshold[now().threshold.length - 1 - place] === undefined ? "" : `alarm from ${exact(now().threshold[now().threshold.length - 1 - place])}`),
  });
  const input = range.querySelector("input");
  const matrix = el("div", { "data-key": "positive-counts" });
  const rates = el("p", { role: "status", "data-key": "positive-rates" });
  const price = (label, key, field) => {
    const id = fresh("cost");
    const box = el("input", { id, type: "number", min: "0", step: "any", value: state[field], "data-key": key });
    box.addEventListener("input", () => Number(box.value) >= 0 && box.value !== "" && choose({ [field]: Number(box.value) }));
    watch([field], () => Number(box.value) !== state[field] && (box.value = String(state[field])));
    addAddress({ key, get: () => (state[field] === 1 ? null : String(state[field])), set: (text) => Number(text) >= 0 && choose({ [field]: Number(text) }) });
    return el("div", { class: "search inline" }, el("label", { for: id }, label), box);
  };
  const total = output("positive-cost", { class: "big" });
  const totalNote = el("span", { class: "note" });
  const cheapest = () => now().threshold.reduce((best, _, i) => (cost(i) < cost(best) ? i : best), 0);
  const certified = el("div", { class: "chips" }), why = el("p", { class: "note", "data-key": "least" });
  watch(["variant"], () => {
    input.max = String(now().threshold.length - 1);
    choose({ cutAt: halfway() });
    certified.replaceChildren(
      el("span", { class: "note" }, `Certified with ${percent(data.abstain.confidence, 0)} confidence, each by itself:`),
      ...now().certified.map(({ target, rule }) => el("button", { type: "button", class: "chip", "data-false-alarms": target, disabled: rule === null, title: rule === null ? "No threshold can be certified for it with these samples." : `Above ${exact(rule.threshold)}: at most ${percent(target, 0)} of the alarms are false.`, click: () => choose({ cutAt: now().alarms.indexOf(rule.answered) }) }, `at most ${percent(target, 0)} false alarms${rule === null ? ": none" : ""}`)),
    );
    why.textContent = leastWords(now().certified, "false alarms");
  });
  addAddress({ key: "cut", get: () => (state.cutAt === halfway() ? null : String(Number(now().threshold[state.cutAt].toPrecision(5)))), set: (text) => Number.isFinite(Number(text)) && choose({ cutAt: nearest(now().threshold, Number(text)) }) });
  watch(["cutAt", "variant", "costFalse", "costMissed"], () => {
    const i = Math.min(state.cutAt, now().threshold.length - 1), c = counts(i);
    range.set(now().threshold.length - 1 - i);
    matrix.replaceChildren(table(`Samples from ${exact(now().threshold[i])} on`, ["", `alarm: ${cut(name, 24)}`, "no alarm"], [
      [el("span", {}, "truly ", named(name, 30)), numeric(c.hit, whole(c.hit)), numeric(c.missed, `${whole(c.missed)} missed`)],
      [el("span", {}, "truly ", named(negative, 30)), numeric(c.false, `${whole(c.false)} false`), numeric(c.spared, whole(c.spared))],
    ]));
    rates.textContent = `Catches ${positives ? percent(c.hit / positives) : "–"} of ${who} (recall); ${c.alarms ? percent(c.hit / c.alarms) : "–"} of the alarms are right (precision); ${negatives ? share(c.false / negatives) : "–"} of ${other} get a false alarm.`;
    total.show(cost(i), money(cost(i)));
    const best = cheapest();
    totalNote.textContent = ` for ${whole(n)} samples; least ${money(cost(best))}, from ${exact(now().threshold[best])} on`;
  });
  return section(
    "positive",
    `How far can its probability of ${cut(name, 40)} be trusted?`,
    el("p", { class: "lead" }, `${whole(positives)} of ${whole(n)} samples are ${who}. It ranks `, auroc, ` of the pairs of one of them and another rightly (AUROC); average precision `, precise, "."),
    el("div", { class: "pair" }, el("div", { class: "stack" }, reliability, spent), el("div", { class: "stack" }, roc, pr)),
    el(
      "div",
      { class: "card apart", id: "cut" },
      el("h3", {}, "A threshold, what it catches and what it costs"),
      el("div", { class: "controls" }, range),
      certified,
      why,
      el("div", { class: "pair" }, el("div", {}, matrix, rates), el("div", {}, el("div", { class: "controls" }, price("A false alarm costs", "cost-false", "costFalse"), price("A miss costs", "cost-missed", "costMissed")), el("p", {}, total, totalNote), el("button", { type: "button", class: "chip", "data-key": "cheapest", click: () => choose({ cutAt: cheapest() }) }, "Take the cheapest threshold"))),
      el("p", { class: "note" }, "The cheapest threshold was chosen on these samples: expect it to cost a little more on others."),
    ),
  );
}

addSection("model", { id: "positive", link: "Probability", after: "numbers", when: () => data.binary, make: positiveSection });
