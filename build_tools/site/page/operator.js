"use strict";
// One operator: its kernels, and what each receipt proved.
{
  const [KERNEL, VARIANT, TARGET, DEVICE, CHECKS, CALLS, WORST, OBJECTS, RECIPE, REFERENCE, CASES, TOOLS] = Array(12).keys();

  site.views.push({ name: "operator", show: async (name) => {
    const row = site.data.get("index").operators.find((each) => each.name === name);
    if (!row) return [site.heading(name), site.absent("No operator has this name. "), site.el("p", {}, site.el("a", { href: "#/operators" }, "All operators"))];
    const page = await site.need(`operator/${row.file}`);
    return [
      site.el("p.trail", {}, site.el("a", { href: "#/operators" }, "Operators"), " / ", row.category),
      site.heading(site.el("code", {}, row.name), " ", site.state(row.state)),
      site.el("p", {}, site.prose(row.summary || row.title)),
      page.signature ? site.el("pre.signature", { tabindex: "0", "aria-label": "Signature" }, page.signature) : null,
      ...explained(page),
      site.facts([
        ["AITER's module", row.module && (row.module.startsWith("module_") ? site.link("modules", row.module) : row.module)],
        ["manifest", row.family ? site.source(`manifests/${row.family}/operators.toml`) : ""],
        ["sources of kernels", ...site.commas(page.sources.map((path) => path.includes(":") ? site.el("code", {}, path) : site.source(path)))],
        ["AITER's backends", row.aiter.join(", ")],
        ...Object.entries(row.reasons).map(([target, why]) => [`not on ${target}`, ...site.prose(why)]),
      ]),
      ...models(page.models),
      site.el("h2", {}, "Kernels"), kernels(page.kernels),
      site.el("h2", {}, "Receipts"), ...receipts(page),
    ];
  } });

  // Arguments as the docstring describes them.
  function explained({ arguments: given, results }) {
    if (!given.length) return [];
    return [site.el("h2", {}, "Arguments"), site.el("dl.words", {}, given.map(([name, declared, words]) => site.el("div", {},
      site.el("dt", {}, site.el("code", {}, name), site.el("span.quiet.what", {}, declared.slice(name.length).replace(/^: */, ""))), site.el("dd", {}, site.prose(words)))),
    results.map((words) => site.el("div", {}, site.el("dt", {}, "returns"), site.el("dd", {}, site.prose(words)))))];
  }

  function kernels(rows) {
    const table = site.table({ caption: "Kernels, in the order in which they are chosen", empty: "No manifest has a kernel for it.", columns: [
      { name: "kernel", kind: "first", cell: ([kernel]) => site.el("code", {}, kernel) },
      { name: "backend", cell: (row) => row[1] }, { name: "profile", kind: "aside", cell: (row) => row[2] }, { name: "target", cell: (row) => row[3] },
      { name: "entries", kind: "number", value: (row) => row[5], cell: (row) => site.number(row[5]) },
      { name: "proved", kind: "number", value: (row) => row[6], cell: (row) => site.number(row[6]) },
      { name: "state", kind: "last", cell: (row) => [site.state(row[4]), row[7].length ? site.el("details", {}, site.el("summary", {}, "without a receipt"), row[7].join(", ")) : null] },
    ] });
    table.show(rows, site.count(rows.length, "kernel"));
    return table.node;
  }

  function receipts({ receipts: rows, said }) {
    if (!rows.length) return [site.absent("No receipt: none of its kernels was executed and right.")];
    const text = (row) => [row[KERNEL], row[VARIANT], row[TARGET], said[row[DEVICE]], row[RECIPE], ...row[OBJECTS]].join(" ").toLowerCase();
    const table = site.table({ caption: "Receipts", empty: "No receipt matches.", columns: [
      { name: "recipe", kind: "first", value: (row) => row[KERNEL] + row[VARIANT], cell: (row) => detail(row, said) },
      { name: "target", value: (row) => row[TARGET], cell: (row) => row[TARGET] },
      { name: "calls", kind: "number", value: (row) => row[CALLS], cell: (row) => site.number(row[CALLS]) },
      { name: "error used", kind: "number", value: (row) => row[WORST], cell: (row) => `${(100 * row[WORST]).toFixed(row[WORST] && row[WORST] < 0.1 ? 1 : 0)} %` },
      { name: "code object", kind: "hash", cell: (row) => site.el("code", {}, row[OBJECTS].map((each) => each.slice(0, 12)).join(" ")) },
    ] });
    const changed = ({ words, on }) => {
      const found = rows.filter((row) => (!on.size || on.has(row[TARGET])) && site.matches(text(row), words));
      table.show(found, `${site.count(found.length, "receipt")} of ${site.number(rows.length)}`);
    };
    const filters = site.filters({ label: "Search receipts", placeholder: "Variant, device or hash", changed,
      groups: [{ key: "on", label: "target", values: [...new Set(rows.map((row) => row[TARGET]))].sort() }] });
    changed(filters.settings());
    return [site.el("p.quiet", {}, "A receipt says that each listed call that chose the recipe was right. Error used is the largest share of the allowed error in any call."), filters.bar, table.node];
  }

  // What was proved, in full: opened by Enter or a click.
  function detail(row, said) {
    return site.el("details.receipt", {}, site.el("summary", {}, site.el("code", {}, row[KERNEL]), " ", site.el("span.quiet", {}, row[VARIANT])), site.facts([
      ["executed on", said[row[DEVICE]]], ["checked", said[row[CHECKS]]],
      ["calls", `${row[CALLS]}, with fresh inputs from a recorded seed`],
      ["hash of the calls", site.el("code", {}, row[CASES])], ["reference", site.el("code", {}, row[REFERENCE])],
      ["recipe", site.el("code", {}, row[RECIPE])],
      ["code objects, SHA-256", ...row[OBJECTS].map((each) => site.el("code.line", {}, each))], ["compiled with", said[row[TOOLS]]],
    ]));
  }

  function models(rows) {
    if (!rows.length) return [];
    return [site.el("h2", {}, "Called by"), site.el("ul.plain", {}, rows.map(([model, asked, served]) =>
      site.el("li", {}, site.link("models", model), site.el("span.quiet", {}, ` ${site.number(served)} of ${site.number(asked)} calls are served`))))];
  }
}
