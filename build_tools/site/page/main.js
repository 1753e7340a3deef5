"use strict";
// The views' list, the way from an address to a view, keys, and light or dark.
{
  const main = document.getElementById("main"), list = document.getElementById("views"), theme = document.getElementById("theme");
  const has = new Set(site.data.get("index").has);
  const shown = site.views.filter((view) => view.title && (!view.needs || has.has(view.needs)));
  list.append(...shown.map((view) => site.el("li", {}, site.el("a", { href: `#/${view.name}`, "data-view": view.name }, view.title))));

  // Tabs that do not fit are scrolled: an arrow stands at each end that hides some, and the tab of the view is always in sight.
  const strip = document.getElementById("strip"), ends = { left: document.getElementById("left"), right: document.getElementById("right") };
  function hints() {
    const most = strip.scrollWidth - strip.clientWidth;
    ends.left.hidden = most < 2 || strip.scrollLeft < 2;
    ends.right.hidden = most < 2 || strip.scrollLeft > most - 2;
  }
  for (const [name, button] of Object.entries(ends)) button.addEventListener("click", () => strip.scrollBy({ left: (name === "left" ? -0.7 : 0.7) * strip.clientWidth }));
  strip.addEventListener("scroll", hints, { passive: true });
  new ResizeObserver(hints).observe(strip);
  function reveal(tab) {
    const [outer, inner] = [strip.getBoundingClientRect(), tab.getBoundingClientRect()], room = 44;
    if (inner.left < outer.left + room) strip.scrollLeft -= outer.left + room - inner.left;
    else if (inner.right > outer.right - room) strip.scrollLeft += inner.right - outer.right + room;
  }
  list.addEventListener("focusin", (event) => reveal(event.target));

  let turn = 0;
  async function show(first) {
    const mine = ++turn, { view: asked, name } = site.address();
    const view = site.views.find((each) => each.name === (asked || "home") && (!each.needs || has.has(each.needs)));
    const about = view?.name === "operator" ? "operators" : view?.name;
    for (const link of list.querySelectorAll("a")) {
      if (link.dataset.view !== about) link.removeAttribute("aria-current");
      else {
        link.setAttribute("aria-current", "page");
        reveal(link);
      }
    }
    let content;
    try {
      content = view ? await view.show(name) : [site.heading("Not here"), site.absent(["This page has no such view. ", site.el("a", { href: "#/home" }, "Home")])];
    } catch (error) {
      content = [site.heading("Not loaded"), site.absent(error.message)];
    }
    if (mine !== turn) return;
    main.replaceChildren(...content.flat().filter(Boolean));
    document.title = `${name || view?.title || "Not here"} – aiter-prebuilt`;
    if (!first) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
  }

  // The address is the view's: a jump in the page leaves it.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("hashchange", () => {
    if (location.hash === site.own) return;
    site.own = null;
    show(false);
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "/" && !typing) {
      event.preventDefault();
      document.getElementById("search")?.focus();
    } else if (event.key === "ArrowDown" && event.target.id === "search") {
      event.preventDefault();
      main.querySelector("tbody a, tbody summary")?.focus();
    } else if (event.key === "Enter" && event.target.id === "search") {
      main.querySelector("tbody a, tbody summary")?.click();
    } else if (event.key === "Escape") {
      if (event.target.id === "search" && event.target.value) {
        event.target.value = "";
        event.target.dispatchEvent(new Event("input"));
      } else if (site.address().name) {
        location.hash = main.querySelector(".trail a")?.getAttribute("href") || "#/home";
      }
    }
  });

  // The machine's choice until somebody makes another one; a browser that keeps nothing for pages on a disk forgets it.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = (value) => { try { return value === undefined ? localStorage.getItem("theme") : localStorage.setItem("theme", value); } catch { return null; } };
  function paint(choice) {
    const now = choice || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    theme.setAttribute("aria-pressed", now === "dark");
  }
  theme.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    kept(next);
    paint(next);
    if (site.address().view === "sizes") show(true); // its plots are painted, not styled
  });
  dark.addEventListener("change", () => paint(kept()));
  paint(kept());
  show(true);
}
