"use strict";
// How large the bundles are, and how they grow from release to release.
{
  site.views.push({ name: "sizes", title: "Sizes", needs: "sizes", show: async () => {
    const records = await site.need("sizes");
    await plotter();
    const last = records.at(-1);
    const table = site.table({ caption: "Bundles", columns: [
      { name: "bundle", kind: "first", value: (row) => key(row), cell: (row) => site.el("code", {}, key(row)) },
      { name: "size", kind: "number", value: (row) => row.bytes, cell: (row) => site.bytes(row.bytes) },
      { name: "code objects hold", kind: "number", value: (row) => row.raw_bytes, cell: (row) => site.bytes(row.raw_bytes) },
      { name: "ratio", kind: "number", value: (row) => row.raw_bytes / row.bytes, cell: (row) => (row.raw_bytes / row.bytes).toFixed(1) },
      { name: "code objects", kind: "number", value: (row) => row.code_objects, cell: (row) => site.number(row.code_objects) },
      { name: "entries", kind: "number", value: (row) => row.entries, cell: (row) => site.number(row.entries) },
      { name: "proved", kind: "number", value: (row) => row.proved, cell: (row) => site.number(row.proved) },
      { name: "instances of CK", kind: "aside", cell: (row) => row.ck || "–" },
    ] });
    table.show(last.bundles, `${site.count(last.bundles.length, "bundle")} of ${last.release}`);
    return [site.heading("Sizes"), growth(records, site.data.get("index").here),
      site.el("h2", {}, "Size of bundles, MB"), plot(records, (row) => row.bytes / 1e6, "MB"),
      site.el("h2", {}, "Entries"), plot(records, (row) => row.entries, "entries"),
      site.el("h2", {}, `Bundles of ${last.release}`), table.node, ...wheels(last)];
  } });

  // The plotting library and its style, when sizes are first looked at.
  let loaded = null;
  const plotter = () => loaded ??= (document.head.append(site.el("link", { rel: "stylesheet", href: "uPlot.min.css" })), site.program("uPlot.iife.min.js"));

  const key = (row) => `${row.target} ${row.profile}`;
  // `here`: the last record is of the bundles that are here; without bundles it is the last one that was given.
  const growth = ({ length: count }, here) => site.el("p", {}, count === 1 ? `The only point is ${here ? "this checkout" : "the release that was given"}. Each release adds a point, from the record in its folder.`
    : `${count} releases${here ? ", the last one as it is in this checkout" : ""}.`);

  function wheels({ wheels: files }) {
    if (!files.length) return [];
    const table = site.table({ caption: "Wheels", columns: [
      { name: "wheel", kind: "first", cell: (row) => site.el("code", {}, row.file) },
      { name: "size", kind: "number", value: (row) => row.bytes, cell: (row) => site.bytes(row.bytes) },
      { name: "SHA-256", kind: "hash", cell: (row) => site.el("code", { title: row.sha256 }, row.sha256.slice(0, 16)) } ] });
    table.show(files, site.count(files.length, "wheel"));
    return [site.el("h2", {}, "Wheels"), table.node];
  }

  // A line a bundle over the releases. The same numbers are in the table for who cannot see it.
  function plot(records, value, unit) {
    const names = [...new Set(records.flatMap((record) => record.bundles.map(key)))].sort();
    const places = records.map((_, place) => place);
    const lines = names.map((name) => records.map((record) => {
      const row = record.bundles.find((each) => key(each) === name);
      return row ? value(row) : null;
    }));
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const node = site.el("div.plot", { role: "img", "aria-label": `${unit} by release: ${names.map((name, place) => `${name} ${lines[place].at(-1) ?? "none"}`).join(", ")}` });
    const width = () => Math.max(260, Math.min(900, node.clientWidth || 600));
    requestAnimationFrame(() => {
      if (typeof uPlot !== "function") return; // a browser that it does not know: the table has the numbers
      const chart = new uPlot({
        width: width(), height: 240, cursor: { drag: { x: false, y: false } }, legend: { live: records.length > 1 },
        scales: { x: { time: false, range: [-0.5, records.length - 0.5] }, y: { range: (_, __, high) => [0, (high || 1) * 1.1] } },
        axes: [{ ...axis, splits: () => places, values: (_, at) => at.map((place) => records[place]?.release ?? "") }, { ...axis, size: 56 }],
        series: [{ label: "release", value: (_, at) => records[at]?.release ?? "–" }, ...names.map((name, place) => ({
          label: name, stroke: colour(`--line-${place % 6}`), width: 2, points: { show: true, size: 8 },
          value: (_, found) => found === null || found === undefined ? "–" : unit === "MB" ? `${found.toFixed(2)} MB` : site.number(found) }))],
      }, [places, ...lines], node);
      new ResizeObserver(() => chart.setSize({ width: width(), height: 240 })).observe(node);
    });
    return node;
  }
}
