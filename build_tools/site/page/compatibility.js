"use strict";
// What was run with what: the same rows as docs/compatibility.md.
site.views.push({ name: "compatibility", title: "Compatibility", needs: "compatibility", show: async () => {
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
  return [site.heading("Compatibility"), site.el("p", {}, "This table lists only automatically recorded test runs. A version that is not here may have been run without leaving a record."), table.node];
} });
