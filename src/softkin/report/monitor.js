// The page of a log that is watched: the gap of each window, and the evidence against the claims with its alarm line.

addPage("monitor", () => {
  drawPage("monitor", [
    { id: "time", link: "Over time", make: timeSection },
    { id: "windows", link: "Windows", make: windowsSection },
  ], data.notes.map((note) => sentence(cut(note, 600))));
});

// Both charts have the rows of the log on one axis; where windows have names of their own, it shows these.
function timeAxis(width) {
  const { windows, rows } = data, about = width < 460 ? 3 : 5;
  if (/^rows /.test(windows[0].name)) return { x: [0, rows], xTicks: niceTicks(0, rows, about), xFormat: whole, xLabel: "row" };
  const step = Math.ceil(windows.length / about);
  const shown = windows.filter((_, i) => i % step === 0 && (i === 0 || windows[i].first / rows < 0.93));
  const names = new Map(shown.map((window) => [(window.first + window.last) / 2, cut(window.name.replace(/^week of /, ""), 12)]));
  return { x: [0, rows], xTicks: Array.from(names.keys()), xFormat: (v) => names.get(v), xLabel: /^week/.test(windows[0].name) ? "week from" : "time" };
}

// The alarm as an upright line; its words stand on the side that has room.
function alarmMark(f, y) {
  if (!data.alarm) return [];
  const x = f.X(data.alarm.row), before = x - f.left > 130;
  return [svg("line", { class: "rule alarm", x1: x, x2: x, y1: f.top, y2: f.base }), svg("text", { class: "rule-text alarm", x: before ? x - 5 : x + 5, y, "text-anchor": before ? "end" : "start" }, `alarm, row ${whole(data.alarm.row)}`)];
}

function gapFigure() {
  const { windows, tolerance } = data;
  const values = windows.flatMap(({ gap }) => [gap.low, gap.high].map(Number));
  const far = Math.max(0.02, ...values.map(Math.abs)) * 1.06, ends = [Math.min(-0.02, ...values) - far * 0.04, Math.max(0.02, ...values) + far * 0.04];
  const drawn = chart((width) => {
    const f = frame(width, Math.max(260, Math.min(340, width * 0.55)), { ...timeAxis(width), y: ends, left: 62, bottom: 42, right: 16, top: 14, yTicks: niceTicks(...ends, 5), yFormat: (v) => points(v, 0), yLabel: "claimed − right, points", label: `Claimed minus right of ${windows.length} windows, with intervals. Arrow keys go through them.` });
    if (tolerance) f.root.append(svg("rect", { class: "tolerated", x: f.left, width: width - f.left - f.right, y: f.Y(tolerance), height: f.Y(-tolerance) - f.Y(tolerance) }));
    f.root.append(svg("line", { class: "diagonal", x1: f.left, x2: width - f.right, y1: f.Y(0), y2: f.Y(0) }), ...alarmMark(f, f.base - 6));
    const spots = windows.map((window) => ({ window, x: f.X((window.first + window.last) / 2), y: f.Y(Number(window.gap.value)) }));
    for (const { window, x, y } of spots) {
      const off = Number(window.gap.low) > tolerance ? "over" : Number(window.gap.high) < -tolerance ? "under" : "";
      f.root.append(svg("line", { class: `whisker ${off}`, x1: x, x2: x, y1: f.Y(Number(window.gap.low)), y2: f.Y(Number(window.gap.high)) }), svg("circle", { class: `dumb-right ${off}`, cx: x, cy: y, r: off ? 5.5 : 4 }));
    }
    const tip = inspect(f.root, {
      count: () => spots.length,
      at: (i) => spots[i],
      pick: (x) => nearest(spots.map((spot) => spot.x), x),
      describe: (i) => windowWords(spots[i].window),
    });
    return [f.root, tip];
  });
  watch(["theme", "printing"], drawn.redraw);
  const note = `Above the dashed line the model claims too much, below it too little. Lines are intervals that hold for all windows at once; a large dot has its whole interval ${tolerance ? "beyond the tolerated band" : "on one side"}.`;
  return figureOf({ title: "Gap of each window", note, drawn, rows: () => windowsTable("Gap of each window") });
}

const windowWords = (window) => [isolated(window.name, 40), `${whole(window.rows)} rows: claimed ${percent(window.claimed)}, right ${percent(Number(window.right.value))}`, `gap ${points(Number(window.gap.value))}${THIN}pts (${points(Number(window.gap.low))} to ${points(Number(window.gap.high))})`];

// Powers of ten as people read them.
const raised = (exponent) => Array.from(String(exponent), (digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]).join("");
const power = (v) => (v >= 1e-3 && v < 1e5 ? (v >= 1 ? whole(v) : String(Number(v.toPrecision(1)))) : `10${raised(Math.round(Math.log10(v)))}`);
const evidenceText = (v) => {
  if (v < 1e4 && v >= 0.01) return String(Number(Number(v).toPrecision(3)));
  const [digits, exponent] = Number(v).toExponential(1).split("e");
  return `${digits} · 10${raised(Number(exponent))}`;
};

function evidenceFigure() {
  const { course, needed } = data, bottom = Math.min(0.1, ...course.map(([, v]) => v)), most = Math.max(needed * 3, ...course.map(([, v]) => v));
  const low = 10 ** Math.floor(Math.log10(bottom)), high = most * 1.5;
  const step = Math.max(1, Math.ceil(Math.log10(high / low) / 6));
  const marks = Array.from({ length: Math.floor(Math.log10(high / low) / step + 1e-9) + 1 }, (_, i) => low * 10 ** (i * step));
  const drawn = chart((width) => {
    const f = frame(width, Math.max(260, Math.min(340, width * 0.55)), { ...timeAxis(width), y: [low, high], yScale: Math.log10, left: 62, bottom: 42, right: 16, top: 14, yTicks: marks, yFormat: power, yLabel: "evidence", label: `Evidence against the claims after ${course.length} rows, on a logarithmic scale; the alarm is at ${needed}. Arrow keys go through them.` });
    f.root.append(svg("line", { class: "rule claimed", x1: f.left, x2: width - f.right, y1: f.Y(needed), y2: f.Y(needed) }), svg("text", { class: "rule-text claimed", x: f.left + 6, y: f.Y(needed) - 6 }, `alarm at ${evidenceText(needed)}`), svg("path", { class: "line m0", d: path(course.map(([row, v]) => [f.X(row), f.Y(v)])) }), ...alarmMark(f, f.top + 10));
    const ring = svg("circle", { class: "ring", r: 7, cx: -20, cy: -20 });
    f.root.append(ring);
    const tip = inspect(f.root, {
      count: () => course.length,
      at: (i) => ({ x: f.X(course[i][0]), y: f.Y(course[i][1]) }),
      pick: (x) => nearest(course.map(([row]) => f.X(row)), x),
      describe: (i) => [`row ${whole(course[i][0])}`, `evidence ${evidenceText(course[i][1])}`],
      mark: (i) => {
        ring.setAttribute("cx", i < 0 ? -20 : f.X(course[i][0]));
        ring.setAttribute("cy", i < 0 ? -20 : f.Y(course[i][1]));
      },
    });
    return [f.root, tip];
  });
  watch(["theme", "printing"], drawn.redraw);
  const note = "What 1 unit of money has become by betting against the claims. While they are right, it hardly ever reaches the dashed line; the scale is logarithmic.";
  return figureOf({ title: "Evidence against the claims", note, drawn, rows: () => table("Evidence against the claims", ["row", "evidence"], course.map(([row, v]) => [whole(row), numeric(v, evidenceText(v))])) });
}

function timeSection() {
  return section("time", "Over time", el("div", { class: "multiples aligned" }, gapFigure(), evidenceFigure()));
}

function windowsTable(caption) {
  const cell = (v) => numeric(v, `${points(Number(v))}${THIN}pts`);
  return table(caption, ["window", "rows", "claimed", "right", "gap", "low", "high"], data.windows.map((window) => [named(window.name, 60), whole(window.rows), numeric(window.claimed, percent(window.claimed)), numeric(window.right.value, percent(Number(window.right.value))), cell(window.gap.value), cell(window.gap.low), cell(window.gap.high)]));
}

function windowsSection() {
  const node = windowsTable("All windows, with intervals");
  return section("windows", "Windows", el("div", { class: "card flush" }, node), el("div", { class: "under" }, el("button", { type: "button", class: "take", "aria-label": "CSV: save the table", click: () => download(fileName("windows", "csv"), csvOf(node), "text/csv") }, "CSV"), copyTable(node.querySelector("table"))));
}
