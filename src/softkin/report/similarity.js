// Class similarity: distances → similarity → smooth label, by the formula of softkin.similarity and softkin.smoothing.

// A row is decoded on request: four letters of base64 are three bytes, and a row has 4·K bytes.
function distancesOf(content) {
  const k = content.low.length;
  return (row) => {
    const start = 4 * k * row, first = Math.floor(start / 3);
    const text = atob(content.codes.slice(4 * first, 4 * Math.ceil((start + 4 * k) / 3)));
    const bytes = Uint8Array.from({ length: 4 * k }, (_, i) => text.charCodeAt(start - 3 * first + i));
    const view = new DataView(bytes.buffer);
    const line = new Float64Array(k);
    for (let j = 0; j < k; j++) line[j] = content.low[row] + content.step[row] * view.getUint32(4 * j, true);
    line[row] = 0;
    return line;
  };
}

// Row k: the other classes' distances in standard deviations, in units of the largest first, as squares could overflow.
function standardised(line, own) {
  const others = line.length - 1;
  let largest = 0;
  for (let j = 0; j < line.length; j++) if (j !== own) largest = Math.max(largest, line[j]);
  const z = line.map((d) => (largest > 0 ? d / largest : 0));
  z[own] = 0;
  const mean = z.reduce((sum, d) => sum + d, 0) / others;
  let squares = 0;
  for (let j = 0; j < z.length; j++) {
    z[j] = j === own ? 0 : z[j] - mean;
    squares += z[j] * z[j];
  }
  const sigma = Math.sqrt(squares / others);
  return z.map((d) => (sigma > 1e-9 ? d / sigma : 0));
}

// softmax of −β z over the others, 0 for the class itself.
function similarityRow(z, own, beta) {
  let top = -Infinity;
  for (let j = 0; j < z.length; j++) if (j !== own && -beta * z[j] > top) top = -beta * z[j];
  const s = new Float64Array(z.length);
  let total = 0;
  for (let j = 0; j < z.length; j++) if (j !== own) total += s[j] = Math.exp(-beta * z[j] - top);
  for (let j = 0; j < z.length; j++) s[j] /= total;
  return s;
}

// (1 − α) on the class itself, α times the similarity on the others.
const labelRow = (s, own, alpha) => s.map((v, j) => (j === own ? 1 - alpha : alpha * v));

function similaritySection(content, own, id = "similarity") {
  const k = content.low.length;
  const row = distancesOf(content);
  const kept = new Map();
  const z = (own) => {
    if (!kept.has(own)) kept.set(own, content.as_it_is ? row(own) : standardised(row(own), own));
    return kept.get(own);
  };
  const s = (own) => similarityRow(z(own), own, state.beta);
  Object.assign(state, { alpha: content.alpha || 0.1, beta: content.beta, own, window: k, order: "clustered", pair: null });
  const orders = {
    clustered: content.order,
    named: Array.from({ length: k }, (_, j) => j).sort((a, b) => className(a).localeCompare(className(b))),
    given: Array.from({ length: k }, (_, j) => j),
  };
  const map = heatMap(orders, s);
  const zoom = k > 12
    ? slider("Show", {
        min: 12, max: k, step: 1, value: k, key: "window", change: (window) => choose({ window }),
        text: (n) => (n === k ? `all ${k}` : `${n} around it`),
      })
    : null;
  const arrange = choice("Order", "order", [{ value: "clustered", text: "similar classes together" }, { value: "named", text: "by name" }, { value: "given", text: "as in the file" }], "clustered", (order) => choose({ order }));
  addAddress({ key: "similar", get: () => (state.own === own ? null : className(state.own)), set: (text) => data.class_names.includes(text) && choose({ own: data.class_names.indexOf(text) }) });
  return section(
    id,
    "Class similarity",
    el("p", { class: "lead" }, "How similar the classes are, and the smooth label that each class would get. The true class keeps 1\u2212α; the others share α by similarity, and a larger β favours the most similar ones more."),
    content.source ? el("p", { class: "note" }, "Distances: ", named(content.source, 160)) : null,
    content.alpha ? null : el("p", { class: "note" }, "The chosen α is 0, a one-hot label. The bars start at α = 0.1, to show where it would put it."),
    el(
      "div",
      { class: "pair wide-right" },
      figureOf({
        title: "Similarity of each class (row) to the others",
        note: haveRows() ? "Choose a cell to see the label of its row’s class, and the samples of that class that were answered with the column’s class." : "Choose a row to see its label.",
        before: el("div", { class: "controls" }, arrange, zoom),
        drawn: map.node,
        after: map.legend,
        rows: () => {
          const shown = map.shown();
          return table("Similarity, row by row", ["class", ...shown.map((j) => cut(className(j), 30))], shown.map((i) => {
            const line = s(i);
            return [named(className(i), 30), ...shown.map((j) => (i === j ? "" : numeric(line[j], share(line[j]))))];
          }));
        },
      }),
      el(
        "div",
        { class: "stack" },
        classSearch(),
        el("div", { class: "card label" }, ...labelBars(s, k)),
      ),
    ),
  );
}

// Search by part of a name; matches appear below as buttons.
function classSearch() {
  const id = fresh("search");
  const list = el("ul", { class: "matches", "aria-label": "Matching classes" });
  const matches = el("span", { class: "note", role: "status" });
  const input = el("input", { id, type: "search", autocomplete: "off", spellcheck: "false", placeholder: "a class", "data-key": "search" });
  const show = () => {
    const wanted = input.value.trim().toLowerCase();
    if (!wanted) {
      list.replaceChildren();
      matches.textContent = "";
      return;
    }
    const hits = [];
    for (let k = 0; k < data.class_names.length && hits.length < 200; k++) if (className(k).toLowerCase().includes(wanted)) hits.push(k);
    matches.textContent = hits.length === 1 ? "1 class" : `${hits.length === 200 ? "200 or more" : hits.length} classes`;
    list.replaceChildren(
      ...hits.slice(0, 12).map((k) => el("li", {}, el("button", { type: "button", class: "chip", click: () => choose({ own: k, window: Math.min(state.window, 40) }) }, named(className(k), 40)))),
    );
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const first = list.querySelector("button");
    if (first) first.click();
  });
  return el("div", { class: "search" }, el("label", { for: id }, "Find a class"), input, matches, list);
}

function labelBars(s, k) {
  const title = el("h3", { "aria-live": "polite", tabindex: "-1", "data-focus": "label-title" });
  const bars = el("div", { class: "bars" });
  const rest = output("rest", { class: "note" });
  const most = Math.min(10, k - 1);
  const numbers = asTable("The whole label as a table", () => {
    const similar = s(state.own), label = labelRow(similar, state.own, state.alpha);
    const order = Array.from(label.keys()).sort((a, b) => label[b] - label[a] || similar[b] - similar[a]);
    const rows = order.map((j) => [named(className(j)), el("span", { "data-class": j, "data-similarity": similar[j], "data-label": label[j] }, fixed(label[j], 6)), fixed(similar[j], 6)]);
    return table("Smooth label", ["class", "label", "similarity"], rows);
  });
  const draw = () => {
    const own = state.own;
    const similar = s(own), label = labelRow(similar, own, state.alpha);
    const order = Array.from(label.keys()).filter((j) => j !== own).sort((a, b) => similar[b] - similar[a]).slice(0, most); // also for α = 0, where all labels are 0
    const scale = Math.max(...order.map((j) => label[j]), 1e-12);
    title.replaceChildren("The label of ", named(className(own), 48));
    // The class itself is a number, and the bars have one scale: that of what the others share.
    const line = (j) => {
      const fill = el("span", { class: "fill other" });
      fill.style.width = `${100 * (label[j] / scale)}%`;
      const who = el("button", { type: "button", class: "link", "data-focus": `label-${j}`, "data-focus-else": "label-title", click: () => choose({ own: j }) }, named(className(j), 26));
      return el("div", { class: "barline" }, el("span", { class: "who", dir: "auto" }, who), el("span", { class: "track" }, fill), el("span", { class: "num", "data-class": j, "data-label": label[j] }, fixed(label[j], 4)));
    };
    const keeps = el("p", { class: "keeps" }, named(className(own), 26), " keeps ", el("strong", { "data-class": own, "data-label": label[own] }, fixed(label[own], 2)), "; the others share ", el("strong", {}, fixed(state.alpha, 2)), ":");
    const axis = el("div", { class: "barline axis-line", "aria-hidden": "true" }, el("span"), el("span", { class: "ends" }, el("span", {}, "0"), el("span", {}, fixed(scale, 4))), el("span"));
    bars.replaceChildren(keeps, ...order.map(line), axis);
    const shown = order.reduce((sum, j) => sum + label[j], 0);
    const left = k - 1 - order.length;
    const others = left > 0 ? `The ${whole(left)} other classes share ${fixed(Math.max(0, state.alpha - shown), 4)}.` : "";
    rest.show(state.alpha - shown, state.alpha ? others : "α is 0: the label is one-hot. The classes are listed by similarity.");
    numbers.refresh();
  };
  watch(["own", "alpha", "beta"], draw);
  return [
    title,
    slider("α", { min: 0, max: 0.99, step: 0.01, value: state.alpha, key: "alpha", change: (alpha) => choose({ alpha }), text: (v) => v.toFixed(2) }),
    slider("β", { min: 0, max: 12, step: 0.1, value: state.beta, key: "beta", change: (beta) => choose({ beta }), text: (v) => v.toFixed(1) }),
    bars,
    rest,
    numbers,
  ];
}

// Colour shows the logarithm, because similarities span many powers of ten. Names stand beside the rows and above the
// columns: all of them if there is room, else every n-th. The slider and the search reduce the number of classes.
function heatMap(orders, s) {
  const k = orders.clustered.length;
  const canvas = el("canvas", { class: "heat", role: "img", "data-key": "heat", "aria-label": "Similarity of the classes" });
  const context = canvas.getContext("2d");
  const cursor = el("span", { class: "cursor", "aria-hidden": "true" });
  const square = el("div", { class: "heat-square" });
  const lines = svg("svg", { class: "heat-names", "aria-hidden": "true" });
  const columns = svg("svg", { class: "heat-names", "aria-hidden": "true" });
  const holder = el("div", { class: "chart heat-holder" }, el("div", { class: "heat-corner" }), el("div", { class: "heat-columns" }, columns), el("div", { class: "heat-lines" }, lines), square);
  const legend = el("div", { class: "ramp" });
  let shown = orders.clustered;
  let cell = null; // the cell last pointed at: [line, column] within the window
  const view = () => {
    const order = orders[state.order];
    const size = Math.min(k, state.window), middle = order.indexOf(state.own);
    const start = Math.max(0, Math.min(k - size, middle - (size >> 1)));
    return order.slice(start, start + size);
  };
  const names = () => {
    const side = square.clientWidth, n = shown.length, room = 13;
    if (!side) return;
    const step = Math.max(1, Math.ceil((room * n) / side));
    const wide = lines.parentElement.clientWidth, high = columns.parentElement.clientHeight;
    const most = Math.max(4, Math.floor(wide / 6.2));
    const picked = shown.map((j, i) => [j, i]).filter(([j, i]) => i % step === 0 || j === state.own);
    const at = (i) => ((i + 0.5) * side) / n;
    const own = picked.find(([j]) => j === state.own);
    const clear = picked.filter(([j, i]) => j === state.own || !own || Math.abs(at(i) - at(own[1])) >= room - 1);
    // In percent of the square, so that the names stay beside their rows where the printer makes it smaller or larger.
    const text = (j, attributes, room) => svg("text", { class: j === state.own ? "own" : null, ...attributes }, isolated(className(j), room));
    const share = (i) => `${(100 * (i + 0.5)) / n}%`;
    lines.replaceChildren(...clear.map(([j, i]) => text(j, { x: "100%", dx: -5, y: share(i), dy: 4, "text-anchor": "end" }, most)));
    columns.replaceChildren(...clear.map(([j, i]) => svg("svg", { x: share(i), y: "100%", class: "heat-name" }, text(j, { transform: "translate(4 -4) rotate(-90)" }, Math.max(4, Math.floor(high / 6.2))))));
  };
  let drawn = "";
  const draw = () => {
    shown = view();
    const n = shown.length;
    const key = [state.order, shown[0], n, state.beta, dark()].join();
    if (key !== drawn) {
      drawn = key;
      canvas.width = canvas.height = n;
      // Plain loops over typed arrays: a thousand classes are a million cells, and β moves them all.
      const logs = new Float64Array(n * n);
      let top = -Infinity, least = Infinity;
      for (let i = 0; i < n; i++) {
        const line = s(shown[i]);
        for (let j = 0; j < n; j++) {
          if (i === j) continue;
          const v = Math.log(line[shown[j]]);
          logs[i * n + j] = v;
          if (v > top) top = v;
          if (v < least) least = v;
        }
      }
      least = Math.max(least, top + Math.log(1e-4)); // values below a ten-thousandth of the largest are all pale
      const scale = 255 / (top - least || 1);
      const image = context.createImageData(n, n);
      const pixels = new DataView(image.data.buffer);
      const packed = Uint32Array.from({ length: 256 }, (_, i) => ramp(i / 255).reduce((sum, c) => sum * 256 + c, 0) * 256 + 255);
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < n; j++) {
          const at = i * n + j;
          pixels.setUint32(4 * at, packed[i === j || logs[at] <= least ? 0 : Math.round((logs[at] - least) * scale)]);
        }
      }
      legend.replaceChildren(share(Math.exp(least)), stripe(), share(Math.exp(top)), el("span", {}, "on a logarithmic scale"));
      context.putImageData(image, 0, 0);
    }
    const line = shown.indexOf(state.own);
    cursor.style.top = `${(100 * line) / n}%`;
    cursor.style.height = `${100 / n}%`;
    canvas.setAttribute("aria-label", `Similarity of ${n} classes. Chosen: ${cut(className(state.own), 60)}. Arrow keys move, Enter chooses the row${haveRows() ? " and lists the samples of its class that were answered with the column’s class" : ""}.`);
    names();
  };
  const at = (x, y) => {
    const box = canvas.getBoundingClientRect();
    const n = shown.length;
    const j = Math.floor((x / box.width) * n), i = Math.floor((y / box.height) * n);
    return i >= 0 && j >= 0 && i < n && j < n ? i * n + j : -1;
  };
  const pair = (c) => [shown[Math.floor(c / shown.length)], shown[c % shown.length]];
  const tip = inspect(canvas, {
    count: () => shown.length ** 2,
    stride: () => shown.length,
    at: (c) => {
      const side = canvas.clientWidth / shown.length;
      return { x: ((c % shown.length) + 0.5) * side, y: Math.floor(c / shown.length) * side };
    },
    pick: at,
    describe: (c) => {
      cell = c;
      const [own, other] = pair(c);
      const answered = haveRows() ? [`answered this way ${whole(pairCount(own, other))}×`] : [];
      return own === other
        ? [isolated(className(own), 40), "the class itself", ...answered]
        : [isolated(className(own), 40), `is like ${isolated(className(other), 40)}`, `by ${share(s(own)[other])}`, ...answered];
    },
    open: { possible: (c) => haveRows() && pairCount(...pair(c)) > 0, run: (c) => showPair(...pair(c)) },
  });
  const chosen = () => cell !== null && choose({ own: pair(cell)[0] });
  canvas.addEventListener("click", chosen);
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      chosen();
      event.preventDefault();
    }
  });
  square.append(canvas, cursor, tip);
  // A thousand classes are a million exponentials: compute them once the chart is in view, and at most once a frame.
  let seen = false, waiting = false;
  const later = () => {
    if (!seen || waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
  new IntersectionObserver((entries, observer) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      seen = true;
      observer.disconnect();
      later();
    }
  }, { rootMargin: "400px" }).observe(holder);
  new ResizeObserver(() => seen && names()).observe(square);
  watch(["own", "beta", "window", "order", "theme"], later);
  watch(["printing"], () => state.printing !== undefined && draw());
  // One drawing with the picture and the names, for saving.
  holder.picture = () => {
    draw();
    const side = square.clientWidth, left = lines.parentElement.clientWidth, top = columns.parentElement.clientHeight;
    const part = (node, x, y) => {
      const copy = node.cloneNode(true);
      Object.entries({ x, y, width: node.parentElement.clientWidth, height: node.parentElement.clientHeight, overflow: "visible" }).forEach(([name, value]) => copy.setAttribute(name, String(value)));
      copy.querySelectorAll("svg").forEach((inner) => inner.setAttribute("overflow", "visible"));
      return copy;
    };
    const root = svg("svg", { viewBox: `0 0 ${left + side} ${top + side}`, width: left + side, height: top + side });
    root.append(svg("image", { href: canvas.toDataURL(), x: left, y: top, width: side, height: side, "image-rendering": "pixelated", preserveAspectRatio: "none" }), part(lines, 0, top), part(columns, left, 0));
    return root;
  };
  return { node: holder, legend, shown: () => shown };
}
