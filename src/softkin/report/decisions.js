// What each decision rule would do: a slider for the level, the rules side by side, single samples, the tree.

const MEMBERS = 6; // classes of a set to name; the count says how many more there are
const FEW_DECIDED = 12; // samples to show at first

function decisionsSection() {
  const content = data.decisions;
  const names = (node) => (content.tree && node < content.tree.names.length ? content.tree.names[node] : className(node));
  Object.assign(state, { decided: Math.max(0, content.errors.indexOf(0.1)) });
  addAddress({
    key: "error",
    get: () => (content.errors[state.decided] === 0.1 ? null : String(content.errors[state.decided])),
    set: (text) => {
      const place = content.errors.indexOf(Number(text));
      if (place >= 0) choose({ decided: place });
    },
  });
  const range = slider("Errors allowed", {
    min: 0, max: content.errors.length - 1, step: 1, value: state.decided, key: "decided", change: (decided) => choose({ decided }),
    text: (place) => percent(content.errors[place], 0),
  });
  const rules = el("div", { "data-key": "rules" });
  const samples = el("div", { "data-key": "single-samples" });
  const tree = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "How often each node answered" });
  const cell = (level, name, digits) => {
    if (!level.measures[name]) return "";
    const [value, low, high] = level.measures[name];
    const text = digits === undefined ? (v) => percent(v) : (v) => fixed(v, digits);
    return el("span", { "data-measure": name, "data-value": value }, exists(value) ? [text(value), el("span", { class: "note" }, ` ${text(low)} – ${text(high)}`)] : "–");
  };
  const drawRules = () => {
    const rows = content.rules.map(({ title, about, levels }) => {
      const level = levels[state.decided];
      const rule = el("span", {}, title, el("span", { class: "note" }, level.failed || `promised: ${about}`));
      if (level.failed) return [rule, "", "", "", ""];
      return [rule, cell(level, level.measures.coverage ? "coverage" : "answered"), cell(level, "size", 2), cell(level, "error"), cell(level, "information", 2)];
    });
    rules.replaceChildren(el("div", { class: "card flush" }, table(`With at most ${percent(content.errors[state.decided], 0)} errors`, ["rule", "covered or answered", "classes in a set", "wrong", "information, bits"], rows)));
  };
  const said = (answer, label) => {
    if (!Array.isArray(answer)) {
      if (answer < 0) return el("span", { class: "note" }, "no answer");
      return [named(names(answer), 40), " ", verdictOn(isAbove(answer, label), "right", "wrong")];
    }
    if (!answer.length) return [el("span", { class: "note inline", title: "An adaptive set is drawn at random: where one class is sure, it is sometimes empty, as part of the errors allowed." }, "empty by chance"), " ", verdictOn(false, "", "without the truth")];
    const members = answer.filter((k) => k >= 0), size = members.length + answer.filter((k) => k < 0).reduce((sum, k) => sum - k, 0);
    const own = members.indexOf(label);
    const name = (k) => (k === label ? el("strong", {}, named(className(k), 24)) : named(className(k), 24));
    return [
      ...members.slice(0, MEMBERS).map((k, i) => [i ? ", " : "", name(k)]),
      size > MEMBERS ? el("span", { class: "note inline" }, ` and ${whole(size - MEMBERS)} more${own >= MEMBERS ? ", the truth among them" : ""}`) : null,
      " ",
      verdictOn(own >= 0, "holds the truth", "without the truth"),
    ];
  };
  const verdictOn = (kept, yes, no) => el("span", { class: kept ? "good" : "bad", role: "img", "aria-label": kept ? yes : no, title: kept ? yes : no }, kept ? "✓" : "✗");
  // Whether an answer is the class, or a node of the tree above it.
  const isAbove = (node, label) => {
    if (!content.tree) return node === label;
    for (let v = label; v >= 0; v = content.tree.parents[v]) if (v === node) return true;
    return false;
  };
  const drawSamples = () => {
    const kept = content.rules.filter(({ levels }) => !levels[state.decided].failed);
    const rows = content.samples.map((row, place) => [
      el("span", {}, picture(data.samples[row] || {}, 40), named(className(content.labels[place]), 30), el("span", { class: "note" }, `sample ${data.rows && data.rows.ids ? cut(String(data.rows.ids[row]), 24) : row}`), data.samples[row] && data.samples[row].text ? el("span", { class: "note", dir: "auto" }, cut(data.samples[row].text, 90)) : null),
      ...kept.map(({ levels }) => el("span", { "data-row": row }, said(levels[state.decided].samples[place], content.labels[place]))),
    ]);
    const chosen = state.allDecided ? rows : rows.filter((_, place) => place % 2 === 0).slice(0, FEW_DECIDED);
    samples.replaceChildren(el("div", { class: "card flush" }, table("Single samples, from doubtful to sure; sets in order of probability, ✓ where the answer is right or the set holds the truth", ["truth", ...kept.map(({ title }) => title)], chosen, { class: "words" })));
    more.hidden = rows.length <= FEW_DECIDED;
    more.textContent = state.allDecided ? `Show ${FEW_DECIDED}` : `Show all ${rows.length}`;
  };
  const climb = content.rules.find(({ levels }) => levels.some((level) => level.nodes));
  const drawTree = () => {
    const level = climb.levels[state.decided];
    if (!level.nodes || !level.nodes.length) return tree.replaceChildren(el("p", { class: "note" }, "At this level nothing is answered."));
    const used = new Map(level.nodes.map(([node, rows, right]) => [node, { rows, right }]));
    const parents = content.tree.parents, below = new Map();
    const kept = new Set();
    for (const [node] of level.nodes) for (let v = node; v >= 0 && !kept.has(v); v = parents[v]) kept.add(v);
    for (const v of kept) if (parents[v] >= 0) below.set(parents[v], [...(below.get(parents[v]) || []), v]);
    const total = (v) => (used.has(v) ? used.get(v).rows : 0) + (below.get(v) || []).reduce((sum, child) => sum + total(child), 0);
    const asked = content.errors[state.decided];
    const list = (v, own) => () => {
      const answers = shortNumbers(level.answers);
      showSamples(
        `Answered ${isolated(names(v), 40)} with at most ${percent(asked, 0)} errors`,
        content.measured.filter((_, place) => answers[place] === v + 1),
        `As ${isolated(names(v), 40)}, ${whole(own.right)} are right; below, right and wrong refer to the winning class.`,
      );
    };
    const count = (v, own) => {
      const text = `answered ${whole(own.rows)}, ${percent(own.right / own.rows)} right`;
      if (!content.measured || !haveRows()) return ` ${text}`;
      return [" ", el("button", { type: "button", class: "link listed", "data-samples": v, "aria-label": `${text}: the samples of ${cut(names(v), 60)}`, click: list(v, own) }, text)];
    };
    // Children are made when their parent opens: a tree of a hundred classes has thousands of elements.
    const line = (v, depth) => {
      const own = used.get(v);
      const text = el("span", { "data-node": v, "data-rows": own ? own.rows : 0 }, named(names(v), 60), own ? count(v, own) : "");
      const children = (below.get(v) || []).sort((a, b) => total(b) - total(a));
      if (!children.length) return el("li", {}, text);
      const id = fresh("branch"), inside = el("ul", { id });
      const opener = el("button", { type: "button", class: "disclose", "aria-controls": id, "aria-label": `Below ${cut(names(v), 60)}` });
      const open = (now) => {
        opener.setAttribute("aria-expanded", String(now));
        inside.hidden = !now;
        if (now && !inside.firstChild) inside.append(...children.map((child) => line(child, depth + 1)));
      };
      opener.addEventListener("click", () => open(inside.hidden));
      open(depth < 2);
      return el("li", {}, opener, text, inside);
    };
    tree.replaceChildren(el("ul", { class: "tree" }, line(parents.length - 1, 0)));
  };
  const more = el("button", { type: "button", class: "more", "data-focus": "more-decided", click: () => choose({ allDecided: !state.allDecided }) });
  watch(["decided"], () => {
    range.set(state.decided);
    drawRules();
    if (climb) drawTree();
  });
  watch(["decided", "allDecided"], drawSamples);
  return section(
    "decisions",
    "Decisions",
    el("p", { class: "lead" }, "What to do with these probabilities: answer, answer more coarsely, offer a set of classes, or abstain. The slider sets the error rate: how often a set may miss the true class, and how often an answer may be wrong."),
    el("p", { class: "note" }, `Each rule was fitted on ${whole(content.fitted_on)} random samples and measured on ${whole(content.measured_on)} others. The guarantee for sets holds on average over such splits; the guarantee for answers holds with ${percent(content.confidence, 0)} confidence. Each number is followed by its interval. Better calibration makes sets smaller and answers more frequent; the guarantees hold either way.`),
    el("div", { class: "controls" }, range),
    rules,
    el("p", { class: "note" }, "Covered: the set holds the true class. Answered: the rule did not abstain. Information: how many bits a right answer tells about the class. A coarser answer tells less; a wrong or missing answer tells nothing."),
    samples,
    more,
    climb ? el("div", { class: "card" }, el("h3", {}, "Where on the tree it answered"), tree) : el("p", { class: "note" }, "With class distances the page also shows sets of similar classes, and answers that climb the tree of classes."),
  );
}

addSection("model", { id: "decisions", link: "Decisions", after: "abstain", when: () => data.decisions, make: decisionsSection });
