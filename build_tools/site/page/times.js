"use strict";
// What was measured. Nothing is shown that nobody measured.
{
  const micro = (seconds) => `${(seconds * 1e6).toFixed(1)} µs`;
  const device = (row) => row.embedded ? `embedded device in place of ${row.device}` : row.device;

  site.views.push({ name: "times", title: "Times", show: async () => {
    const rows = await site.need("times");
    if (!rows.length) return [site.heading("Times"), site.absent("No times were given to this page, and none are predicted yet. On a machine with a card: "),
      site.el("pre", { tabindex: "0" }, "aiter-prebuilt bench rms_norm M=1024 N=8192 T=bf16 --json > times/rms_norm.json\npython -m build_tools site DIR --times times")];
    const call = ({ call: { types, symbols } }) => Object.entries({ ...types, ...symbols }).map(([name, value]) => `${name}=${value}`).join(" ");
    const table = site.table({ caption: "Measured calls", columns: [
      { name: "operator", kind: "first", value: (row) => row.operator, cell: (row) => [site.link("operator", row.operator, row.operator, "a.name"), site.el("span.quiet.what", {}, call(row))] },
      { name: "device", value: device, cell: (row) => row.embedded ? [site.el("strong", {}, "embedded device"), site.el("span.quiet.what", {}, `in place of ${row.device}`)] : row.device },
      { name: "until done", kind: "number", value: (row) => row.seconds, cell: (row) => micro(row.seconds) },
      { name: "on the host", kind: "number", value: (row) => row.host_seconds, cell: (row) => micro(row.host_seconds) },
      { name: "median of", kind: "number aside", cell: (row) => row.repeat },
    ] });
    const changed = ({ words }) => {
      const found = rows.filter((row) => site.matches([row.operator, device(row), row.target, call(row)].join(" ").toLowerCase(), words));
      table.show(found, `${site.count(found.length, "measured call")} of ${site.number(rows.length)}`);
    };
    const filters = site.filters({ label: "Search times", placeholder: "Operator, device or size", changed, groups: [] });
    changed(filters.settings());
    return [site.heading("Times"), site.el("p", {}, "As aiter-prebuilt bench printed them, on the device that each row names. The embedded device's say nothing of a card's. Predicted times are not shown: there are none yet."), filters.bar, table.node];
  } });
}
