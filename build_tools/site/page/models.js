"use strict";
// Models: what each calls in its steps, and which kernel serves it.
{
  // A chosen kernel is proved by receipts of all of its entries, by nothing else.
  const kind = (state, proved) => state === "chosen" ? (proved ? "proved" : "built") : KINDS[state] || "missing";
  const SERVED = new Set(["chosen", "on the host"]);
  const ENGINES = { "": "all calls", vllm: "vLLM", sglang: "SGLang" };
  const COUNTED = "The sums count one decode step of 1 and of 64 tokens and one prefill step of 4,096, on one GPU, as aiter-prebuilt coverage does.";
  const KINDS = { "on the host": "host", refused: "missing", "not in the bundles": "declared", unbound: "missing", "not served": "missing" };

  site.views.push({ name: "models", title: "Models", needs: "shapes", show: async (name) => {
    const models = site.data.get("index").models;
    if (!name) return all(models);
    const row = models.find((each) => each.name === name);
    const trail = site.el("p.trail", {}, site.el("a", { href: "#/models" }, "Models"));
    return row ? [trail, ...one(row, await site.need(`model/${row.file}`))] : [trail, site.heading(name), site.absent("No model has this name.")];
  } });

  function all(models) {
    const targets = [...new Set(models.flatMap((row) => Object.keys(row.sums)))].sort();
    const sum = (row, target) => row.sums[target]?.[""].steps || [0, 0];
    const table = site.table({ caption: "Models", columns: [
      { name: "model", kind: "first", value: (row) => row.name, cell: (row) => site.link("models", row.name, row.name, "a.name") },
      ...targets.map((target) => ({ name: `calls served on ${target}`, value: (row) => sum(row, target)[0] / sum(row, target)[1], cell: (row) => [share(sum(row, target)), engines(row.sums[target])] })),
    ] });
    table.show(models, site.count(models.length, "model"));
    return [site.heading("Models"), site.el("p", {}, "Which calls of vLLM, SGLang and AITER’s own functions these bundles serve. The runtime chose a kernel for each call, with its sizes, as on a server. "
      + "A call is served when a kernel takes it, or when the function needs none."), site.el("p.quiet", {}, COUNTED), table.node];
  }

  const engines = (sums) => sums ? site.el("span.quiet.what", {}, Object.keys(ENGINES).filter(Boolean).map((engine) => {
    const [served, every] = sums[engine].steps;
    return `${ENGINES[engine]} ${site.number(served)} of ${site.number(every)}`;
  }).join(" · ")) : null;
  const share = ([served, every]) => every
    ? site.el("span.share", {}, meter(served / every), ` ${site.number(served)} of ${site.number(every)}`) : "–";

  // The sums of one model, by engine.
  function sums(row, targets) {
    const table = site.table({ caption: `Sums of ${row.name}`, columns: [
      { name: "engine", kind: "first", cell: (engine) => ENGINES[engine] },
      ...targets.map((target) => ({ name: target, cell: (engine) => share(row.sums[target][engine].steps) })),
      ...targets.map((target) => ({ name: `${target}, all sizes`, cell: (engine) => share(row.sums[target][engine].sizes) })),
    ] });
    table.show(Object.keys(ENGINES), COUNTED + " All sizes: every step and number of GPUs that is listed below.");
    return table.node;
  }

  function meter(part) {
    const bar = site.el("span.meter", { "aria-hidden": "true" }, site.el("span", {}));
    bar.firstChild.style.width = `${100 * part}%`;
    return bar;
  }

  function one(row, { calls, said }) {
    const targets = Object.keys(row.sums).sort(), word = (place) => said[place];
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
    return [site.heading(row.name), site.el("p.quiet", {}, "Which calls of this model are served, and by which kernel."),
      sums(row, targets), site.el("h2", {}, "Calls"), site.el("p.quiet", {}, "The numbers are tokens in a step. Open one to see the variant and the reason."), filters.bar, table.node];
  }

  function runs(found, word) {
    if (!found.length) return "–";
    return found.map(([, first, last, state, backend, kernel, variants, reason, call, proved]) => site.el("details.run", {},
      site.el("summary", {}, site.state(kind(word(state), proved), first === last ? site.number(first) : `${site.number(first)}–${site.number(last)}`), " ",
        word(kernel) ? [site.el("code", {}, word(kernel)), site.el("span.quiet", {}, ` ${word(backend)}`)] : word(state)),
      site.facts([["state", word(state)], ["receipts", word(kernel) ? (proved ? "each of its entries has one" : "not each of its entries has one") : ""], ["variants", word(variants)], ["why", word(reason)], ["first call", site.el("code", {}, word(call))]])));
  }
}
