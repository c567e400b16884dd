// The first picture of several methods or models: how right and how sure each is, its calibration error, and its cost.

const ROW = 24; // pixels of a row
const HOW_SURE = { over: "too sure", under: "too modest", fine: "as sure as right" };

function overviewFigure() {
  const { groups, chosen, words = { right: "right", sure: "sure", note: "", rows: null, positive: null } } = data.overview;
  const rows = groups.flatMap((group) => group.rows);
  const models = data.subject === "models", labels = data.subject === "labels", scaled = rows.some((row) => row.after);
  const low = Math.min(...rows.flatMap((row) => [row.right, row.sure, row.after ? row.after.sure : 1])), high = Math.max(...rows.flatMap((row) => [row.right, row.sure]));
  const most = Math.max(0.01, ...rows.flatMap((row) => [row.error, ...row.dots, exists(row.high) ? Number(row.high) : 0, row.chance || 0])) * 1.04;
  const room = Math.max(0.01, (high - low) * 0.06);
  const ends = [Math.max(0, low - room), Math.min(1, high + room)];
  const gapText = (row) => points(row.sure - row.right);
  const errorText = (row) => `${fixed(100 * row.error, 1)}${row.after ? ` → ${fixed(100 * row.after.error, 1)}` : ""}`;
  const lastText = (row) => (models ? `${fixed(row.nll, 3)}${row.after ? ` → ${fixed(row.after.nll, 3)}` : ""}` : row.cost || "–");

  const draw = (width) => {
    const narrow = width < 620;
    const figuresOf = (row) => `${gapText(row)} pts · error ${errorText(row)}${THIN}%${models ? "" : ` · ${labels ? "AUROC " : ""}${lastText(row)}`}`;
    // On a phone a name that does not fit beside its numbers has a line of its own.
    const apart = narrow && rows.some((row) => 7.4 * (Math.min(40, shortName(row.method).length) + 2) + 6.6 * figuresOf(row).length > width - 20);
    const step = narrow ? (apart ? 60 : 42) : rows.length > 8 ? ROW : 30;
    const head = narrow ? 44 : 34, between = 26;
    const left = narrow ? 8 : Math.min(206, 26 + 7.2 * Math.max(...rows.map(({ method }) => Math.min(24, shortName(method).length + (method === chosen ? 2 : 0)))));
    const numbers = narrow ? 0 : 58, cost = narrow ? 0 : models && scaled ? 108 : 74, errorNumber = narrow ? 0 : scaled ? 78 : 44;
    const bars = narrow ? 0 : Math.max(90, Math.min(190, (width - left - numbers - cost - errorNumber) * 0.34));
    const right = width - (narrow ? 8 : numbers + bars + errorNumber + cost + 12);
    const X = (v) => left + 8 + ((v - ends[0]) / (ends[1] - ends[0])) * (right - left - 16);
    const B = (v) => right + numbers + 8 + (v / most) * (bars - 16);
    let y = head;
    const spots = [];
    const lines = [];
    for (const group of groups) {
      if (groups.length > 1) {
        lines.push([group.title, y + 16]);
        y += between;
      }
      for (const row of group.rows) {
        spots.push({ row, y: y + step / 2 });
        y += step;
      }
    }
    const base = y + 4, height = base + 24;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `How right and how sure each of ${rows.length} ${data.subject} is, and its calibration error. Arrow keys go through them, Enter shows one’s reliability.` });
    const text = (x, at, content, attributes = {}) => svg("text", { x, y: at, ...attributes }, content);
    const end = { "text-anchor": "end" };
    // Heads
    const keyX = narrow ? 8 : left + 8;
    root.append(
      svg("circle", { class: "dumb-right", cx: keyX + 5, cy: 12, r: 4.5 }),
      text(keyX + 14, 16, words.right),
      svg("line", { class: "dumb-sure", x1: keyX + 54, x2: keyX + 54, y1: 5, y2: 19 }),
      text(keyX + 60, 16, data.seeds.length > 1 ? `sure, mean of ${data.seeds.length} seeds` : words.sure),
    );
    if (scaled) root.append(svg("line", { class: "dumb-after", x1: keyX + 98, x2: keyX + 98, y1: 5, y2: 19 }), text(keyX + 104, 16, "after T"));
    if (!narrow) root.append(text(right + numbers - 4, 16, "too sure by", end), text(right + numbers + 8, 16, scaled ? "error, → after T, %" : "calibration error, %"), text(width - 8, 16, models ? `NLL${scaled ? " → after T" : ""}` : labels ? "AUROC" : "training", end));
    const marksX = niceTicks(...ends, narrow ? 4 : 5), marksB = narrow ? [] : niceTicks(0, most, 3);
    root.append(...marksX.map((v) => svg("line", { class: "grid", x1: X(v), x2: X(v), y1: head, y2: base - 2 })), ...marksX.map((v) => text(X(v), base + 14, percent(v, 0), { "text-anchor": narrow && X(v) > width - 24 ? "end" : "middle" })), ...marksB.map((v) => text(B(v), base + 14, fixed(100 * v, most < 0.03 ? 1 : 0), { "text-anchor": "middle" })));
    root.append(...lines.map(([title, at]) => text(8, at, title, { class: "group-title" })));
    const zones = svg("g");
    const marks = svg("g");
    for (const { row, y: at } of spots) {
      const mine = row.method === chosen;
      zones.append(svg("rect", { class: mine ? "zone chosen-row" : "zone", x: 2, width: width - 4, y: at - step / 2 + 1, height: step - 2, rx: 5 }));
      const line = narrow ? at + (apart ? 18 : 9) : at;
      const name = `${isolated(shortName(row.method), narrow ? 40 : 24)}${mine ? " ★" : ""}`;
      marks.append(text(narrow ? 8 : 14, narrow ? at - (apart ? 15 : 6) : at + 4, name, { class: mine || row.method === data.overview.baseline ? "row-name strong" : "row-name" }));
      if (narrow) marks.append(text(apart ? 8 : width - 8, at + (apart ? 3 : -6), figuresOf(row), { ...(apart ? {} : end), class: `row-number ${row.kind}` }));
      const a = X(row.right), b = X(row.sure);
      if (row.after) marks.append(svg("line", { class: "dumb-after", x1: X(row.after.sure), x2: X(row.after.sure), y1: line - 6, y2: line + 6 }));
      marks.append(
        svg("line", { class: "grid", x1: left, x2: right, y1: line, y2: line }),
        svg("line", { class: `dumb-span ${row.kind}`, x1: a, x2: b, y1: line, y2: line }),
        svg("circle", { class: "dumb-right", cx: a, cy: line, r: 4.5 }),
        svg("line", { class: `dumb-sure ${row.kind}`, x1: b, x2: b, y1: line - 7, y2: line + 7 }),
      );
      if (narrow) continue;
      marks.append(
        text(right + numbers - 4, at + 4, gapText(row), { ...end, class: `row-number ${row.kind}` }),
        svg("rect", { class: row.kind === "fine" ? "bar" : `gap ${row.kind}`, x: B(0), width: Math.max(1, B(row.error) - B(0)), y: at - 6, height: 12 }),
      );
      if (exists(row.low)) marks.append(svg("line", { class: "whisker", x1: B(Number(row.low)), x2: B(Number(row.high)), y1: at, y2: at }));
      marks.append(...row.dots.map((value) => svg("circle", { class: "seed-dot", cx: B(value), cy: at, r: 2.3 })));
      if (row.after) marks.append(svg("path", { class: "after-mark", d: `M${B(row.after.error)} ${at - 5}l5 5l-5 5l-5 -5Z` }));
      if (exists(row.chance)) marks.append(svg("line", { class: "chance", x1: B(row.chance), x2: B(row.chance), y1: at - 9, y2: at + 9 }));
      marks.append(text(right + numbers + bars + errorNumber - 4, at + 4, errorText(row), { ...end, class: "row-number" }), text(width - 8, at + 4, lastText(row), { ...end, class: "row-cost" }));
    }
    root.append(zones, marks);
    const tip = inspect(root, {
      count: () => spots.length,
      at: (i) => ({ x: Math.max(X(spots[i].row.right), X(spots[i].row.sure)), y: spots[i].y - step / 2 }),
      pick: (x, at) => spots.findIndex((spot) => Math.abs(spot.y - at) <= step / 2),
      describe: (i) => describe(spots[i].row),
      mark: (i) => zones.childNodes.forEach((zone, place) => zone instanceof Element && zone.classList.toggle("on", place === i)),
      open: data.curves ? { what: "its reliability", possible: (i) => Boolean(data.curves[spots[i].row.method]), run: (i) => showReliability(spots[i].row.method) } : undefined,
    });
    return [root, tip];
  };
  const describe = (row) => [
    isolated(methodName(row.method), 48),
    `${percent(row.sure)} ${words.sure}, ${percent(row.right)} ${words.right}: ${HOW_SURE[row.kind]}`,
    `calibration error ${share(row.error)}${exists(row.chance) ? `, chance alone ${share(row.chance)}` : ""}`,
    ...(row.dots.length > 1 ? [`by seed ${row.dots.map((v) => fixed(100 * v, 1)).join(", ")}`] : []),
    ...(row.after ? [`after T = ${fixed(row.after.temperature, 2)}: error ${share(row.after.error)}, NLL ${fixed(row.after.nll, 3)}`] : []),
    `NLL ${fixed(row.nll, 3)}${!models && row.cost ? `, ${labels ? "AUROC" : "training"} ${row.cost}` : ""}`,
  ];
  const drawn = chart(draw);
  const note = [
    words.note,
    "The line from ● to | is over-confidence where | is to the right, and under-confidence where it is to the left; it is green where chance explains it, and dashed for under-confidence that chance does not explain. Hatched bar: this gap is more than chance explains.",
    labels ? "Bars: calibration error (ECE, 15 bins) with its interval; upright line: what chance alone would show." : models ? "Bars: calibration error (ECE, 15 bins) with its interval; upright line: what chance alone would show; ◇ and dashes: after T, temperature scaling fitted on one half and measured on the other." : `Bars: calibration error (ECE, 15 bins)${data.seeds.length > 1 ? ", a dot for each seed" : ""}; upright line: what chance alone would show. Training: time relative to one-hot; + s: seconds for the calibrator.`,
    models && words.rows ? `The error is that of the probability of ${isolated(words.positive || className(1), 30)}.` : "",
    data.curves ? "Choose a row for its reliability diagram." : "",
  ].join(" ");
  const head = [data.subject.slice(0, -1), words.right, words.sure, "calibration error", "chance alone", "NLL", ...(models ? [] : [labels ? "AUROC" : "training"]), ...(scaled ? ["error after T", "NLL after T"] : [])];
  const cells = (row) => [
    named(methodName(row.method), 60), numeric(row.right, percent(row.right)), numeric(row.sure, percent(row.sure)), numeric(row.error, share(row.error)), exists(row.chance) ? numeric(row.chance, share(row.chance)) : "–", numeric(row.nll, fixed(row.nll, 3)),
    ...(models ? [] : [lastText(row)]),
    ...(scaled ? (row.after ? [numeric(row.after.error, share(row.after.error)), numeric(row.after.nll, fixed(row.after.nll, 3))] : ["–", "–"]) : []),
  ];
  drawn.heading = () => document.getElementById("headline").textContent;
  const figure = figureOf({ title: `${data.subject[0].toUpperCase()}${data.subject.slice(1)}`, drawn, note, heading: "h2", rows: () => table(models ? "Models, sorted by NLL" : labels ? "Labels, the largest error first" : "Methods", head, rows.map(cells)) });
  figure.id = "overview-figure";
  watch(["theme", "printing"], drawn.redraw);
  return figure;
}

// The reliability of one method, over that of the baseline.
function showReliability(method) {
  const { baseline } = data.overview, id = fresh("reliability");
  const keys = [...new Set([baseline, method].filter((key) => key && data.curves[key]))];
  const lines = keys.map((key) => {
    const bins = binsOf(data.curves[key].prediction, 15).filter((b) => b.count >= FEW);
    return { method: key, place: place(key), markers: true, points: bins.map((b) => [b.confidence, b.likelihood]), describe: (i) => [isolated(methodName(key), 40), ...binWords(bins[i], "prediction", null)] };
  });
  const drawn = chart((width) => lineChart(width, Math.min(width, 560) * 0.8, lines, { x: [0, 1], y: [0, 1], diagonal: true, left: 58, bottom: 42, xTicks: sharesFor(width), yTicks: ticks(0, 1, 5), xFormat: (v) => percent(v, 0), yFormat: (v) => percent(v, 0), xLabel: WORDS.prediction.x, yLabel: WORDS.prediction.y, label: `Reliability of ${cut(methodName(method), 60)}. Arrow keys go through the points.` }));
  drawn.legend = () => keys.map((key) => [swatch(place(key)), shortName(key)]);
  const dialog = el(
    "dialog",
    { class: "samples", "aria-labelledby": id },
    el("h2", { id }, named(methodName(method), 60)),
    el("p", { class: "note" }, "How often answers with each confidence are right. Below the dashed line it is over-confident."),
    el("ul", { class: "legend" }, keys.map((key) => el("li", {}, swatch(place(key)), shortly(key)))),
    figureOf({ title: `Reliability of ${cut(methodName(method), 60)}`, drawn, rows: () => table("Reliability", ["", "claimed", "true"], lines.flatMap((line) => line.points.map(([x, y]) => [shortly(line.method), numeric(x, percent(x)), numeric(y, percent(y))]))) }),
    el("p", { class: "chips" }, el("button", { type: "button", class: "chip", click: () => dialog.close() }, "Close")),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
