"use strict";
// All operators: by category, backend, target and state.
{
  const STATES = ["proved", "built", "declared", "missing"], ORDER = ["proved", "partly", ...STATES.slice(1)];

  // A cell that all of the choices are about; missing: a chosen target without any.
  const fits = (row, { backend, target, state }, targets) => {
    const cells = row.cells.filter(([place, by, how]) =>
      (!target.size || target.has(place)) && (!backend.size || backend.has(by)) && (!state.size || state.has(how)));
    if (cells.length) return true;
    if (!state.size) return !backend.size && !target.size;
    const places = target.size ? [...target] : targets.filter((name) => name.startsWith("gfx"));
    return state.has("missing") && places.some((place) => !row.cells.some(([name, by]) => name === place && (!backend.size || backend.has(by))));
  };

  const badges = (row, target) => {
    const mine = row.cells.filter(([place]) => place === target);
    if (!mine.length) return site.el("span.none", { title: row.reasons[target] || "no kernel for it" }, "–", site.el("span.hidden", {}, " none"));
    return site.el("span.badges", {}, mine.map(([, backend, state, entries, proved]) => site.el(`span.badge.${state}`,
      { title: `${backend} on ${target}: ${state}, ${proved} of ${entries} entries have a receipt` },
      site.state(state, backend), entries ? site.el("span.quiet", {}, " ", site.number(entries)) : null, site.el("span.hidden", {}, `, ${state}`))));
  };

  site.views.push({ name: "operators", title: "Operators", show: () => {
    const told = site.data.get("index"), rows = told.operators, targets = told.targets;
    const text = new Map(rows.map((row) => [row, [row.name, row.title, row.category, row.family, row.module, row.summary].join(" ").toLowerCase()]));
    const categories = [...new Set(rows.map((row) => row.category))].sort();
    const table = site.table({ caption: "Operators by target and backend", empty: "No operator matches. Remove a filter.", columns: [
      { name: "operator", kind: "first", value: (row) => row.name, cell: (row) => site.link("operator", row.name, row.name, "a.name") },
      { name: "what", kind: "about quiet", value: (row) => `${row.category} ${row.title}`, cell: (row) => row.title },
      ...targets.map((target) => ({ name: target, kind: "target", cell: (row) => badges(row, target) })),
      { name: "state", kind: "last", value: (row) => ORDER.indexOf(site.kind(row.state)), cell: (row) => site.state(row.state) },
    ] });
    const changed = (settings) => {
      const found = rows.filter((row) => (!settings.category.size || settings.category.has(row.category))
        && fits(row, settings, targets) && site.matches(text.get(row), settings.words));
      table.show(found, `${site.count(found.length, "operator")} of ${site.number(rows.length)}`);
    };
    const filters = site.filters({ label: "Search operators", placeholder: "Search operators", changed, groups: [
      { key: "target", label: "target", values: targets }, { key: "backend", label: "backend", values: told.backends },
      { key: "state", label: "state", values: STATES }, { key: "category", label: "category", values: categories, one: true } ] });
    changed(filters.settings());
    return [site.heading("Operators"), summary(told), site.legend("proved", "built", "declared", "missing"), filters.bar, table.node, remarks(told)];
  } });

  function summary(told) {
    const of = (target) => told.operators.filter((row) => row.cells.some(([place, , , entries]) => place === target && entries > 0)).length;
    const [built, proved] = told.built;
    const figures = [
      [site.number(told.operators.length), "operators"],
      ...told.targets.map((target) => [site.number(of(target)), `on ${target}`]),
      [site.number(built), "entries built"],
      [site.number(proved), proved < built ? `proved, ${site.number(built - proved)} not` : "proved"],
    ];
    return site.el("ul.figures", {}, figures.map(([value, words]) => site.el("li", {}, site.el("strong", {}, value), " ", words)));
  }

  function remarks(told) {
    return told.remarks.length ? site.el("details.remarks", {}, site.el("summary", {}, `About these numbers (${told.remarks.length})`),
      site.el("ul", {}, told.remarks.map((words) => site.el("li", {}, words)))) : null;
  }
}
