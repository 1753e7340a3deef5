"""The home of the page in a headless browser: status, the line to type, pictures, tabs of a phone, what is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import page as made
from support.browser import PHONE, Tab

from build_tools.site import home, write

#: Lightness of a colour as WCAG 2 defines it, and the contrast of each text with its ground.
_CONTRAST = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const worst = [];
  for (const node of document.querySelectorAll("body *")) {
    if (![...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim())) continue;
    if (!node.checkVisibility() || node.closest(".hidden, .skip, noscript")) continue;
    const [one, other] = [light(parts(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) worst.push([node.outerHTML.slice(0, 90), ratio]);
  }
  return worst;
}"""


@pytest.fixture
def phone(browser: Any, site: str) -> Iterator[Tab]:
    context = browser.new_context(viewport=PHONE, locale="en-US", has_touch=True)
    one = Tab(context, site)
    yield one
    context.close()
    assert one.said == []


def lines(page: Any) -> list[str]:
    found: list[str] = page.inner_text("#lines").splitlines()
    return found


def test_the_home_is_what_opens(tab: Tab) -> None:
    tab.page.goto(tab.site)
    tab.page.wait_for_selector("main h1")
    assert "compiled ahead of time" in tab.page.inner_text("h1")
    assert tab.page.get_attribute("#views a[aria-current]", "href") == "#/home"


def test_the_limit_that_matters_most_is_said_first(tab: Tab) -> None:
    page = tab.go("home")
    status = page.inner_text(".status")
    assert status.startswith("No AMD card has run these kernels yet.")
    assert f"{made.RECEIPTS + 1:,} receipts say that a kernel was executed on an emulated GPU" in status
    assert "2 do not" in status


def test_a_receipt_of_a_card_is_said(browser: Any, tmp_path: Path) -> None:
    told = made.content()
    rows = [{**made.receipt("operator_000"), "device": "AMD Instinct MI300X"}, made.receipt("half")]
    write.write(
        tmp_path, replace(told, documents={**told.documents, "receipts": {"version": 1, "receipts": rows}})
    )
    context = browser.new_context(locale="en-US")
    status = Tab(context, (tmp_path / "index.html").as_uri()).go("home").inner_text(".status")
    assert status.startswith("1 receipt of 2 come from an AMD card.") and "No AMD card" not in status
    context.close()


@pytest.mark.parametrize("place", range(2))
@pytest.mark.parametrize("use", ["vLLM", "SGLang", "Python"])
def test_the_picker_shows_the_line_to_type(tab: Tab, place: int, use: str) -> None:
    page, extra = tab.go("home"), list(home.PRODUCTS)[place]
    page.locator("[name=gpu]").nth(place).check()
    page.check(f"[name=use][value={use}]")
    assert lines(page) == [line.replace("EXTRA", extra) for line in home.COMMANDS[use]]
    assert extra in page.inner_text(".picker [role=status]")


def test_without_a_gpu_the_emulator_is_shown(tab: Tab) -> None:
    page = tab.go("home")
    page.locator("[name=gpu]").nth(2).check()
    assert "emulator" in lines(page)[0] and not page.is_visible("[name=use][value=vLLM]")


def test_keys_alone_choose_a_gpu(tab: Tab) -> None:
    page = tab.go("home")
    page.focus("[name=gpu]:checked")
    page.keyboard.press("ArrowRight")
    assert "gfx950" in lines(page)[0]
    style = "getComputedStyle(document.activeElement.nextElementSibling).outlineStyle"
    assert page.evaluate(style) == "solid"


def test_models_stand_before_operators(tab: Tab) -> None:
    found = tab.go("home").locator(".cards a").all_inner_texts()
    assert found[:3] == ["1 model", "214 operators", "2 modules"]


def test_tabs_that_do_not_fit_show_an_arrow(phone: Tab) -> None:
    page = phone.go("home")
    assert page.is_visible("#right") and not page.is_visible("#left")
    page.click("#right")
    page.wait_for_selector("#left", state="visible")
    for view in ("words", "sizes", "home"):
        page = phone.go(view)
        page.wait_for_timeout(400)
        left, right = page.evaluate(
            "(() => { const tab = document.querySelector('#views a[aria-current]').getBoundingClientRect();"
            " return [tab.left, tab.right]; })()"
        )
        assert left >= 0 and right <= PHONE["width"], view
    assert not page.is_visible("#left")


def test_on_a_desk_all_tabs_fit(browser: Any, site: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    page = Tab(context, site).go("home")
    assert not page.is_visible("#left") and not page.is_visible("#right")
    context.close()


@pytest.mark.parametrize("size", [{"width": 1440, "height": 900}, PHONE], ids=["desk", "phone"])
def test_pictures_hold_their_text(browser: Any, site: str, size: dict[str, int]) -> None:
    context = browser.new_context(viewport=size, locale="en-US")
    page = Tab(context, site).go("pictures")
    assert page.locator("figure.picture").count() == 5 and page.locator(".flow .box").count() == 18
    over = page.evaluate(
        "[...document.querySelectorAll('.box')].filter((box) => box.scrollWidth > box.clientWidth + 1)"
        ".map((box) => box.innerText)"
    )
    assert over == []
    ours = page.inner_text(".bars div:has(dt:text-is('ours'))")
    assert re.search(r"[\d.]+ to [\d.]+ us", ours)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_text_stands_out_from_its_ground(browser: Any, site: str, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme, locale="en-US")
    one = Tab(context, site)
    for view in (
        "home",
        "pictures",
        "words",
        "models",
        "models/A-Model",
        "operators",
        "operator/operator_000",
        "modules",
    ):
        assert one.go(view).evaluate(_CONTRAST) == [], view
    context.close()


def test_only_what_a_view_needs_is_loaded(tab: Tab) -> None:
    seen: list[str] = []
    tab.page.on("request", lambda sent: seen.append(sent.url))
    tab.go("home")
    assert not any("uPlot" in url or "data/operator" in url for url in seen)
    tab.go("sizes")
    tab.page.wait_for_selector(".plot canvas")
    assert sum("uPlot" in url for url in seen) == 2


def test_arguments_are_explained(tab: Tab) -> None:
    page = tab.go("operator/operator_000")
    told = page.inner_text("main")
    assert "Arguments" in told and "[M, N] bf16, rows may be strided" in told and "New, contiguous" in told
    assert "csrc/kernels/triton/norm.py, aiter:csrc/kernels/norm.cu" in told


def test_a_module_that_a_class_stands_for_is_not_red(tab: Tab) -> None:
    page = tab.go("modules")
    row = page.locator("tbody tr", has_text="module_ranks")
    assert "by CustomAllreduce" in row.inner_text() and row.locator(".state.missing").count() == 0
    page = tab.go("modules/module_ranks")
    assert page.locator("main .state.missing").count() == 0 and "CustomAllreduce" in page.inner_text("tbody")


def test_documents_and_sources_are_links(browser: Any, tmp_path: Path) -> None:
    links = home.Links("docs/", ".html", "../../")
    write.write(tmp_path, replace(made.content(), links=links))
    context = browser.new_context(locale="en-US")
    page = Tab(context, (tmp_path / "index.html").as_uri()).go("home")
    assert page.get_attribute("main a:text-is('Quickstart')", "href") == "docs/quickstart.html"
    assert page.get_attribute("main a:text-is('AGENTS.md')", "href") == "../../AGENTS.md"
    page.click("#views a:text-is('How it works')")
    assert page.get_attribute("main a:text-is('What calls cost')", "href") == "docs/performance.html"
    page.goto("about:blank")
    page.goto((tmp_path / "index.html").as_uri() + "#/operator/operator_000")
    found = page.get_attribute("main a:has-text('csrc/kernels/triton/norm.py')", "href")
    assert found == "../../csrc/kernels/triton/norm.py"
    context.close()
