// The page of what a command compares: a picture of one measure with intervals, and the table of all; or limits.

const MARKS = { best: "★ best", worse: "○ worse than the best", kept: "✓ kept", open: "? may be chance", broken: "✗ broken" };

addPage("results", () => {
  drawPage("results", [
    { id: "limits", when: () => data.subject === "limits", make: limitsSection },
    { id: "picture", link: "Picture", when: () => data.chart.length, make: resultsPicture },
    { id: "all", link: "Table", when: () => data.subject !== "limits", make: resultsTable },
  ], data.notes.map((note) => sentence(cut(note, 600))));
});

const cellOfResult = (column, cell) => {
  if (!cell) return "–";
  const text = textOf({ percent: column.percent, signed: column.signed, larger_is_better: column.larger_is_better });
  return el("span", { "data-value": cell.value }, text(cell.value), exists(cell.low) ? el("span", { class: "note" }, `${text(cell.low)} to ${text(cell.high)}`) : null);
};

function resultsPicture() {
  const columns = data.chart.map((key) => data.columns.find((column) => column.key === key));
  const figures = columns.map((column) => {
    const text = textOf({ percent: column.percent, signed: column.signed, larger_is_better: column.larger_is_better });
    const rows = data.rows.filter((row) => row.cells[column.key]);
    const known = (row) => Number.isFinite(Number(row.cells[column.key].value));
    const line = data.lines[column.key];
    const drawn = chart((width) => {
      const values = rows.flatMap((row) => ["value", "low", "high", "chance"].map((part) => row.cells[column.key][part]).filter(exists).map(Number)).filter(Number.isFinite);
      if (line) values.push(line.value);
      if (!values.length) values.push(0, 1);
      const least = Math.min(...values), most = Math.max(...values), room = (most - least) * 0.06 || 0.01;
      const ends = [column.percent && least >= 0 ? Math.max(0, least - room) : least - room, most + room];
      const left = Math.min((width < 420 ? 0.58 : 0.5) * width, 20 + 7.2 * Math.max(...rows.map((row) => Math.min(26, row.name.length)))), step = 28;
      const head = line ? 26 : 10;
      const f = frame(width, 46 + head + step * rows.length, { top: head, x: ends, y: [0, rows.length], left, right: width < 560 ? 14 : 20, bottom: 44, xTicks: niceTicks(...ends, width < 560 ? 3 : 5), xFormat: (v) => (column.percent ? percent(v, most - least < 0.04 ? 1 : 0) : fixed(v, most - least < 0.2 ? 2 : 1)), xLabel: column.title, label: `${column.title} of ${rows.length} ${data.subject}, with intervals. Arrow keys go through them.` });
      if (line) f.root.append(svg("line", { class: "rule claimed", x1: f.X(line.value), x2: f.X(line.value), y1: f.top, y2: f.base }), svg("text", { class: "rule-text claimed", x: f.X(line.value), y: f.top - 8, "text-anchor": f.X(line.value) > width - 80 ? "end" : "middle" }, sentence(line.title)));
      rows.forEach((row, i) => {
        const cell = row.cells[column.key], y = f.Y(rows.length - i - 0.5);
        f.root.append(svg("text", { class: row.mark === "best" ? "row-name strong" : "row-name", x: left - 10, y: y + 4, "text-anchor": "end" }, isolated(row.name, Math.floor((left - 14) / 7.1))));
        if (!known(row)) {
          f.root.append(svg("text", { class: "row-number", x: width - f.right, y: y + 4, "text-anchor": "end" }, `${fixed(Number(cell.value), 1)} →`));
          return;
        }
        if (exists(cell.low)) f.root.append(svg("line", { class: "whisker", x1: f.X(Number(cell.low)), x2: f.X(Number(cell.high)), y1: y, y2: y }));
        const reference = exists(cell.chance) ? cell.chance : row.reference && row.reference[column.key];
        if (exists(reference)) f.root.append(svg("line", { class: "chance", x1: f.X(Number(reference)), x2: f.X(Number(reference)), y1: y - 8, y2: y + 8 }));
        f.root.append(svg("circle", { class: "dumb-right", cx: f.X(Number(cell.value)), cy: y, r: 4.5 }));
      });
      const tip = inspect(f.root, {
        count: () => rows.length,
        at: (i) => ({ x: known(rows[i]) ? f.X(Number(rows[i].cells[column.key].value)) : width - f.right, y: f.Y(rows.length - i - 0.2) }),
        pick: (x, y) => Math.floor(((y - f.top) / (f.base - f.top)) * rows.length),
        describe: (i) => {
          const cell = rows[i].cells[column.key];
          return [isolated(rows[i].name, 40), text(cell.value), ...(exists(cell.low) ? [`${text(cell.low)} to ${text(cell.high)}`] : []), ...(exists(cell.chance) ? [`chance alone: ${text(cell.chance)}`] : []), ...(rows[i].mark ? [MARKS[rows[i].mark]] : [])];
        },
      });
      return [f.root, tip];
    });
    watch(["theme", "printing"], drawn.redraw);
    return figureOf({ title: column.title, note: `${column.explained ? `${cut(column.explained, 300).replace(/[.;]?$/, ". ")}` : ""}Lines are intervals${rows.some((row) => exists(row.cells[column.key].chance)) ? "; upright lines: what chance alone would show" : ""}.`, drawn, rows: () => table(column.title, ["", column.title, "low", "high"], rows.map((row) => [named(row.name, 60), numeric(row.cells[column.key].value, text(row.cells[column.key].value)), exists(row.cells[column.key].low) ? numeric(row.cells[column.key].low, text(row.cells[column.key].low)) : "–", exists(row.cells[column.key].high) ? numeric(row.cells[column.key].high, text(row.cells[column.key].high)) : "–"])) });
  });
  return section("picture", "Side by side", el("div", { class: "multiples aligned" }, figures));
}

function resultsTable() {
  const mark = (row) => (row.mark ? el("span", { class: row.mark === "best" ? "standing best" : "standing" }, MARKS[row.mark]) : null);
  const node = table(`All ${data.subject}`, ["", ...data.columns.map((column) => column.title)], data.rows.map((row) => [el("span", {}, named(row.name, 60), mark(row), el("span", { class: "note" }, cut(row.note, 300))), ...data.columns.map((column) => cellOfResult(column, row.cells[column.key]))]), { class: "results-all" });
  return section("all", "All numbers", el("div", { class: "card flush" }, node), el("div", { class: "under" }, el("button", { type: "button", class: "take", "aria-label": "CSV: save the table", click: () => download(fileName("table", "csv"), csvOf(node), "text/csv") }, "CSV"), copyTable(node.querySelector("table"))));
}

// The ends of the scale on which all limits of a metric are drawn.
function limitScale(metric) {
  const rows = data.rows.filter((row) => row.limit.metric === metric), bounds = rows.flatMap(({ limit }) => (limit.kind === "within" ? [-limit.value, limit.value] : [limit.value]));
  const numbers = rows.flatMap(({ cells }) => [cells.value.value, cells.value.low, cells.value.high]).filter(exists).map(Number).filter(Number.isFinite);
  return [Math.min(0, ...numbers, ...bounds), Math.max(...numbers, ...bounds) * 1.12 || 1];
}

// A limit, the interval and the value on one scale.
function limitMark(row) {
  const { value, low, high } = row.cells.value, { kind, value: bound, percent: inPercent } = row.limit;
  const ends = limitScale(row.limit.metric);
  const X = (v) => 6 + (188 * (v - ends[0])) / (ends[1] - ends[0]);
  const text = (v) => (inPercent ? share(v) : fixed(v, 3));
  const bounds = kind === "within" ? [-bound, bound] : [bound];
  return svg(
    "svg",
    { class: "limit-mark", viewBox: "0 0 200 22", width: 200, height: 22, role: "img", "aria-label": `measured ${text(value)}, limit ${text(bound)}` },
    svg("line", { class: "grid", x1: 6, x2: 194, y1: 11, y2: 11 }),
    exists(low) ? svg("line", { class: { broken: "dumb-span over", open: "dumb-span open" }[row.mark] || "dumb-span", x1: X(Number(low)), x2: X(Number(high)), y1: 11, y2: 11 }) : null,
    svg("circle", { class: "dumb-right", cx: X(Number(value) || 0), cy: 11, r: 4.5 }),
    bounds.map((v) => svg("line", { class: "chance", x1: X(v), x2: X(v), y1: 1, y2: 21 })),
  );
}

function limitsSection() {
  const words = { max: "at most", min: "at least", within: "within ±" };
  const rows = data.rows.map((row) => {
    const { value, low, high } = row.cells.value, text = (v) => (row.limit.percent ? share(v) : fixed(v, 3));
    return [
      el("span", { class: { kept: "good", broken: "bad" }[row.mark], "data-mark": row.mark }, MARKS[row.mark]),
      row.name,
      el("span", { "data-value": value }, exists(value) ? text(value) : "undefined"),
      exists(low) ? `${text(low)} to ${text(high)}` : "–",
      `${words[row.limit.kind]}${row.limit.kind === "within" ? "" : " "}${row.limit.percent ? `${Number((100 * row.limit.value).toPrecision(12))}${THIN}%` : Number(row.limit.value.toPrecision(12))}`,
      limitMark(row),
    ];
  });
  const node = table("Limits: dot and line are the value and its interval, the upright line is the limit", ["", "metric", "value", "interval", "must be", ""], rows, { class: "limits" });
  return section("limits", "Limits", el("div", { class: "card flush" }, node), el("div", { class: "under" }, copyTable(node.querySelector("table"))));
}
