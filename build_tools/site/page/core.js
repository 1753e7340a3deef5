"use strict";
// What all views share: making elements, loading tables, the address. Texts become text nodes only, so no name or note is markup.
const site = { data: new Map(), waiting: new Map(), views: [] };

// A table's file calls this.
site.take = (name, value) => {
  site.data.set(name, value);
  const told = site.waiting.get(name);
  if (told) told.resolve(value);
};

// A table, loaded as a program when it is first asked for.
site.need = (name) => {
  if (site.data.has(name)) return Promise.resolve(site.data.get(name));
  if (!site.waiting.has(name)) {
    const told = {};
    told.promise = new Promise((resolve, reject) => Object.assign(told, { resolve, reject }));
    site.waiting.set(name, told);
    site.program(`data/${name}.js`).catch((error) => {
      site.waiting.delete(name);
      told.reject(error);
    });
  }
  return site.waiting.get(name).promise;
};

// A program of the folder, loaded when a view first needs it.
site.program = (name) => new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.src = name;
  script.onload = resolve;
  script.onerror = () => reject(new Error(`${name} cannot be loaded. Copy the whole folder of this page.`));
  document.head.append(script);
});

// el("a.name", {href: "#/x"}, "text", child, ...); null and false are left out.
site.el = (what, attributes, ...children) => {
  const [tag, ...classes] = what.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== false && child !== undefined));
  return node;
};

// The names that a view has; of a view whose documents were not given, none.
const known = new Map();
site.knows = (view, name) => {
  if (!known.has(view)) {
    const { operators, models, modules } = site.data.get("index");
    const names = { operator: operators.map((row) => row.name), models: models?.map((row) => row.name), modules }[view];
    known.set(view, new Set(names || []));
  }
  return known.get(view).has(name);
};

// A name that no view has stays a name.
site.link = (view, name, words = name, kind = "a") =>
  site.knows(view, name) ? site.el(kind, { href: `#/${view}/${encodeURIComponent(name)}` }, words) : site.el(kind.replace(/^a/, "span"), {}, words);

const MARKS = { proved: "●", built: "◐", partly: "◔", declared: "○", missing: "–", host: "◇" };
// One of the words above. Any other words, such as "missing on gfx950", mean that a part is served.
site.kind = (state) => (state in MARKS ? state : "partly");
// A state by shape, word and colour: never by colour alone.
site.state = (state, words = state) =>
  site.el(`span.state.${site.kind(state)}`, {}, site.el("span", { "aria-hidden": "true" }, MARKS[site.kind(state)]), " ", words);

// What the marks of a view mean, in one line.
const MEANINGS = { proved: "executed and right", built: "compiled, not all executed", declared: "not in these bundles", missing: "no kernel" };
site.legend = (...states) => site.el("p.legend", {}, states.flatMap((state) => [site.el("span.item", {}, site.state(state), ` ${MEANINGS[state]}`), " "]), site.el("a", { href: "#/words" }, "All words"));

const NUMBERS = new Intl.NumberFormat("en");
site.number = (value) => NUMBERS.format(value);
site.bytes = (value) =>
  value >= 1e6 ? `${(value / 1e6).toFixed(2)} MB` : value >= 1e3 ? `${(value / 1e3).toFixed(1)} kB` : `${value} B`;
site.count = (value, one, several = `${one}s`) => `${site.number(value)} ${value === 1 ? one : several}`;

// The address: #/view/name?key=value.
site.address = () => {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", ...rest] = path.split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* a % that stands for nothing: as it is */ }
  return { view, name, query: new URLSearchParams(query) };
};

// Keeps what is searched and filtered in the address, with no step of the history and no new view.
site.remember = (settings) => {
  const { view, name } = site.address();
  const query = new URLSearchParams(Object.entries(settings).filter(([, value]) => value));
  const text = query.toString();
  const hash = `#/${view || "home"}${name ? `/${encodeURIComponent(name)}` : ""}${text ? `?${text}` : ""}`;
  if (hash !== location.hash) {
    site.own = hash;
    location.replace(hash);
  }
};

// A sentence of the manifests: what stands between backticks is code.
site.prose = (words) => words.split("`").map((part, place) => (place % 2 ? site.el("code", {}, part) : part));

site.heading = (words, ...more) => site.el("h1", {}, words, ...more);
site.facts = (rows) =>
  site.el("dl.facts", {}, rows.filter(([, value]) => value !== "" && value !== null).map(([name, ...value]) =>
    site.el("div", {}, site.el("dt", {}, name), site.el("dd", {}, ...value))));
site.absent = (words) => site.el("p.note", {}, words);
// Nodes with commas between them; no nodes: "", which `facts` leaves out.
site.commas = (nodes) => nodes.length ? nodes.flatMap((node, place) => place ? [", ", node] : [node]) : [""];
// A page of the documentation, by its file's name; words where the page is not there.
site.page = (name, words) => {
  const found = site.data.get("index").home.documents.flatMap(({ pages }) => pages).find(([, href]) => href.replace(/\.(html|md)$/, "").endsWith(`/${name}`));
  return found ? site.el("a", { href: found[1] }, words) : words;
};
// A file of the repository: a link where the page knows where the sources are.
site.source = (path, words = path) => {
  const { sources } = site.data.get("index").home;
  return sources ? site.el("a", { href: `${sources}${path}` }, site.el("code", {}, words)) : site.el("code", {}, words);
};
