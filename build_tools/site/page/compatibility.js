"use strict";
// What was run with what: the same rows as docs/compatibility.md.
site.views.push({ name: "compatibility", title: "Test runs", needs: "compatibility", show: async () => {
  const came = (row) => [`${site.number(row.passed)} passed`, row.failed ? `, ${site.number(row.failed)} failed` : "", row.skipped ? `, ${site.number(row.skipped)} skipped` : "",
    row.files < row.of ? site.el("span.quiet", {}, ` (of ${row.files} of ${row.of} files)`) : ""];
  const { runs } = await site.need("compatibility");
  const table = site.table({ caption: "What was run with what", columns: [
    { name: "what", kind: "first", value: (row) => row.what, cell: (row) => row.what },
    { name: "with", cell: (row) => Object.entries(row.with).map(([name, version]) => `${name} ${version}`).join(", ") },
    { name: "driver", cell: (row) => row.device },
    { name: "came out", cell: came },
    { name: "date", kind: "aside", value: (row) => row.date, cell: (row) => row.date },
  ] });
  table.show(runs, site.count(runs.length, "run"));
  return [site.heading("Test runs"), site.el("p", {}, "This table lists automatically recorded test runs only. Other versions may have been run without a record."), table.node];
} });
