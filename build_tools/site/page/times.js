"use strict";
// What was measured, and apart from it what the emulator's model predicts. Neither is ever shown as the other.
{
  const micro = (seconds) => `${(seconds * 1e6).toFixed(1)} µs`;
  const device = (row) => row.embedded ? `emulator in place of ${row.device}` : row.device;
  const said = (symbols) => Object.entries(symbols).map(([name, value]) => `${name}=${value}`).join(" ");
  const card = (row) => `${row.target}, ${row.cus} CUs`;
  const operator = (call) => ({ name: "operator", kind: "first", value: (row) => row.operator,
    cell: (row) => [site.link("operator", row.operator, row.operator, "a.name"), site.el("span.quiet.what", {}, call(row))] });

  site.views.push({ name: "times", title: "Times", needs: "times", show: async () => {
    const rows = await site.need("times"), modelled = await site.need("predicted");
    return [site.heading("Times"), ...(rows.length ? measured(rows) : []), ...(modelled.rows.length ? predicted(modelled, !rows.length) : [])];
  } });

  function measured(rows) {
    const call = ({ call: { types, symbols } }) => said({ ...types, ...symbols });
    const table = site.table({ caption: "Measured calls", columns: [
      operator(call),
      { name: "device", value: device, cell: (row) => row.embedded ? [site.el("strong", {}, "emulator"), site.el("span.quiet.what", {}, `in place of ${row.device}`)] : row.device },
      { name: "until done", kind: "number", value: (row) => row.seconds, cell: (row) => micro(row.seconds) },
      { name: "on the host", kind: "number", value: (row) => row.host_seconds, cell: (row) => micro(row.host_seconds) },
      { name: "median of", kind: "number aside", cell: (row) => row.repeat },
    ] });
    const text = (row) => [row.operator, device(row), row.target, call(row)];
    return ["As aiter-prebuilt bench printed them, on the device that each row names. A time on the emulator says nothing about a card.",
      ...searched(rows, table, text, "measured call", "Search times")].map(paragraph);
  }

  function predicted({ rows, errors }, alone) {
    const call = ({ call: { types, symbols } }) => `${types} ${said(symbols)}`;
    const table = site.table({ caption: "Predicted times", columns: [
      operator(call),
      { name: "card", value: card, cell: card },
      { name: "kernel", value: (row) => row.kernel, cell: (row) => [site.el("code", {}, row.kernel), site.el("span.quiet.what", {}, row.variant)] },
      { name: "predicted", kind: "number", value: (row) => row.us, cell: (row) => micro(row.us / 1e6) },
    ] });
    const off = site.table({ caption: "How far predictions are off", columns: [
      { name: "family and card", kind: "first", value: (row) => row.family, cell: (row) => row.family },
      { name: "measured rows", kind: "number", value: (row) => row.rows, cell: (row) => site.number(row.rows) },
      { name: "median error", kind: "number", value: (row) => row.median, cell: (row) => `${row.median} %` },
      { name: "error of nine in ten", kind: "number", value: (row) => row.p90, cell: (row) => `${row.p90} %` },
    ] });
    off.show(errors, site.count(errors.length, "family", "families"));
    const text = (row) => [row.operator, card(row), row.kernel, row.variant, call(row)];
    const found = alone ? searched(rows, table, text, "predicted time", "Search predicted times") : [table.node];
    if (!alone) table.show(rows, site.count(rows.length, "predicted time"));
    return [site.el("h2", {}, "Predicted"), "The emulator's timing model wrote these (tune --by-model). Nobody measured them. A runtime that reads them takes the first kernel of a call.", ...found,
      site.el("h2", {}, "How far predictions are off"), "Compared with AITER's measured rows that the model was not fitted to. Other operators were not compared.", off.node].map(paragraph);
  }

  function searched(rows, table, text, one, label) {
    const changed = ({ words }) => {
      const found = rows.filter((row) => site.matches(text(row).join(" ").toLowerCase(), words));
      table.show(found, `${site.count(found.length, one)} of ${site.number(rows.length)}`);
    };
    const filters = site.filters({ label, placeholder: "Operator, device or size", changed, groups: [] });
    changed(filters.settings());
    return [filters.bar, table.node];
  }

  const paragraph = (part) => typeof part === "string" ? site.el("p", {}, part) : part;
}
