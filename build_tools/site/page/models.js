"use strict";
// Models: what each calls in its steps, and which kernel serves it.
{
  // A chosen kernel is proved by receipts of all of its entries, by nothing else.
  const kind = (state, proved) => state === "chosen" ? (proved ? "proved" : "built") : KINDS[state] || "missing";
  const SERVED = new Set(["chosen", "on the host"]);
  const total = (counts, only) => Object.entries(counts).reduce((all, [state, count]) => all + (!only || only.has(state) ? count : 0), 0);
  const KINDS = { "on the host": "host", refused: "missing", "not in the bundles": "declared", unbound: "missing", "not served": "missing" };

  site.views.push({ name: "models", title: "Models", needs: "shapes", show: async (name) => {
    const models = site.data.get("index").models;
    if (!name) return all(models);
    const row = models.find((each) => each.name === name);
    const trail = site.el("p.trail", {}, site.el("a", { href: "#/models" }, "Models"));
    return row ? [trail, ...one(row, await site.need(`model/${row.file}`))] : [trail, site.heading(name), site.absent("No model has this name.")];
  } });

  function all(models) {
    const targets = [...new Set(models.flatMap((row) => Object.keys(row.targets)))].sort();
    const share = (row, target) => {
      const counts = row.targets[target] || {}, every = total(counts), served = total(counts, SERVED);
      return every ? site.el("span.share", {}, meter(served / every), ` ${site.number(served)} of ${site.number(every)}`) : "–";
    };
    const table = site.table({ caption: "Models", columns: [
      { name: "model", kind: "first", value: (row) => row.name, cell: (row) => site.link("models", row.name, row.name, "a.name") },
      ...targets.map((target) => ({ name: `served on ${target}`, cell: (row) => share(row, target) })),
    ] });
    table.show(models, site.count(models.length, "model"));
    return [site.heading("Models"), site.el("p", {}, "Each call of each step of vLLM and SGLang, with its sizes, as a live call would be chosen on these bundles. "
      + "Served: an entry would be launched, or the function needs none."), table.node];
  }

  function meter(part) {
    const bar = site.el("span.meter", { "aria-hidden": "true" }, site.el("span", {}));
    bar.firstChild.style.width = `${100 * part}%`;
    return bar;
  }

  function one(row, { calls, said }) {
    const targets = Object.keys(row.targets).sort(), word = (place) => said[place];
    const columns = [
      { name: "function", kind: "first", value: ([, , name]) => word(name), cell: ([client, , name, layer]) => [site.link("operator", word(name), word(name), "a.name"),
        site.el("span.quiet.what", {}, [word(layer), word(client)].filter(Boolean).join(" · "))] },
      { name: "phase", value: (call) => word(call[4]), cell: (call) => word(call[4]) },
      { name: "TP", kind: "number", value: (call) => call[5], cell: (call) => call[5] },
      ...targets.map((target) => ({ name: target, kind: "runs", cell: (call) => runs(call[6].filter((run) => word(run[0]) === target), word) })),
    ];
    const table = site.table({ caption: `Calls of ${row.name}`, columns });
    const text = (call) => [...call.slice(0, 5).map(word), ...call[6].flatMap((run) => run.slice(3, 7).map(word))].join(" ").toLowerCase();
    const texts = new Map(calls.map((call) => [call, text(call)]));
    const bad = (call) => call[6].some((run) => !SERVED.has(word(run[3])));
    const changed = ({ words, phase, tp, client, serve }) => {
      const found = calls.filter((call) => (!phase.size || phase.has(word(call[4]))) && (!tp.size || tp.has(String(call[5]))) && (!client.size || client.has(word(call[0])))
        && (!serve.size || serve.has(bad(call) ? "not all served" : "served")) && site.matches(texts.get(call), words));
      table.show(found, `${site.count(found.length, "call")} of ${site.number(calls.length)}`);
    };
    const values = (of) => [...new Set(calls.map(of))].sort((a, b) => (a > b) - (a < b));
    const filters = site.filters({ label: "Search calls", placeholder: "Function, layer or kernel", changed, groups: [
      { key: "phase", label: "phase", values: values((call) => word(call[4])) }, { key: "serve", label: "state", values: ["served", "not all served"] },
      { key: "tp", label: "TP", values: values((call) => call[5]).map(String), one: true }, { key: "client", label: "client", values: values((call) => word(call[0])), one: true } ] });
    changed(filters.settings());
    return [site.heading(row.name), site.el("p.quiet", {}, "Ranges are tokens in a step. Open one to see the variant and why it is chosen."), filters.bar, table.node];
  }

  function runs(found, word) {
    if (!found.length) return "–";
    return found.map(([, first, last, state, backend, kernel, variants, reason, call, proved]) => site.el("details.run", {},
      site.el("summary", {}, site.state(kind(word(state), proved), first === last ? site.number(first) : `${site.number(first)}–${site.number(last)}`), " ",
        word(kernel) ? [site.el("code", {}, word(kernel)), site.el("span.quiet", {}, ` ${word(backend)}`)] : word(state)),
      site.facts([["state", word(state)], ["receipts", word(kernel) ? (proved ? "all of its entries have one" : "not all of its entries have one") : ""], ["variants", word(variants)], ["why", word(reason)], ["first call", site.el("code", {}, word(call))]])));
  }
}
