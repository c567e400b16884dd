// The page of a similarity: what looks wrong, the classes, and how they group.

const KINDS = { dominated: "one neighbour dominates", alone: "unlike all others", disagreement: "sources disagree" };

function inspectorPage() {
  const first = data.oddities.length ? data.oddities[0].k : data.similarity.order[0];
  drawPage(
    "similarity",
    [
      { id: "odd", link: "What looks wrong", make: oddSection },
      { id: "similarity", link: "Similarity", make: () => similaritySection(data.similarity, first) },
      { id: "groups", link: "Groups", when: () => data.merges.length, make: groupsSection },
      { id: "classes", link: "Classes", make: rowsSection },
    ],
    ["Entropy is that of a class's similarity to the others, in nats; its exponential is the number of classes over which α is spread. The equivalent ε is the one whose uniform label is as uncertain as the class's own."],
  );
}
addPage("similarity", inspectorPage);

function oddSection() {
  const fixes = Object.entries(data.fixes);
  const mended = fixes.length ? el("p", { class: "note" }, "Corrected by hand: ", fixes.map(([name, like], i) => [i ? "; " : "", named(name, 40), " is like ", named(like.join(", "), 120)])) : null;
  if (!data.oddities.length) return section("odd", "What looks wrong", el("p", { class: "lead" }, "No row looks wrong."), mended);
  const rows = data.oddities.slice(0, 200).map((one) => [
    el("button", { type: "button", class: "link", "data-odd": one.k, click: () => choose({ own: one.k }) }, named(className(one.k), 40)),
    KINDS[one.kind],
    named(one.words, 400),
  ]);
  return section(
    "odd",
    "What looks wrong",
    el("p", { class: "lead" }, data.oddities.length === 1 ? "One row needs a look." : `${whole(data.oddities.length)} rows need a look.`),
    table("Rows that look wrong", ["class", "why", "in words"], rows),
    data.oddities.length > rows.length ? el("p", { class: "note" }, "The JSON beside this page has all of them.") : null,
    mended,
  );
}

// A dendrogram with one class a line, tall enough to need scrolling.
function groupsSection() {
  const k = data.num_classes, line = 15, wide = 360, names = 190;
  const at = new Map(data.similarity.order.map((own, place) => [own, { y: (place + 0.5) * line, x: 0 }]));
  const top = Math.max(...data.merges.map((merge) => merge[2]), 1e-12);
  const paths = data.merges.map(([first, second, height], i) => {
    const a = at.get(first), b = at.get(second), x = (wide * height) / top;
    at.set(k + i, { y: (a.y + b.y) / 2, x });
    return svg("path", { d: `M${names + a.x} ${a.y}H${names + x}V${b.y}H${names + b.x}`, fill: "none", stroke: "currentColor", "stroke-width": 1, opacity: 0.6 });
  });
  const texts = data.similarity.order.map((own, place) => svg("text", { x: names - 6, y: (place + 0.5) * line + 4, "text-anchor": "end", "font-size": 11, fill: "currentColor" }, isolated(className(own), 28)));
  const chart = svg("svg", { width: names + wide + 10, height: k * line + 4, viewBox: `0 0 ${names + wide + 10} ${k * line + 4}`, role: "img", "aria-label": `Dendrogram of ${k} classes` }, paths, texts);
  return section("groups", "Groups", el("p", { class: "lead" }, "Classes that join further to the left are more similar (average linkage on minus the logarithm of the similarity, summed over both directions)."), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Dendrogram" }, chart));
}

function rowsSection() {
  const make = () => table(
    "Classes",
    ["class", "entropy", "spread over", "equivalent ε"],
    data.rows.map((row, own) => [
      el("button", { type: "button", class: "link", click: () => choose({ own }) }, named(className(own), 40)),
      fixed(row.entropy, 2),
      `${fixed(row.effective_classes, 1)} classes`,
      fixed(row.uniform_epsilon_entropy, 3),
    ]),
  );
  return section("classes", "Classes", el("p", { class: "lead" }, `At this α every label puts as much mass on other classes as uniform smoothing with ε = ${fixed(data.uniform_epsilon, 3)}.`), asTable("All classes as a table", make));
}
