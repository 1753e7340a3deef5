"use strict";
// The home: what this is, how far it was proved, the line to type for a GPU, what is served, and where to read on.
{
  const USES = { vLLM: "vLLM", SGLang: "SGLang", Python: "Plain Python" };

  site.views.push({ name: "home", title: "Home", show: () => {
    const told = site.data.get("index"), { home } = told;
    return [
      site.el("div.hero", {},
        site.heading("AITER’s GPU operators, compiled ahead of time"),
        site.el("p", {}, "AITER is AMD’s operator library for LLM inference. It compiles operators on your server, when a request first needs them. "
          + "Here they are compiled already. Your server needs no compiler and no network, and writes no file at run time.")),
      status(home, told), site.el("h2", {}, "Install for your GPU"), picker(home, told),
      site.el("h2", {}, "What is served"), cards(told),
      site.el("h2", {}, "How it works"), site.pipeline(), site.el("p", {}, site.el("a", { href: "#/pictures" }, "A receipt’s life, a call’s life, and what a call costs")),
      ...documents(home),
    ];
  } });

  // What no card has run is said first: it is the limit that matters most.
  function status({ devices }, told) {
    const amd = devices.filter(([target]) => target.startsWith("gfx"));
    const sum = (rows) => rows.reduce((all, [, , count]) => all + count, 0);
    const emulated = sum(amd.filter(([, by]) => by)), cards = sum(amd.filter(([, by]) => !by));
    const [built, proved] = told.built, release = told.release.release;
    return site.el("div.status", { role: "note" },
      site.el("p", {}, site.el("strong", {}, cards ? `${site.count(cards, "receipt")} of ${site.number(cards + emulated)} come from an AMD card.` : "No AMD card has run these kernels yet."), " ",
        emulated ? `${site.number(emulated)} receipts say that a kernel was executed on an emulated GPU and its results were right.` : "",
        cards ? "" : " We publish no AMD speed figures."),
      site.el("p.quiet", {}, built ? [`${site.number(built)} kernel entries are built. ${proved === built ? "All have a receipt." : `${site.number(proved)} have a receipt, ${site.number(built - proved)} do not.`}`]
        : "This page was made without bundles, so no kernel is built here.", release ? ` Version ${release}.` : ""));
  }

  function picker({ picker: rows, build, commands }, told) {
    const title = (row) => row.products.length ? row.products.join(", ") : "No GPU: emulate one on the CPU";
    const text = site.el("pre", { tabindex: "0", "aria-label": "Lines to type", id: "lines" }), fact = site.el("p.quiet", { role: "status" });
    const gpus = rows.map((row, place) => radio("gpu", place, title(row), !place, paint));
    const uses = Object.entries(USES).map(([use, words], place) => radio("use", use, words, !place, paint));
    const usage = site.el("fieldset.pick", {}, site.el("legend", {}, "You use"), uses);
    const node = site.el("div.picker", {}, site.el("fieldset.pick", {}, site.el("legend", {}, "Your GPU"), gpus), usage,
      site.el("p.label", {}, "1. Build the wheels once, on x86-64 Linux with Python 3.11 or later. This writes dist/."), block(site.el("pre", { tabindex: "0" }, build)),
      site.el("p.label", {}, "2. In the environment of your engine:"), block(text), fact);
    function paint() {
      const row = rows[node.querySelector("[name=gpu]:checked").value], alone = !row.target;
      usage.hidden = alone;
      const extra = alone ? rows[0].extra : row.extra, lines = commands[alone ? "Emulator" : node.querySelector("[name=use]:checked").value];
      text.textContent = lines.map((line) => line.replaceAll("EXTRA", extra)).join("\n");
      const served = told.operators.filter(({ cells }) => cells.some(([target, , , entries]) => target === row.target && entries > 0)).length;
      fact.textContent = alone ? `The emulator executes the same code objects.${row.bytes ? ` Its wheel has ${site.bytes(row.bytes)}.` : ""}`
        : `Target ${row.target}: ${served ? `${site.number(served)} operators` : "no operator is built here"}${row.bytes ? `, a wheel of ${site.bytes(row.bytes)}` : ""}.`;
    }
    paint();
    return node;
  }

  const radio = (name, value, words, checked, changed) =>
    site.el("label.option", {}, site.el("input", { type: "radio", name, value, checked, onchange: changed }), site.el("span", {}, words));

  // A browser that keeps its clipboard from pages on a disk shows no button.
  function block(lines) {
    const copy = site.el("button.plain.copy", { type: "button", onclick: async () => {
      await navigator.clipboard.writeText(lines.textContent);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    } }, "Copy");
    return site.el("div.block", {}, lines, navigator.clipboard ? copy : null);
  }

  function cards(told) {
    const has = new Set(told.has), of = (target) => told.operators.filter((row) => row.cells.some(([place, , , entries]) => place === target && entries > 0)).length;
    const amd = told.targets.filter((target) => target.startsWith("gfx"));
    const whole = (row, target) => ["vllm", "sglang"].every((engine) => { const [good, all] = row.sums[target]?.[engine].steps || [0, 1]; return good === all; });
    const served = (target) => told.models.filter((row) => whole(row, target)).length;
    const found = [
      has.has("shapes") && ["models", site.count(told.models.length, "model"), ["all vLLM and SGLang calls served:", amd.map((target) => `${served(target)} on ${target}`).join(", ")]],
      ["operators", site.count(told.operators.length, "operator"), amd.map((target) => `${target}: ${site.number(of(target))} built`)],
      has.has("modules") && ["modules", site.count(told.modules.length, "module"), ["that AITER’s JIT would compile"]],
      has.has("sizes") && ["sizes", "Sizes", ["of bundles and wheels, by release"]],
      has.has("times") && ["times", "Times", ["measured, and predicted by the emulator’s model"]],
      has.has("compatibility") && ["compatibility", "Test runs", ["by version of Python, torch, AITER and engine"]],
      ["words", "Words", ["that this page uses, and its marks"]],
    ];
    return site.el("ul.cards", {}, found.filter(Boolean).map(([view, words, lines]) => site.el("li", {},
      site.el("a", { href: `#/${view}` }, words), lines.map((line) => site.el("span.quiet", {}, line)))));
  }

  function documents({ documents: groups, sources }) {
    if (!groups.length) return [];
    return [site.el("h2", {}, "Documents"), site.el("div.groups", {}, groups.map(({ title, pages }) => site.el("section", {}, site.el("h3", {}, title),
      site.el("ul.plain", {}, pages.map(([words, href]) => site.el("li", {}, site.el("a", { href }, words))))))),
    sources ? site.el("p", {}, "Sources: ", site.commas(["AGENTS.md", "manifests/README.md", "CHANGELOG.md"].map((file) => site.el("a", { href: `${sources}${file}` }, file)))) : null];
  }
}
