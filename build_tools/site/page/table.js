"use strict";
// A table that is searched, filtered and sorted, with a page of rows at a time: thousands cost no more than a hundred.
const ROWS = 100;

// A search field and groups of choices. `groups`: [{key, label, values}], of which one or several may be chosen in each (`one`).
site.filters = ({ groups, placeholder, changed, label }) => {
  const query = site.address().query;
  // What the address asks for and no button shows would filter unseen.
  const asked = ({ key, values, one }) => {
    const found = query.get(key) || "";
    return (one ? [found] : found.split(",")).filter((each) => values.length > 1 && values.includes(each));
  };
  const chosen = Object.fromEntries(groups.map((group) => [group.key, new Set(asked(group))]));
  const search = site.el("input", { type: "search", id: "search", placeholder, "aria-label": label, autocomplete: "off", spellcheck: "false", value: query.get("q") || "" });
  const tell = () => {
    site.remember({ q: search.value.trim(), ...Object.fromEntries(groups.map(({ key }) => [key, [...chosen[key]].join(",")])) });
    changed(settings());
  };
  const settings = () => ({ words: search.value.toLowerCase().split(/\s+/).filter(Boolean), ...chosen });
  search.addEventListener("input", tell);
  const bar = site.el("div.bar", { role: "search" }, search, groups.filter(({ values }) => values.length > 1).map((group) =>
    group.one ? select(group, chosen[group.key], tell) : chips(group, chosen[group.key], tell)));
  return { bar, settings };
};

function chips({ label, values, key }, chosen, tell) {
  return site.el("div.chips", { role: "group", "aria-label": label }, site.el("span.quiet", { "aria-hidden": "true" }, label), values.map((value) => {
    const button = site.el("button.chip", { type: "button", "aria-pressed": chosen.has(value), "data-filter": `${key}=${value}`, onclick: () => {
      if (!chosen.delete(value)) chosen.add(value);
      button.setAttribute("aria-pressed", chosen.has(value));
      tell();
    } }, value);
    return button;
  }));
}

function select({ label, values, key }, chosen, tell) {
  const field = site.el("select", { "data-filter": key, onchange: () => {
    chosen.clear();
    if (field.value) chosen.add(field.value);
    tell();
  } }, site.el("option", { value: "" }, "all"), values.map((value) => site.el("option", { value, selected: chosen.has(value) }, value)));
  return site.el("label.choice", {}, site.el("span.quiet", {}, label), " ", field);
}

site.matches = (text, words) => words.every((word) => text.includes(word));

// `columns`: [{name, cell(row), value(row) to sort by, kind}]. `show(rows)` lays out other rows; roles stand here since a phone
// shows rows as blocks, which takes a table's own away.
site.table = ({ columns, caption, empty = "Nothing matches." }) => {
  let rows = [], shown = 0, order = null;
  const body = site.el("tbody", { role: "rowgroup" });
  const more = site.el("button.more", { type: "button", onclick: () => { const at = shown; lay(); body.rows[at]?.querySelector("a, button, summary")?.focus(); } });
  const said = site.el("p.said", { role: "status" });
  const heads = columns.map((column, place) => site.el(`th${column.kind ? `.${column.kind}` : ""}`, { scope: "col", role: "columnheader" },
    column.value ? site.el("button.sort", { type: "button", onclick: () => sort(place) }, column.name) : column.name));
  const table = site.el("table.rows", { role: "table", onkeydown: (event) => walk(event, body) }, site.el("caption.hidden", {}, caption),
    site.el("thead", { role: "rowgroup" }, site.el("tr", { role: "row" }, heads)), body);

  function lay() {
    const next = rows.slice(shown, shown + ROWS);
    body.append(...next.map((row) => site.el("tr", { role: "row" }, columns.map((column) =>
      site.el(`td${column.kind ? `.${column.kind}` : ""}`, { role: "cell", "data-name": column.name }, column.cell(row))))));
    shown += next.length;
    more.hidden = shown >= rows.length;
    more.textContent = `Show ${Math.min(ROWS, rows.length - shown)} more of ${site.number(rows.length)}`;
  }
  function show(found, words) {
    rows = order ? sorted(found) : [...found];
    shown = 0;
    body.replaceChildren();
    lay();
    table.hidden = !rows.length;
    said.textContent = rows.length ? words || site.count(rows.length, "row") : empty;
  }
  const sorted = (found) => [...found].sort((one, other) => {
    const [a, b] = [order.column.value(one), order.column.value(other)];
    return (a < b ? -1 : a > b ? 1 : 0) * order.way;
  });
  function sort(place) {
    const way = order?.column === columns[place] ? -order.way : 1;
    order = { column: columns[place], way };
    heads.forEach((head, each) => each === place ? head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
    show(rows, said.textContent);
  }
  return { node: site.el("div.table", {}, said, table, more), show };
};

// Up and down, first and last: from a row's link to another's.
function walk(event, body) {
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, select")) return;
  const rows = [...body.rows].map((row) => row.querySelector("a, button, summary")).filter(Boolean);
  const at = rows.findIndex((each) => each.closest("tr") === event.target.closest("tr"));
  if (at < 0) return;
  event.preventDefault();
  const to = at + steps[event.key];
  if (to < 0 && event.key === "ArrowUp") document.getElementById("search")?.focus();
  else rows[Math.max(0, Math.min(rows.length - 1, to))].focus();
}
