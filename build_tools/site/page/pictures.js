"use strict";
// Pictures: the pipeline, a receipt's life, a call's life, and what a call costs. Boxes are text, so they wrap on a phone.
{
  // [title, text, kind]; kind: "end" is what comes out, "gate" is where something can be refused.
  const PIPELINE = [
    ["Manifest", "TOML: operators, kernels, conditions, calls"], ["Plan", "one job for each kernel, variant and target"],
    ["Compile", "HIP, Triton, FlyDSL, CK, assembly"], ["Judge", "registers, LDS and arguments match the manifest", "gate"],
    ["Prove", "execute each kernel, compare with float64", "gate"], ["Pack", "one bundle for each target, then wheels", "end"],
  ];
  const RECEIPT = [
    ["Compiled", "the same sources give the same bytes"], ["Executed", "all listed calls, on the emulator or a card"],
    ["Right", "each result is within its allowed error", "gate"], ["Recorded", "hash of the recipe, device, checks, tools", "end"],
    ["Shipped", "the wheel takes only recipes with a receipt", "end"], ["Void", "one byte of code, a condition or the reference changed", "bad"],
  ];
  const CALL = [
    ["Call", "rms_norm(x, weight, 1e-6), in AITER’s signature"], ["Check", "types, shapes, strides, device; else an error says why", "gate"],
    ["Choose", "a measured row, else order and cost"], ["Load", "the first use loads the code object; a graph capture refuses", "gate"],
    ["Launch", "arguments are packed and the driver starts it"], ["Remember", "the next call like it goes from Check to Launch", "end"],
  ];

  const flow = (name, rows) => site.el("figure.picture", {}, site.el("figcaption", {}, name), site.el("ol.flow", {}, rows.map(([title, words, kind]) =>
    site.el(`li.box${kind ? `.${kind}` : ""}`, {}, site.el("strong", {}, title), site.el("span", {}, words)))));
  site.pipeline = () => flow("From a manifest to a wheel", PIPELINE);

  site.views.push({ name: "pictures", title: "How it works", show: () => {
    const { timings } = site.data.get("index").home;
    return [site.heading("How it works"),
      site.el("p.keys", {}, site.el("span.key.gate", {}, "can refuse"), site.el("span.key.end", {}, "result"), site.el("span.key.bad", {}, "ends it")),
      site.el("h2", {}, "The pipeline"), flow("From a manifest to a wheel, on the build machine", PIPELINE),
      site.el("h2", {}, "A receipt’s life"), flow("From a compiled kernel to a receipt, and its end", RECEIPT), site.el("p", {}, "In words: ", site.page("proofs", "How kernels are checked"), "."),
      site.el("h2", {}, "A call’s life"), flow("From Python to the GPU, on your server", CALL), site.el("p", {}, "In words: ", site.page("architecture", "Architecture"), "."),
      site.el("h2", {}, "What a call costs"), site.el("p", {}, "No figure is of an AMD card. More figures, and how they were measured: ", site.page("performance", "What calls cost"), "."),
      ...timings.map(bars)];
  } });

  // A bar to the least, and a paler one to the most. The value is written beside it. One scale a picture, of its second longest bar
  // where the longest would hide all others.
  function bars({ title, unit, rows }) {
    const most = rows.map((row) => row[2]).sort((a, b) => b - a), far = most[0] > 8 * most[1], scale = far ? most[1] * 1.15 : most[0];
    const bar = (value, kind) => { const one = site.el(`span.bar-${kind}`, {}); one.style.width = `${Math.min(100, 100 * value / scale)}%`; return one; };
    const figure = (least, high) => least === high ? `${site.number(least)} ${unit}` : `${site.number(least)} to ${site.number(high)} ${unit}`;
    return site.el("figure.picture", {}, site.el("figcaption", {}, `${title}, in ${unit}`), site.el("dl.bars", {}, rows.map(([label, least, high]) =>
      site.el(`div${high > scale ? ".cut" : ""}`, {}, site.el("dt", {}, site.prose(label)), site.el("dd", {},
        site.el("span.track", { "aria-hidden": "true" }, bar(high, "most"), bar(least, "least")), site.el("span.value", {}, figure(least, high)))))),
    far ? site.el("p.quiet", {}, "The longest bar is cut.") : null);
  }
}
