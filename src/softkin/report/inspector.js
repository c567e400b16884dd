// The page of a similarity: what looks wrong, the classes, and how they group.

const KINDS = { dominated: "one neighbour dominates", alone: "unlike all others", disagreement: "sources disagree" };

function inspectorPage() {
  const first = data.closest.length ? data.closest[0][0] : data.similarity.order[0];
  drawPage(
    "similarity",
    [
      { id: "similarity", link: "Similarity", make: () => similaritySection(data.similarity, first) },
      { id: "epochs", link: "Epochs", when: () => data.learned && data.learned.length, make: epochsSection },
      { id: "odd", link: "To look at", make: oddSection },
      { id: "groups", link: "Groups", when: () => data.merges.length, make: groupsSection },
      { id: "classes", link: "Classes", make: rowsSection },
    ],
    ["Entropy is that of a class's similarity to the others, in nats; its exponential is the number of classes over which α is spread. The equivalent ε is the one whose uniform label is as uncertain as the class's own."],
  );
}
addPage("similarity", inspectorPage);

const FEW_ODD = 12; // rows to show at first

function oddSection() {
  const fixes = Object.entries(data.fixes);
  const mended = fixes.length ? el("p", { class: "note" }, "Corrected by hand: ", fixes.map(([name, like], i) => [i ? "; " : "", named(name, 40), " is like ", named(like.join(", "), 120)])) : null;
  if (!data.oddities.length) return section("odd", "Worth a look", el("p", { class: "lead" }, "No row looks wrong."), mended);
  state.allOdd = false;
  const holder = el("div", { class: "card flush" });
  const more = el("button", { type: "button", class: "more", "data-focus": "more-odd", click: () => choose({ allOdd: !state.allOdd }) });
  const show = (k) => {
    choose({ own: k });
    document.getElementById("similarity").scrollIntoView();
  };
  const line = (oddity) => [
    el("button", { type: "button", class: "link listed", "data-odd": oddity.k, click: () => show(oddity.k) }, named(className(oddity.k), 40)),
    el("span", {}, sentence(cut(oddity.words, 400)), el("span", { class: "note" }, KINDS[oddity.kind])),
  ];
  watch(["allOdd"], () => {
    const shown = data.oddities.slice(0, state.allOdd ? 200 : FEW_ODD);
    holder.replaceChildren(table("Rows worth a look", ["class", "why"], shown.map(line), { class: "words" }));
    more.hidden = data.oddities.length <= FEW_ODD;
    more.textContent = state.allOdd ? `Show ${FEW_ODD}` : `Show ${data.oddities.length > 200 ? "200 of" : "all"} ${whole(data.oddities.length)}`;
  });
  const save = el("button", { type: "button", class: "take", "aria-label": "CSV: save the rows that look wrong as a table", click: () => download(fileName("looks wrong", "csv"), csvText([["class", "kind", "why"], ...data.oddities.map(({ k, kind, words }) => [className(k), KINDS[kind], words])]), "text/csv") }, "CSV");
  return section(
    "odd",
    "Worth a look",
    el("p", { class: "lead" }, `${data.oddities.length === 1 ? "One row" : `${whole(data.oddities.length)} rows`} may be worth a look; most such rows are right. Select a class to see its label below.`),
    holder,
    el("div", { class: "under" }, more, save),
    mended,
  );
}

// What the network came to find similar: the pairs that lead after the last epoch.
function epochsSection() {
  const last = Math.max(2, data.learned[0].shares.length), top = 1.05 * Math.max(...data.learned.flatMap(({ shares }) => shares.map(Number)));
  const pairName = ({ a, b }) => `${isolated(className(a), 30)} → ${isolated(className(b), 30)}`;
  const lines = data.learned.map((pair, place) => {
    const points = pair.shares.map((share, i) => [i + 1, share]).filter(([, share]) => exists(share));
    return { place, method: pairName(pair), points, describe: (i) => [pairName(pair), `epoch ${points[i][0]}`, percent(points[i][1])] };
  });
  const drawn = chart((width) => lineChart(width, 280, lines, { x: [1, last], y: [0, top], left: 58, bottom: 42, xTicks: niceTicks(1, last, width < 460 ? 4 : 6), yTicks: niceTicks(0, top, 4), yFormat: (v) => percent(v, 0), xLabel: "epoch", label: "Share of the most similar pairs by epoch. Arrow keys go through the points." }));
  drawn.legend = () => data.learned.map((pair, place) => [swatch(place), pairName(pair)]);
  const rows = () => table("Shares by epoch", ["class", "similar to", "epoch", "share"], data.learned.flatMap(({ a, b, shares }) => shares.map((share, i) => [isolated(className(a), 40), isolated(className(b), 40), String(i + 1), exists(share) ? numeric(share, percent(share)) : "–"])));
  return section(
    "epochs",
    "What the network came to find similar",
    el("p", { class: "lead" }, "The share of a class's similarity that goes to another class, epoch by epoch, for the pairs that lead after the last one."),
    figureOf({ title: "Similar pairs by epoch", drawn, rows, before: el("ul", { class: "legend" }, drawn.legend().map(([drawing, text]) => el("li", {}, drawing, text))) }),
  );
}

const MOST_LINES = 40; // of a dendrogram at first: a screen of it

// A dendrogram with one line for each class, or for each of the closest groups of many classes.
function groupsSection() {
  const k = data.num_classes, line = 15;
  state.allLines = k <= MOST_LINES;
  const top = Math.max(...data.merges.map((merge) => merge[2]), 1e-12);
  // Each group: its classes, in the order of the drawing.
  const groups = data.merges.reduce((all, [first, second]) => [...all, [first, second].flatMap((node) => (node < k ? [node] : all[node - k]))], []);
  // The first merges are those of the most similar: what they join is one line as long as there are too many.
  const within = () => (state.allLines ? 0 : k - MOST_LINES);
  const members = (node) => (node < k ? [node] : groups[node - k]);
  const leaves = () => {
    const joined = new Set(data.merges.slice(0, within()).flat(1).filter((_, i) => i % 3 < 2));
    const nodes = [...Array(k + within()).keys()].filter((node) => !joined.has(node));
    const place = new Map(data.similarity.order.map((own, row) => [own, row]));
    return nodes.sort((a, b) => place.get(members(a)[0]) - place.get(members(b)[0]));
  };
  const called = (node, letters) => {
    const inside = members(node);
    return inside.length === 1 ? isolated(className(inside[0]), letters) : `${isolated(className(inside[0]), letters - 5)} +${inside.length - 1}`;
  };
  const drawn = chart((width) => {
    const ends = leaves(), skipped = within();
    const names = width < 560 ? 110 : 200, wide = Math.min(640, width - names - 24), bottom = ends.length * line + 4, height = bottom + 34;
    const at = new Map(ends.map((node, row) => [node, { y: (row + 0.5) * line, x: node < k ? 0 : (wide * data.merges[node - k][2]) / top }]));
    const marked = svg("circle", { class: "ring", r: 5, cx: -20, cy: -20 });
    const paths = data.merges.slice(skipped).map(([first, second, high], i) => {
      const a = at.get(first), b = at.get(second), x = (wide * high) / top;
      at.set(k + skipped + i, { y: (a.y + b.y) / 2, x });
      return svg("path", { class: "branch", d: `M${names + a.x} ${a.y}H${names + x}V${b.y}H${names + b.x}` });
    });
    const stubs = ends.filter((node) => node >= k).map((node) => svg("line", { class: "branch", x1: names, x2: names + at.get(node).x, y1: at.get(node).y, y2: at.get(node).y, "stroke-dasharray": "2 3" }));
    const texts = ends.map((node, row) => svg("text", { x: names - 6, y: (row + 0.5) * line + 4, "text-anchor": "end" }, called(node, Math.floor(names / 7)), svg("title", {}, members(node).map(className).join(", "))));
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Dendrogram of ${k} classes${skipped ? ` in ${ends.length} lines` : ""}. Arrow keys go through the groups.` }, paths, stubs, texts, marked);
    root.append(
      svg("line", { class: "axis", x1: names, x2: names + wide, y1: bottom, y2: bottom }),
      ...niceTicks(0, top, 4).map((v) => svg("text", { x: names + (wide * v) / top, y: bottom + 14, "text-anchor": "middle" }, fixed(v, top < 2 ? 1 : 0))),
      svg("text", { class: "title", x: names + wide / 2, y: bottom + 29, "text-anchor": "middle" }, "less similar →"),
    );
    const places = data.merges.slice(skipped).map((_, i) => ({ x: names + at.get(k + skipped + i).x, y: at.get(k + skipped + i).y }));
    const tip = inspect(root, {
      count: () => places.length,
      at: (i) => places[i],
      pick: (x, y) => {
        let best = -1, least = 30 ** 2;
        places.forEach((p, i) => {
          const far = (p.x - x) ** 2 + (p.y - y) ** 2;
          if (far < least) [best, least] = [i, far];
        });
        return best;
      },
      describe: (i) => {
        const group = groups[i + skipped];
        return [`${group.length} classes`, group.slice(0, 6).map((own) => isolated(className(own), 24)).join(", ") + (group.length > 6 ? " …" : ""), `join at ${fixed(data.merges[i + skipped][2], 2)}`];
      },
      mark: (i) => {
        marked.setAttribute("cx", i < 0 ? -20 : places[i].x);
        marked.setAttribute("cy", i < 0 ? -20 : places[i].y);
      },
    });
    return [root, tip];
  });
  const figure = figureOf({
    title: "Dendrogram",
    note: "Average linkage on minus the logarithm of the similarity, summed over both directions.",
    drawn,
    rows: () => table("Groups, the most similar first", ["group", "classes", "join at"], data.merges.map(([, , high], i) => [named(groups[i].slice(0, 8).map(className).join(", ") + (groups[i].length > 8 ? " …" : ""), 200), numeric(groups[i].length, whole(groups[i].length)), numeric(high, fixed(high, 3))])),
  });
  const more = el("button", { type: "button", class: "more", "data-focus": "all-lines", hidden: k <= MOST_LINES, click: () => choose({ allLines: !state.allLines }) });
  watch(["allLines"], () => {
    more.textContent = state.allLines ? `Show ${MOST_LINES} groups` : `Show all ${whole(k)} classes`;
    drawn.redraw();
  });
  return section("groups", "Groups", el("p", { class: "lead" }, `Classes that join further to the left are more similar.${k > MOST_LINES ? " The closest are one line; + counts the others in it." : ""}`), figure, el("div", { class: "under" }, more));
}

function rowsSection() {
  const make = () => table(
    "Entropy of each class",
    ["class", "entropy", "spread over", "equivalent ε"],
    data.rows.map((row, own) => [
      el("button", { type: "button", class: "link listed", click: () => choose({ own }) }, named(className(own), 40)),
      numeric(row.entropy, fixed(row.entropy, 2)),
      numeric(row.effective_classes, `${fixed(row.effective_classes, 1)} classes`),
      numeric(row.uniform_epsilon_entropy, fixed(row.uniform_epsilon_entropy, 3)),
    ]),
  );
  const save = el("button", { type: "button", class: "take", "aria-label": "CSV: save all classes as a table", click: () => download(fileName("classes", "csv"), csvOf(make()), "text/csv") }, "CSV");
  return section("classes", "Classes", el("p", { class: "lead" }, `At this α every label puts as much mass on other classes as uniform smoothing with ε = ${fixed(data.uniform_epsilon, 3)}.`), el("div", { class: "under" }, asTable("All classes as a table", make), save));
}
