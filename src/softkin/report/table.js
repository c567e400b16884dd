// The table of methods, or of models: sortable, with an explanation of each column.

const place = (method) => data.methods.findIndex((m) => m.key === method);
const methodName = (method) => data.methods[place(method)].name;
// A name of at most 24 letters that differs from the others', with the whole name where the pointer rests.
const shortName = (method) => data.methods[place(method)].short || methodName(method);
const shortly = (method) => el("bdi", { class: "name", title: shortName(method) === methodName(method) ? null : cut(methodName(method), 600) }, cut(shortName(method), 40));
const shownMethods = () => data.methods.filter((m) => state.methods.has(m.key)).map((m) => m.key);

function cellText(column, cell) {
  const scale = column.percent ? 100 : 1, digits = column.percent ? (column.key.startsWith("ece") ? 2 : 1) : 3;
  const text = (v) => `${column.signed && v > 0 ? "+" : ""}${fixed(v === null ? null : scale * Number(v), digits)}`;
  const beside = [cell.when_calibrated ? fixed(scale * Number(cell.when_calibrated.value), digits) : "", exists(cell.floor) ? `floor ${fixed(scale * Number(cell.floor), digits)}` : ""].filter(Boolean);
  const spread = exists(cell.std) ? `±${THIN}${fixed(scale * Number(cell.std), digits)}` : "";
  const between = data.subject !== "methods" && exists(cell.low) ? `${text(cell.low)} to ${text(cell.high)}` : "";
  return [text(cell.value), spread, beside.join(", "), between];
}

// Whether a method of a study is better or worse than one-hot training, with the difference where the pointer rests.
function againstMark(column, cell) {
  const difference = cell.against && cell.against["one-hot"];
  if (!difference || difference.same) return null;
  const scale = column.percent ? 100 : 1, digits = column.percent ? 1 : 3, unit = column.percent ? "points" : "nats";
  const [value, low, high, least] = [difference.value, difference.low, difference.high, difference.least].map((v) => fixed(scale * Number(v), digits));
  const interval = `${value} ${unit} (${low} to ${high})`;
  if (difference.p_value > 0.05) return el("span", { class: "tie-mark", title: `no difference to one-hot found: ${interval}; would have seen ≥ ${least}` });
  const better = Number(difference.value) > 0 === column.larger_is_better;
  return el("span", { class: "tie-mark", title: `${better ? "better" : "worse"} than one-hot: ${interval}` }, better ? "▴" : "▾");
}

function tableSection() {
  const { rows } = data.table;
  const columns = data.table.columns.filter((c) => !data.ood || !/^(auroc|fpr_at_95) /.test(c.key)); // they have their own section
  state.tableSort = null;
  state.tableRising = false;
  const body = el("tbody");
  // Marks have a place of their own behind the number, as wide in all rows, so that digits stand below digits.
  const count = (column, cell) => (cell ? Number(!cell.tie && !cell.best && exists(cell.p_value)) + Number(Boolean((againstMark(column, cell) || {}).textContent)) : 0);
  const marked = Object.fromEntries(columns.map((column) => [column.key, Math.max(0, ...rows.map((row) => count(column, row.cells[column.key])))]));
  const wish = (column) => (column.larger_is_better === true ? "higher is better" : column.larger_is_better === false ? "lower is better" : column.signed ? "0 is best" : "no winner");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", "data-key": `table-${column.key}`, click: () => choose({ tableSort: column.key, tableRising: state.tableSort === column.key ? !state.tableRising : column.larger_is_better !== true }) }, cut(column.title, 40));
    return { column, th: el("th", { scope: "col" }, button, el("span", { class: "note wish" }, wish(column))) };
  });
  const sorted = () => {
    const key = state.tableSort, turn = state.tableRising ? 1 : -1;
    const mean = (r) => (r.cells[key] && exists(r.cells[key].value) ? Number(r.cells[key].value) : null);
    return key === null ? rows : [...rows].sort((a, b) => (mean(a) === null || mean(b) === null ? Number(mean(a) === null) - Number(mean(b) === null) : turn * (mean(a) - mean(b))));
  };
  watch(["tableSort", "tableRising"], () => {
    heads.forEach(({ column, th }) => (column.key === state.tableSort ? th.setAttribute("aria-sort", state.tableRising ? "ascending" : "descending") : th.removeAttribute("aria-sort")));
    body.replaceChildren(
      ...sorted().map((row) =>
        el(
          "tr",
          { "data-method": row.method },
          el("th", { scope: "row" }, swatch(place(row.method)), " ", named(methodName(row.method), 60), row.chosen ? el("span", { class: "note chosen" }, cut(row.chosen, 80)) : null),
          columns.map((column) => {
            const cell = row.cells[column.key];
            if (!cell) return el("td", {}, "–");
            const [text, std, calm, between] = cellText(column, cell);
            const mark = cell.best ? "best" : null;
            return el(
              "td",
              { "data-column": column.key, "data-value": cell.value },
              el("span", { class: mark, "data-value": cell.value }, text),
              marked[column.key] ? el("span", { class: marked[column.key] > 1 ? "marks two-marks" : "marks" }, !cell.tie && !cell.best && exists(cell.p_value) ? el("span", { class: "tie-mark", title: "worse than the best by more than sampling noise explains" }, "○") : null, againstMark(column, cell)) : null,
              std ? el("span", { class: "std" }, ` ${std}`) : null,
              between ? el("span", { class: "note" }, between) : null,
              calm ? el("span", { class: "note" }, `(${calm})`) : null,
            );
          }),
        ),
      ),
    );
  });
  addAddress({
    key: "sort",
    get: () => (state.tableSort === null ? null : `${state.tableRising ? "" : "-"}${state.tableSort}`),
    set: (text) => columns.some(({ key }) => key === text.replace(/^-/, "")) && choose({ tableSort: text.replace(/^-/, ""), tableRising: !text.startsWith("-") }),
  });
  const results = el("table", { class: "results" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, `${data.subject[0].toUpperCase()}${data.subject.slice(1, -1)}`), heads.map(({ th }) => th))), body);
  const save = el("button", { type: "button", class: "take", "aria-label": "CSV: save the table", click: () => download(fileName("table", "csv"), csvOf(results), "text/csv") }, "CSV");
  const meant = columns.filter(({ explained }) => explained);
  return section(
    "table",
    "All numbers",
    el("div", { class: "scroll card flush", tabindex: "0", role: "region", "aria-label": `Table of ${data.subject}` }, results),
    el("div", { class: "under" }, save, copyTable(results)),
    el("details", { class: "numbers", open: columns.length <= 12 }, el("summary", {}, "What the columns mean"), el("dl", { class: "meanings" }, meant.flatMap((column) => [el("dt", {}, cut(column.title, 40)), el("dd", {}, `${cut(column.explained, 400)} (${wish(column)})`)]))),
    el("ul", { class: "notes" }, data.notes.map((note) => el("li", { class: "note" }, sentence(cut(note, 600))))),
  );
}

// Which methods the charts show. One tab stop: arrow keys move, Space switches, as in a toolbar.
function methodBar() {
  const boxes = data.methods.map((m, i) => {
    const input = el("input", { type: "checkbox", value: m.key, checked: state.methods.has(m.key), "data-method": m.key, tabindex: i ? "-1" : "0" });
    input.addEventListener("change", () => {
      if (input.checked) state.methods.add(m.key);
      else state.methods.delete(m.key);
      choose({ methods: state.methods });
    });
    return { input, node: el("label", {}, input, swatch(i), shortly(m.key)) };
  });
  const inputs = boxes.map(({ input }) => input);
  const move = (to) => {
    inputs.forEach((input, i) => input.setAttribute("tabindex", i === to ? "0" : "-1"));
    inputs[to].focus();
  };
  const show = (keys) => {
    state.methods = new Set(keys);
    choose({ methods: state.methods });
  };
  watch(["methods"], () => inputs.forEach((input) => (input.checked = state.methods.has(input.value))));
  addAddress({
    key: "methods",
    get: () => (state.methods.size === data.methods.length ? null : [...state.methods].join(",")),
    set: (text) => show(text.split(",").filter((key) => place(key) >= 0)),
  });
  const node = el(
    "fieldset",
    {
      class: "methods",
      keydown: (event) => {
        const at = inputs.indexOf(event.target);
        const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: inputs.length - 1 }[event.key];
        if (at < 0 || to === undefined) return;
        event.preventDefault();
        move((to + inputs.length) % inputs.length);
      },
    },
    el("legend", {}, `${data.subject[0].toUpperCase()}${data.subject.slice(1)} on the charts`),
    boxes.map(({ node: label }) => label),
    el("button", { type: "button", class: "chip", "data-key": "all-methods", click: () => show(data.methods.map((m) => m.key)) }, "All"),
    el("button", { type: "button", class: "chip", "data-key": "no-methods", click: () => show([]) }, "None"),
  );
  return el("div", { id: "methods-frame" }, el("div", { class: "sticky" }, node));
}
