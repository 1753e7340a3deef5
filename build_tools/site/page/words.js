"use strict";
// The legend: marks of this page, and the words of the project's glossary.
site.views.push({ name: "words", title: "Words", show: () => {
  const MARKS = [
    ["proved", "every entry was executed with known answers and was right; a receipt says where"],
    ["built", "compiled, and at least one entry has no receipt"], ["partly", "some targets have it, others do not"],
    ["declared", "a manifest names it, and these bundles do not hold it"], ["missing", "no kernel of ours serves it"],
    ["host", "launches no kernel: the function works on the CPU, or only calls other functions"],
  ];
  const COLUMNS = [["entry", "one kernel that can be launched: a variant with its types"], ["TP", "tensor parallelism: the GPUs that share a model"],
    ["error used", "the largest share of the allowed error in any call; 100 % is the bound"]];
  const rows = (list, first) => site.el("dl.words", {}, list.map(([word, meaning]) =>
    site.el("div", {}, site.el("dt", {}, first(word)), site.el("dd", {}, site.prose(meaning)))));
  return [site.heading("Words"), site.el("h2", {}, "Marks"), rows(MARKS, (word) => site.state(word)),
    site.el("h2", {}, "Columns"), rows(COLUMNS, (word) => word), site.el("h2", {}, "Glossary"), rows(site.data.get("index").home.words, (word) => site.prose(word))];
} });
