// Several models on the same samples: paired differences, which model leads on which classes, and how far they agree.

function pairsSection() {
  const metrics = [...new Set(data.pairs.map((pair) => pair.metric))];
  /** @returns {Column} */
  const column = (key) => data.table.columns.find((c) => c.key === key) || { key, title: key, percent: true };
  state.pairMetric = metrics.includes("ece_hist") ? "ece_hist" : metrics[0];
  state.pairModel = data.methods[0].key;
  // Each other model minus the one chosen.
  const lines = () =>
    data.pairs
      .filter((pair) => pair.metric === state.pairMetric && [pair.a, pair.b].includes(state.pairModel))
      .map((pair) => {
        const turn = pair.b === state.pairModel ? 1 : -1, other = turn > 0 ? pair.a : pair.b;
        const ends = [pair.low, pair.high].map((v) => turn * Number(v)).sort((a, b) => a - b);
        return { other, difference: turn * Number(pair.difference), low: ends[0], high: ends[1], p: pair.p_value, significant: pair.significant };
      })
      .filter((line) => [line.difference, line.low, line.high].every(Number.isFinite));
  const text = (v) => {
    const c = column(state.pairMetric);
    return `${v > 0 ? "+" : ""}${fixed((c.percent ? 100 : 1) * v, c.percent ? 2 : 4)}${c.percent ? " pts" : ""}`;
  };
  const words = (line) => {
    const c = column(state.pairMetric);
    if (!line.significant || typeof c.larger_is_better !== "boolean") return "not significant";
    return line.difference > 0 === c.larger_is_better ? "better" : "worse";
  };
  const drawn = chart((width) => {
    const all = lines();
    if (!all.length) return el("p", { class: "note" }, "Nothing to draw: these values are not finite.");
    const most = Math.max(...all.flatMap((line) => [Math.abs(line.low), Math.abs(line.high)]), 1e-9) * 1.08;
    const left = width < 560 ? 104 : 190, step = 30, c = column(state.pairMetric);
    const f = frame(width, 58 + step * all.length, { x: [-most, most], y: [0, all.length], left, bottom: 44, xTicks: niceTicks(-most, most, 6), xFormat: (v) => `${v > 0 ? "+" : ""}${fixed((c.percent ? 100 : 1) * v, c.percent ? (most < 0.02 ? 1 : 0) : most < 0.02 ? 3 : 2)}`, xLabel: `minus ${width < 560 ? "the chosen one" : isolated(shortName(state.pairModel), 24)}${c.percent ? ", points" : ""}`, label: `Paired differences of ${c.title} to ${cut(methodName(state.pairModel), 40)}, ${all.length} models. Arrow keys go through them.` });
    f.root.append(svg("line", { class: "rule claimed", x1: f.X(0), x2: f.X(0), y1: f.top, y2: f.base }));
    all.forEach((line, i) => {
      const y = f.Y(all.length - i - 0.5);
      f.root.append(
        svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, isolated(shortName(line.other), Math.floor(left / 7.8))),
        svg("line", { class: line.significant ? "whisker significant" : "whisker", x1: f.X(line.low), x2: f.X(line.high), y1: y, y2: y }),
        marker(place(line.other), f.X(line.difference), y, 4),
      );
    });
    const tip = inspect(f.root, {
      count: () => all.length,
      at: (i) => ({ x: f.X(all[i].difference), y: f.Y(all.length - i - 0.2) }),
      pick: (x, y) => Math.floor(((y - f.top) / (f.base - f.top)) * all.length),
      describe: (i) => [isolated(methodName(all[i].other), 40), `${text(all[i].difference)}, ${text(all[i].low)} to ${text(all[i].high)}`, `p = ${fixed(all[i].p, 3)}: ${words(all[i])}`],
    });
    return [f.root, tip];
  });
  const figure = figureOf({
    title: "Paired differences",
    note: "On the same samples; the line is the interval. Thick lines are significant after correction for the number of pairs.",
    drawn,
    rows: () => table("Paired differences", ["model", "difference", "low", "high", "p", "than the chosen one"], lines().map((line) => [named(methodName(line.other), 60), numeric(line.difference, text(line.difference)), numeric(line.low, text(line.low)), numeric(line.high, text(line.high)), numeric(line.p, fixed(line.p, 3)), words(line)])),
  });
  watch(["pairMetric", "pairModel", "theme"], () => {
    drawn.redraw();
    figure.refresh();
  });
  return section(
    "pairs",
    "Which model is better, and is that more than sampling noise?",
    el(
      "div",
      { class: "controls" },
      chooser("Against", "pair-model", data.methods.map(({ key, name }) => [key, name]), () => state.pairModel, (pairModel) => choose({ pairModel })),
      choice("Metric", "pair-metric", metrics.map((key) => ({ value: key, text: column(key).title })), state.pairMetric, (pairMetric) => choose({ pairMetric })),
    ),
    figure,
  );
}

// A labelled select box.
function chooser(label, key, options, chosen, change) {
  const id = fresh("chooser");
  const input = el("select", { id, "data-key": key }, options.map(([value, text]) => el("option", { value, selected: value === chosen() }, cut(text, 60))));
  input.addEventListener("change", () => change(input.value));
  return el("div", { class: "search inline" }, el("label", { for: id }, label), input);
}

// Class by class: which model finds the most samples.
function winsSection() {
  const { size, right, best, beyond_chance: beyond } = data.classes;
  state.winsSort = "spread";
  state.winsAll = false;
  const keys = data.methods.map((m) => m.key);
  const rate = (key, k) => (size[k] ? right[key][k] / size[k] : null);
  const spread = (k) => (size[k] ? Math.max(...keys.map((key) => rate(key, k))) - Math.min(...keys.map((key) => rate(key, k))) : -1);
  const wins = keys.map((key, i) => ({ key, all: best.filter((b) => b === i).length, sure: best.filter((b, k) => b === i && beyond[k]).length }));
  const most = Math.max(1, ...wins.map((w) => w.all));
  const counted = chart((width) => {
    const left = width < 560 ? 104 : 190, step = 28;
    const f = frame(width, 52 + step * wins.length, { x: [0, most], y: [0, wins.length], left, bottom: 42, xTicks: niceTicks(0, most, 5).filter(Number.isInteger), xLabel: "classes where it finds the most", label: `Classes on which each of ${wins.length} models finds the most samples. Arrow keys go through the models.` });
    wins.forEach((w, i) => {
      const y = f.Y(wins.length - i) + 5, h = step - 10;
      f.root.append(
        svg("text", { x: left - 10, y: y + h / 2 + 4, "text-anchor": "end" }, isolated(shortName(w.key), Math.floor(left / 7.8))),
        svg("rect", { class: "bar pale", x: left, y, height: h, width: f.X(w.all) - left }),
        svg("rect", { class: "bar", x: left, y, height: h, width: f.X(w.sure) - left }),
      );
    });
    const tip = inspect(f.root, {
      count: () => wins.length,
      at: (i) => ({ x: f.X(wins[i].all), y: f.Y(wins.length - i) }),
      pick: (x, y) => Math.floor(((y - f.top) / (f.base - f.top)) * wins.length),
      describe: (i) => [isolated(methodName(wins[i].key), 40), `ahead on ${wins[i].all} classes`, `significantly on ${wins[i].sure}`],
    });
    return [f.root, tip];
  });
  const figure = figureOf({
    title: "Classes won",
    note: "Pale: ahead. Solid: significantly ahead of every other model (McNemar’s exact test, Holm’s rule over the classes).",
    drawn: counted,
    rows: () => table("Classes won", ["model", "ahead", "significantly ahead"], wins.map((w) => [named(methodName(w.key), 60), numeric(w.all, w.all), numeric(w.sure, w.sure)])),
  });
  const holder = el("div");
  const more = el("button", { type: "button", class: "more", "data-focus": "more-wins", click: () => choose({ winsAll: !state.winsAll }) });
  watch(["winsAll", "methods"], () => {
    const shown = shownMethods();
    const order = size.map((_, k) => k).sort((a, b) => Number(beyond[b]) - Number(beyond[a]) || spread(b) - spread(a));
    const rows = (state.winsAll ? order : order.slice(0, 12)).map((k) => [
      named(className(k), 40),
      best[k] === null ? "level" : el("span", {}, shortly(keys[best[k]]), beyond[k] ? "" : el("span", { class: "note" }, " (may be chance)")),
      numeric(size[k], whole(size[k])),
      ...shown.map((key) => numeric(rate(key, k), el("span", { class: best[k] === place(key) ? "best" : null }, percent(rate(key, k))))),
    ]);
    holder.replaceChildren(el("div", { class: "card flush" }, table("Share of each class’s samples that are found", ["class", "best model", "samples", ...shown.map(shortly)], rows)));
    more.hidden = size.length <= 12;
    more.textContent = state.winsAll ? "Show 12" : `Show all ${whole(size.length)}`;
  });
  const level = el("p", { class: "lead" }, "In no class does one model find more samples than all others.");
  return section("wins", "Which model wins on which classes?", wins.some((w) => w.all) ? figure : level, holder, more);
}

function agreementSection() {
  const { same, same_mistake: together, all_right: allRight, all_wrong: allWrong } = data.agreement;
  const n = data.methods.length;
  const drawn = chart((width) => {
    const left = width < 560 ? 90 : 170, side = Math.min(width - left - 8, 46 * n + 40), cell = side / n, top = 8;
    const height = top + side + (width < 560 ? 90 : 130);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Share of samples on which two of ${n} models answer the same. Arrow keys go through the pairs.` });
    const values = same.flatMap((line, i) => line.filter((_, j) => i !== j));
    const low = Math.min(...values), high = Math.max(...values);
    const group = svg("g", { class: "surface" });
    same.forEach((line, i) => line.forEach((v, j) => {
      const colour = i === j ? null : ramp(0.08 + 0.84 * (high > low ? (v - low) / (high - low) : 0.5));
      const bright = colour ? (colour[0] * 299 + colour[1] * 587 + colour[2] * 114) / 1000 : 255;
      group.append(svg("rect", { x: left + j * cell, y: top + i * cell, width: cell, height: cell, fill: colour ? `rgb(${colour})` : "none" }));
      if (colour && cell > 34) group.append(svg("text", { class: bright > 140 ? "on-light" : "on-dark", x: left + (j + 0.5) * cell, y: top + (i + 0.5) * cell + 4, "text-anchor": "middle" }, fixed(100 * v, 0)));
    }));
    data.methods.forEach((m, i) => {
      group.append(
        svg("text", { class: "tick", x: left - 7, y: top + (i + 0.5) * cell + 4, "text-anchor": "end" }, isolated(shortName(m.key), Math.floor(left / 7.8))),
        svg("text", { class: "tick", transform: `translate(${left + (i + 0.5) * cell + 4} ${top + side + 8}) rotate(-90)`, "text-anchor": "end" }, isolated(shortName(m.key), width < 560 ? 11 : 17)),
      );
    });
    root.append(group);
    const tip = inspect(root, {
      count: () => n * n,
      stride: () => n,
      at: (c) => ({ x: left + ((c % n) + 0.5) * cell, y: top + Math.floor(c / n) * cell }),
      pick: (x, y) => {
        const j = Math.floor((x - left) / cell), i = Math.floor((y - top) / cell);
        return i >= 0 && j >= 0 && i < n && j < n ? i * n + j : -1;
      },
      describe: (c) => {
        const i = Math.floor(c / n), j = c % n;
        return [`${isolated(data.methods[i].name, 30)} and ${isolated(data.methods[j].name, 30)}`, `same answer on ${percent(same[i][j])}`, `the same mistake on ${percent(together[i][j])}`];
      },
    });
    return [root, tip];
  });
  watch(["theme", "printing"], drawn.redraw);
  return section(
    "agreement",
    "Do they agree?",
    el("p", { class: "lead" }, `All are right on ${percent(allRight)} of the samples, none on ${percent(allWrong)}.`),
    figureOf({
      title: "Same answer, % of samples",
      note: "Models that rarely agree gain most from being averaged.",
      drawn,
      rows: () => table("Same answer (same mistake)", ["model", ...data.methods.map((m) => shortly(m.key))], data.methods.map((m, i) => [named(m.name, 40), ...same[i].map((v, j) => numeric(v, `${percent(v)} (${percent(together[i][j])})`))])),
    }),
  );
}
