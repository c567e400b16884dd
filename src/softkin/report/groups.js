// Groups of rows: how right and how sure each is, whether they differ, and above which confidence each may answer.

const MOST_CURVES = 24; // groups whose reliability is drawn
/** @param {{low?: any, high?: any}} gap */
const gapKind = ({ low, high }) => (Number(low) > 0 ? "over" : Number(high) < 0 ? "under" : "fine");

function groupsOfRows() {
  const { rows, column, level } = data.groups, n = rows.length;
  const all = rows.flatMap((row) => [row.right, row.sure]), room = Math.max(0.01, (Math.max(...all) - Math.min(...all)) * 0.08);
  const ends = [Math.max(0, Math.min(...all) - room), Math.min(1, Math.max(...all) + room)];
  const drawn = chart((width) => {
    const narrow = width < 560, step = narrow ? 40 : 28, left = narrow ? 8 : Math.min(220, 26 + 7 * Math.max(...rows.map((row) => Math.min(28, row.name.length))));
    const beside = narrow ? 8 : 190, head = 26, base = head + step * n + 4, height = base + 24;
    const X = (v) => left + 8 + ((v - ends[0]) / (ends[1] - ends[0])) * (width - left - beside - 16);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `How right and how sure the answers of each of ${n} groups are. Arrow keys go through them.` });
    const text = (x, y, content, attributes = {}) => svg("text", { x, y, ...attributes }, content);
    const key = narrow ? 8 : left + 8, zones = svg("g"), marks = svg("g");
    root.append(svg("circle", { class: "dumb-right", cx: key + 5, cy: 12, r: 4.5 }), text(key + 14, 16, "right"), svg("line", { class: "dumb-sure", x1: key + 54, x2: key + 54, y1: 5, y2: 19 }), text(key + 60, 16, "sure"));
    if (!narrow) root.append(text(width - 8, 16, `too sure by, ${percent(level, 0)} interval`, { "text-anchor": "end" }));
    const ruled = niceTicks(...ends, narrow ? 4 : 6);
    root.append(...ruled.map((v) => svg("line", { class: "grid", x1: X(v), x2: X(v), y1: head, y2: base - 2 })), ...ruled.map((v) => text(X(v), base + 14, percent(v, 0), { "text-anchor": "middle" })));
    rows.forEach((row, i) => {
      const at = head + step * (i + 0.5), line = narrow ? at + 9 : at, kind = gapKind(row.gap);
      const gap = `${points(row.sure - row.right)} (${points(Number(row.gap.low))} to ${points(Number(row.gap.high))})`;
      zones.append(svg("rect", { class: "zone", x: 2, width: width - 4, y: at - step / 2 + 1, height: step - 2, rx: 5 }));
      marks.append(
        text(narrow ? 8 : 14, narrow ? at - 6 : at + 4, isolated(row.name, narrow ? Math.floor((width - 150) / 8) : 28), { class: "row-name" }),
        text(width - 8, narrow ? at - 6 : at + 4, gap, { "text-anchor": "end", class: `row-number ${kind}` }),
        svg("line", { class: `dumb-span ${kind}`, x1: X(row.right), x2: X(row.sure), y1: line, y2: line }),
        svg("circle", { class: "dumb-right", cx: X(row.right), cy: line, r: 4.5 }),
        svg("line", { class: `dumb-sure ${kind}`, x1: X(row.sure), x2: X(row.sure), y1: line - 7, y2: line + 7 }),
      );
    });
    root.append(zones, marks);
    const tip = inspect(root, {
      count: () => n,
      at: (i) => ({ x: Math.max(X(rows[i].right), X(rows[i].sure)), y: head + step * i }),
      pick: (x, y) => Math.floor((y - head) / step),
      describe: (i) => [isolated(rows[i].name, 40), `${percent(rows[i].sure)} sure, ${percent(rows[i].right)} right`, `${whole(rows[i].num_samples)} rows`],
      mark: (i) => zones.childNodes.forEach((zone, place) => zone instanceof Element && zone.classList.toggle("on", place === i)),
    });
    return [root, tip];
  });
  watch(["theme", "printing"], drawn.redraw);
  const listed = groupsTable();
  return section(
    "groups",
    data.pairs ? "Group by group" : `By ${cut(column, 40)}`,
    el("p", { class: "lead" }, groupsWords()),
    figureOf({ title: `How right and how sure, by ${cut(column, 40)}`, note: `The line from ● to | is over-confidence where | is to the right, and under-confidence where it is to the left; it is green where chance explains it, and dashed for under-confidence that chance does not explain. All intervals hold together with ${percent(level, 0)} confidence.`, drawn, rows: () => table(`How right and how sure, by ${cut(column, 40)}`, [cut(column, 40), "right", "sure", "low", "high"], rows.map((row) => [named(row.name, 40), numeric(row.right, percent(row.right)), numeric(row.sure, percent(row.sure)), numeric(row.gap.low, points(Number(row.gap.low))), numeric(row.gap.high, points(Number(row.gap.high)))])) }),
    el("div", { class: "card flush" }, listed),
    el("div", { class: "under" }, copyTable(listed.querySelector("table"))),
    groupCurves(),
  );
}

function groupsWords() {
  const { rows, gaps_differ: gaps, curves_differ: curves } = data.groups, says = [];
  const p = (value) => (value < 0.0001 ? "p < 0.0001" : `p = ${fixed(value, value < 0.01 ? 4 : 2)}`);
  const off = rows.filter((row) => gapKind(row.gap) !== "fine");
  says.push(off.length ? `${off.length === rows.length ? "All" : `${whole(off.length)} of`} ${whole(rows.length)} groups claim too much or too little, by more than sampling noise explains.` : `No group of ${whole(rows.length)} claims too much or too little by more than sampling noise explains.`);
  if (exists(gaps)) says.push(gaps <= 1 - data.groups.level ? `The groups differ in it (${p(gaps)}).` : `The groups may all have the same gap (${p(gaps)}).`);
  if (exists(curves)) says.push(curves <= 1 - data.groups.level ? `The same confidence means different things in different groups (${p(curves)}): calibrate each on its own.` : `The same confidence may mean the same in all (${p(curves)}).`);
  return says.join(" ");
}

function groupsTable() {
  const { rows, column } = data.groups, ruled = rows.find((row) => row.threshold);
  const where = (row) => {
    if (!row.threshold) return "–";
    const { chosen, observed } = row.threshold;
    if (chosen) return el("span", {}, chosen.coverage < 1 ? exact(chosen.threshold) : "any", el("span", { class: "note" }, ` answers ${percent(chosen.coverage)}`));
    return el("span", {}, "none certified", el("span", { class: "note" }, observed ? ` here above ${exact(observed.threshold)}: ${whole(observed.answered)} rows` : " not even here"));
  };
  const head = [cut(column, 40), "rows", "right", "sure", "gap", "interval", "ECE", "AUROC", ...(ruled ? ["answer above"] : [])];
  const cells = (row) => [
    named(row.name, 40), numeric(row.num_samples, whole(row.num_samples)), numeric(row.right, percent(row.right)), numeric(row.sure, percent(row.sure)),
    el("span", { "data-value": row.sure - row.right, class: gapKind(row.gap) === "fine" ? null : `${gapKind(row.gap)}-text` }, points(row.sure - row.right)),
    `${points(Number(row.gap.low))} to ${points(Number(row.gap.high))}`,
    numeric(row.error.value, share(Number(row.error.value))), row.auroc ? numeric(row.auroc.value, fixed(row.auroc.value, 3)) : "–", ...(ruled ? [where(row)] : []),
  ];
  const certified = ruled ? `Groups, the largest gap first. “Answer above” keeps at most ${percent(ruled.threshold.risk, ruled.threshold.risk < 0.01 ? 1 : 0)} wrong, with ${percent(ruled.threshold.confidence, 0)} confidence for each group.` : "Groups, the largest gap first";
  return table(certified, head, rows.map(cells));
}

// A small reliability diagram for each group.
function groupCurves() {
  const rows = data.groups.rows.filter((row) => row.bins.some(([, count]) => count >= FEW));
  const about = data.binary && !data.pairs ? `probability of ${cut(data.binary.positive, 30)}` : "confidence of the answer";
  if (!rows.length) return null;
  const small = chart((width) => {
    const gap = 12, columns = Math.max(2, Math.floor((width + gap) / (182 + gap))), each = Math.floor((width - gap * (columns - 1)) / columns);
    return smallCharts(rows.slice(0, MOST_CURVES).map((row) => {
      const bins = row.bins.filter(([, count]) => count >= FEW).map(([bin, count, score, hit]) => ({ bin, low: bin / 15, high: (bin + 1) / 15, count, score, hit, confidence: score / count, likelihood: hit / count }));
      const bands = bins.map((b) => wilson(b.likelihood, b.count));
      const line = { place: 0, markers: true, points: bins.map((b) => [b.confidence, b.likelihood]), bands, describe: (i) => [isolated(row.name, 40), ...binWords(bins[i], "prediction", bands[i])] };
      const [root, tip] = lineChart(each, each * 0.92, [line], { x: [0, 1], y: [0, 1], diagonal: true, left: 30, right: 14, bottom: 24, xTicks: [0, 0.5, 1], yTicks: [0, 0.5, 1], xFormat: (v) => fixed(100 * v, 0), yFormat: (v) => fixed(100 * v, 0), label: `Reliability of ${cut(row.name, 40)}. Arrow keys go through the points, Page Down goes to the next chart.` });
      return el("div", { class: "multiple" }, el("p", { class: "multiple-name" }, named(row.name, 24), el("span", { class: "note" }, `ECE ${share(errorOf(row.bins.map(([, , score, hit]) => ({ score, hit })), row.num_samples))}`)), el("div", { class: "chart" }, root, tip));
    }));
  });
  const drawn = el("div", { class: "methods-drawn" }, small);
  drawn.picture = () => gathered(small);
  watch(["theme", "printing"], small.redraw);
  const left = rows.length - MOST_CURVES, without = data.groups.rows.length - rows.length;
  return figureOf({
    title: "Reliability of each group",
    note: `Horizontal axis: ${about}. Vertical axis: share that ${data.binary && !data.pairs ? "is" : "is right"}. Both in %; upright lines are 95${THIN}% bands; bins with fewer than ${FEW} scores are left out.${left > 0 ? ` The ${MOST_CURVES} with the largest gaps.` : ""}${without ? ` ${without} ${without === 1 ? "group has" : "groups have"} too few rows.` : ""}`,
    drawn,
    rows: () => table("Reliability of each group", ["group", "bin", "answers", "claimed", "true"], rows.flatMap((row) => row.bins.map(([bin, count, score, hit]) => [named(row.name, 40), `${fixed((100 * bin) / 15, 1)}–${percent((bin + 1) / 15)}`, numeric(count, whole(count)), numeric(score / count, percent(score / count, 2)), numeric(hit / count, percent(hit / count, 2))]))),
  });
}

addSection("model", { id: "groups", link: data.pairs ? null : "Groups", after: "reliability", when: () => data.groups, make: groupsOfRows });
