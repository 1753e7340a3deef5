"use strict";
// AITER's modules: what its JIT would compile, and which of it is served here.
{
  const KINDS = { served: "proved", "partly served": "built", replaced: "proved", "not served": "missing" };
  const status = (words) => site.state(KINDS[words], words);
  const instead = (row) => site.commas(row.instead.map((name) => site.el("code", {}, name)));

  site.views.push({ name: "modules", title: "Modules", needs: "modules", show: async (name) => {
    const told = await site.need("modules");
    return name ? one(told, name) : all(told);
  } });

  function all(told) {
    const places = (row) => [...new Set(row.places.map(([, backend, target]) => `${backend}/${target}`))].sort().join(", ");
    const served = (row) => row.functions.filter(([, by]) => by.length).length;
    const table = site.table({ caption: "AITER's modules", columns: [
      { name: "module", kind: "first", value: (row) => row.name, cell: (row) => [site.link("modules", row.name, row.name, "a.name"), row.reason ? site.el("span.quiet.what", {}, site.prose(row.reason)) : null] },
      { name: "class", value: (row) => row.class, cell: (row) => row.class },
      { name: "functions served", kind: "number", value: served, cell: (row) => row.instead.length ? (row.instead.length > 1 ? `by ${row.instead.length} functions` : ["by ", ...instead(row)]) : `${served(row)} of ${row.functions.length}` },
      { name: "by", kind: "aside", cell: places },
      { name: "status", kind: "last", value: (row) => row.status, cell: (row) => status(row.status) },
    ] });
    const changed = ({ words, kind, how }) => {
      const found = told.modules.filter((row) => (!kind.size || kind.has(row.class)) && (!how.size || how.has(row.status))
        && site.matches([row.name, row.reason, ...row.functions.map(([each]) => each)].join(" ").toLowerCase(), words));
      table.show(found, `${site.count(found.length, "module")} of ${told.modules.length}`);
    };
    const values = (of) => [...new Set(told.modules.map(of))].sort();
    const filters = site.filters({ label: "Search modules and functions", placeholder: "Module or function", changed, groups: [
      { key: "how", label: "status", values: Object.keys(KINDS) }, { key: "kind", label: "class", values: values((row) => row.class) } ] });
    changed(filters.settings());
    return [site.heading("Modules"), site.el("p", {}, `AITER ${told.tree.version}${told.tree.pinned ? "" : " (a checkout)"} compiles these modules on the server. `
      + `Operators of ours serve ${told.functions.served} of their ${told.functions.all} functions. A module is replaced when a class, or functions, of ours stand for all of it.`), filters.bar, table.node];
  }

  function one(told, name) {
    const row = told.modules.find((each) => each.name === name);
    const trail = site.el("p.trail", {}, site.el("a", { href: "#/modules" }, "Modules"));
    if (!row) return [trail, site.heading(name), site.absent(`AITER ${told.tree.version} has no such module in its list.`)];
    const table = site.table({ caption: "Functions", empty: "The module has types and no function.", columns: [
      { name: "function", kind: "first", cell: ([each]) => site.el("code", {}, each) },
      { name: "served by", cell: ([, by, reason]) => by.length ? site.commas(by.map((each) => site.link("operator", each))) : row.instead.length ? instead(row) : site.el("span.quiet", {}, reason || "nothing") },
    ] });
    table.show(row.functions, site.count(row.functions.length, "function"));
    return [trail, site.heading(site.el("code", {}, row.name), " ", status(row.status)),
      site.facts([["class", row.class], ["replaced by", ...instead(row)], [row.instead.length ? "how" : "reason", ...site.prose(row.reason)]]), table.node];
  }
}
