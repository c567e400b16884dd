// Answer only where sure: the risk–coverage curve

// Wilson's interval of a share; the normal quantile of the level comes with the data.
function wilson(rate, n, z = data.quantile || 1.959964) {
  const grow = 1 + (z * z) / n;
  const centre = (rate + (z * z) / (2 * n)) / grow;
  const half = (z / grow) * Math.sqrt((rate * (1 - rate)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

// The least rate that a threshold keeps, and why the buttons of lower ones are disabled.
function leastWords(offered, errors) {
  const least = offered.find(({ is_least }) => is_least);
  if (!least) return "With these samples no threshold can be certified for any rate.";
  const lower = offered.some(({ target }) => target < least.target) ? " (lower rates have no certified threshold)" : "";
  return `The least whole percent of ${errors} that a threshold keeps is ${percent(least.target, 0)}${lower}. As it was found on these samples, it is promised a little less surely.`;
}

function abstainSection() {
  const n = data.num_samples;
  const curve = () => variant().risk_coverage;
  const certified = () => (variant().abstention ? variant().abstention.rule : null);
  // The place of the certified threshold on the curve, or the most lenient point if there is none.
  const start = () => {
    const rule = certified(), last = curve().threshold.length - 1;
    return rule ? Math.max(0, curve().answered.indexOf(rule.answered)) : last;
  };
  state.point = start();
  const threshold = output("threshold", { class: "big" }), coverage = output("coverage", { class: "big" }), risk = output("risk", { class: "big" });
  const between = el("span", { class: "note" }), wrong = el("span", { class: "note" }), kept = el("span", { class: "note" });
  // The threshold rises to the right, but the curve's points go from strict to lenient.
  const turned = (place) => curve().threshold.length - 1 - place;
  const range = slider("Threshold", {
    min: 0, max: 1, step: 1, value: 0, key: "threshold", change: (place) => choose({ point: turned(place) }),
    text: (place) => (curve().threshold[turned(place)] === undefined ? "" : `answer from ${exact(curve().threshold[turned(place)])}`),
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
    const rule = certified();
    if (rule) {
      const said = `certified: at most ${percent(data.abstain.target, data.abstain.target < 0.01 ? 1 : 0)} wrong`;
      const cx = f.X(rule.coverage), cy = f.Y(rule.risk), end = f.width - cx < 7 * said.length; // no room to the right
      f.root.append(
        svg("line", { class: "rule truth", x1: cx, x2: cx, y1: f.top, y2: f.base, "data-certified": rule.threshold }),
        svg("path", { class: "certified", d: `M${cx} ${cy - 7}L${cx + 7} ${cy}L${cx} ${cy + 7}L${cx - 7} ${cy}Z` }),
        svg("text", { class: "rule-text truth", x: cx + (end ? -8 : 8), y: f.top + 14, "text-anchor": end ? "end" : "start" }, said),
      );
    }
    const [x, y] = line[state.point];
    f.root.append(svg("line", { class: "rule claimed", x1: x, x2: x, y1: f.top, y2: f.base }), svg("circle", { class: "handle", cx: x, cy: y, r: 9 }));
    const drag = (event) => {
      const box = f.root.getBoundingClientRect();
      const at = ((event.clientX - box.left) * (f.width / box.width) - f.left) / (f.width - f.left - f.right);
      choose({ point: nearest(covers, at) });
    };
    f.root.classList.add("draggable");
    f.root.addEventListener("pointerdown", (event) => {
      // The drawing is replaced during the drag, so its parent listens.
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
  const figure = figureOf({
    title: "Error by coverage",
    drawn,
    after: range,
    rows: () => {
      const c = curve();
      return table("Threshold, coverage, error", ["threshold", "answered", "wrong among them"], c.threshold.map((t, i) => [numeric(t, exact(t)), numeric(c.answered[i] / n, percent(c.answered[i] / n)), numeric(c.wrong[i] / c.answered[i], share(c.wrong[i] / c.answered[i]))]));
    },
  });
  const says = el("p", { class: "note", id: "certified", "data-key": "certified" });
  // A button leads to the threshold that is certified for its rate, not to the one that happens to keep it here.
  const aims = el("div", { class: "chips", role: "group", "aria-label": `Thresholds that are certified with ${percent(data.abstain.confidence, 0)} confidence` });
  const why = el("p", { class: "note", "data-key": "least" }), valid = el("p", { class: "note" });
  watch(["variant"], () => {
    const offered = variant().certified;
    aims.replaceChildren(
      el("span", { class: "note" }, `Certified, each with ${percent(data.abstain.confidence, 0)} confidence:`),
      ...offered.map(({ target, rule }) => el("button", { type: "button", class: "chip", "data-aim": target, disabled: rule === null, title: rule === null ? "No threshold can be certified for it with these samples." : `Certified: ${percent(rule.coverage)} are answered above ${exact(rule.threshold)}.`, click: () => choose({ point: curve().answered.indexOf(rule.answered) }) }, `at most ${percent(target, 0)} wrong${rule === null ? ": none" : ""}`)),
    );
    why.textContent = leastWords(offered, "wrong answers");
    valid.textContent = `The interval beside a threshold is valid for a threshold that was chosen beforehand.${offered.some(({ rule }) => rule) ? " A certified threshold was chosen on these samples and is still valid: thresholds are tested from strict to lenient, and one counts only if all stricter ones pass." : ""}`;
    const c = curve();
    input.max = String(c.threshold.length - 1);
    says.textContent = variant().abstention && (variant().abstention.rule || data.abstain.asked) ? sentence(variant().abstention.text.replace(/0\.\d{3,}|1\.0+/, (digits) => exact(Number(digits)))) : "";
    choose({ point: start() });
    figure.refresh();
  });
  // The samples below the threshold, counted from the most confident: the codes are too coarse to compare with it.
  const isKept = (() => {
    let key = "", rows = new Set();
    return (row) => {
      const now = `${state.variant} ${state.point}`;
      if (key !== now) {
        key = now;
        const { count, most, variants } = decodedRows(), { score } = variants[state.variant];
        const order = Array.from({ length: count }, (_, r) => r).sort((a, b) => score[b * most] - score[a * most]);
        rows = new Set(order.slice(0, curve().answered[state.point]));
      }
      return rows.has(row);
    };
  })();
  addAddress({
    key: "threshold",
    get: () => (state.point === start() ? null : String(Number(curve().threshold[state.point].toPrecision(5)))),
    set: (text) => Number.isFinite(Number(text)) && choose({ point: nearest(curve().threshold, Number(text)) }),
  });
  watch(["point", "variant"], () => {
    const c = curve(), i = state.point;
    range.set(turned(i));
    const rate = c.wrong[i] / c.answered[i], limits = wilson(rate, c.answered[i]);
    threshold.show(c.threshold[i], exact(c.threshold[i]));
    coverage.show(c.answered[i] / n, percent(c.answered[i] / n));
    risk.show(rate, share(rate));
    between.textContent = `wrong among them, ${share(limits[0])} to ${share(limits[1])}`;
    wrong.textContent = `of the samples are answered: ${whole(c.answered[i])}, ${whole(c.wrong[i])} of them wrongly`;
    kept.textContent = `or more confidence is required; ${whole(n - c.answered[i])} samples are passed on`;
    drawn.redraw();
  });
  return section(
    "abstain",
    "Answer only when sure",
    el("p", { class: "lead" }, "If answers below a threshold are passed on to a person, how many remain, and how many of those are wrong? Drag the point or use the slider."),
    el(
      "div",
      { class: "pair wide-left" },
      figure,
      el(
        "div",
        { class: "stack" },
        el("div", { class: "card metric" }, threshold, kept),
        el("div", { class: "card metric" }, coverage, wrong),
        el("div", { class: "card metric" }, risk, between),
        aims,
        why,
        haveRows() ? el("button", { type: "button", class: "chip", "data-key": "passed-on", click: () => showSamples("Samples that are passed on", rowsWhere((answer, label, code, row) => !isKept(row))) }, "List the samples that are passed on") : null,
        says,
        valid,
      ),
    ),
  );
}
