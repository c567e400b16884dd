// The lines of several methods, with one way to point at them. A ghost line is drawn behind, for comparison only.

function lineChart(width, height, lines, options) {
  const f = frame(width, height, options);
  const all = lines.filter((line) => !line.ghost).flatMap((line) => line.points.map((p, i) => ({ line, i, x: f.X(p[0]), y: f.Y(p[1]) })));
  const marked = svg("circle", { class: "ring", r: 7, cx: -20, cy: -20 });
  if (options.diagonal) f.root.append(svg("line", { class: "diagonal", x1: f.X(0), y1: f.Y(0), x2: f.X(1), y2: f.Y(1) }));
  for (const line of lines) {
    if (!line.points.length) continue;
    f.root.append(svg("path", { class: line.ghost ? "line ghost" : `line m${series(line.place).colour} ${line.faded ? "faded" : ""}`, "stroke-dasharray": line.faded || line.ghost ? null : series(line.place).dash, d: line.steps ? steps(line.points, f) : path(line.points.map(([x, y]) => [f.X(x), f.Y(y)])), "data-method": line.method }));
    if (line.bands) f.root.append(...line.points.map(([x], i) => svg("line", { class: `band-line m${series(line.place).colour}`, x1: f.X(x), x2: f.X(x), y1: f.Y(line.bands[i][0]), y2: f.Y(line.bands[i][1]) })));
    if (line.rings) f.root.append(...line.points.filter((_, i) => line.rings[i]).map(([x, y]) => svg("circle", { class: "ring chosen", cx: f.X(x), cy: f.Y(y), r: 8 })));
    // A path of one point draws nothing, such as that of a network which was validated after its last epoch only.
    if (line.markers || (line.points.length === 1 && !line.ghost && !line.faded)) f.root.append(...line.points.map(([x, y]) => marker(line.place, f.X(x), f.Y(y), 3)));
  }
  f.root.append(marked);
  const tip = inspect(f.root, {
    count: () => all.length,
    at: (i) => all[i],
    pick: (x, y) => {
      let best = -1, least = 40 ** 2;
      all.forEach((p, i) => {
        const far = (p.x - x) ** 2 + (p.y - y) ** 2;
        if (far < least) [best, least] = [i, far];
      });
      return best;
    },
    describe: (i) => all[i].line.describe(all[i].i),
    mark: (i) => {
      marked.setAttribute("cx", i < 0 ? -20 : all[i].x);
      marked.setAttribute("cy", i < 0 ? -20 : all[i].y);
    },
  });
  return [f.root, tip];
}

// A histogram's outline: flat over each bin.
const steps = (points, f) => path(points.flatMap(([x, y, half]) => [[f.X(x - half), f.Y(y)], [f.X(x + half), f.Y(y)]]));

const meanOf = (values) => values.reduce((sum, v) => sum + Number(v), 0) / values.length;
