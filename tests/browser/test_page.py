"""The page in a real headless browser, opened from the disk: search, filters, keys, links, widths, light and dark, and not one
word on the console. ``nox -s browser`` brings a browser; pictures are kept where AITER_PREBUILT_SCREENSHOTS says.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import page as made
from support.browser import PHONE, Tab, browser_folder, picture

from build_tools.site import write

VIEWS = (
    "home",
    "pictures",
    "words",
    "operators",
    "operator/operator_000",
    "modules",
    "modules/module_norm",
    "modules/module_ranks",
    "models",
    "models/A-Model",
    "sizes",
    "times",
    "compatibility",
)


def test_search_and_the_address(tab: Tab) -> None:
    page = tab.go("operators")
    assert len(tab.rows()) == 100
    page.keyboard.press("/")
    page.keyboard.type("operator_20")
    assert tab.rows() == [f"operator_20{digit}" for digit in range(10)]
    assert "10 operators of 214" in page.inner_text(".said")
    page.keyboard.type("9")
    assert tab.rows() == ["operator_209"]
    assert page.url.endswith("#/operators?q=operator_209")
    page.reload()
    page.wait_for_selector("main h1")
    assert tab.rows() == ["operator_209"] and page.input_value("#search") == "operator_209"
    page.focus("#search")
    page.keyboard.press("Escape")
    assert len(tab.rows()) == 100
    page.fill("#search", "there is no such thing")
    assert tab.rows() == [] and "No operator matches" in page.inner_text(".said")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["state=built"], [made.HOSTILE]),
        (["state=declared"], ["only_declared"]),
        (["state=missing"], [made.HOSTILE, "half", "lacking", "only_declared"]),
        (["state=missing", "target=gfx950"], [made.HOSTILE, "half", "lacking"]),
        (["backend=ck"], ["only_declared"]),
        (["backend=ck", "target=gfx942"], []),
        (["backend=ck", "backend=triton", "state=built"], [made.HOSTILE]),
    ],
)
def test_filters(tab: Tab, chosen: list[str], expected: list[str]) -> None:
    page = tab.go("operators")
    for each in chosen:
        page.click(f'[data-filter="{each}"]')
        assert page.get_attribute(f'[data-filter="{each}"]', "aria-pressed") == "true"
    assert tab.rows() == expected
    address = page.url
    for each in chosen:
        page.click(f'[data-filter="{each}"]')
    assert len(tab.rows()) == 100
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("main h1")
    assert tab.rows() == expected


def test_figures_count_what_was_built(tab: Tab) -> None:
    page = tab.go("operators")
    # only_declared is declared on gfx950, half is built on gfx942 only
    told = page.locator(".figures li").all_inner_texts()
    assert told[:3] == ["214 operators", "212 on gfx942", "210 on gfx950"]
    page.fill("#search", "half")
    assert page.inner_text("td.last").split() == [
        "\N{CIRCLE WITH UPPER RIGHT QUADRANT BLACK}",
        "missing",
        "on",
        "gfx950",
    ]


def test_a_time_of_the_emulator_says_so(tab: Tab) -> None:
    page = tab.go("times")
    rows = page.locator("main .table").first.locator("tbody tr")
    assert ["emulator" in text for text in rows.all_inner_texts()] == [False, True]
    page.fill("#search", "emulator")
    assert rows.count() == 1 and "in place of an MI300X" in rows.inner_text()


def test_predicted_times_stand_apart(tab: Tab, browser: Any, tmp_path: Path) -> None:
    page = tab.go("times")
    tables = page.locator("main .table")
    assert tables.count() == 3 and "7.3 µs" not in tables.first.inner_text()
    assert "7.3 µs" in tables.nth(1).inner_text() and "gfx950, 256 CUs" in tables.nth(1).inner_text()
    assert "6.1 %" in tables.nth(2).inner_text()
    write.write(tmp_path, replace(made.content(), times=[], predicted=[], errors=[]))
    context = browser.new_context(locale="en-US")
    page = Tab(context, (tmp_path / "index.html").as_uri()).go("times")
    assert "Not here" in page.inner_text("h1") and "Times" not in page.inner_text("#views")
    context.close()


def test_a_filter_that_no_button_shows_is_none(tab: Tab) -> None:
    tab.go("operators?state=bogus&backend=nobody&category=none")
    assert len(tab.rows()) == 100
    tab.go("operators?state=bogus,declared")
    assert tab.rows() == ["only_declared"]


@pytest.mark.parametrize("view", VIEWS)
def test_the_narrowest_phone(browser: Any, site: str, view: str) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 640}, locale="en-US")
    page = Tab(context, site).go(view)
    page.wait_for_timeout(50)
    wide = page.evaluate(
        "[...document.querySelectorAll('main *')].filter((each) => each.getBoundingClientRect().right > innerWidth)"
        ".map((each) => each.outerHTML.slice(0, 80))"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 320, wide
    context.close()


@pytest.mark.parametrize("here", [True, False])
def test_sizes_are_of_this_checkout_where_its_bundles_are_here(
    browser: Any, tmp_path: Path, here: bool
) -> None:
    write.write(tmp_path, replace(made.content(), here=here))
    context = browser.new_context(locale="en-US")
    page = Tab(context, (tmp_path / "index.html").as_uri()).go("sizes")
    told = page.inner_text("main")
    assert ("this checkout" in told) is here and "2 releases" in told and "tuned" not in told
    context.close()


def test_one_category(tab: Tab) -> None:
    page = tab.go("operators")
    page.select_option('[data-filter="category"]', "gemm")
    assert tab.rows() == ["lacking", "only_declared"]


def test_keys_alone_lead_to_an_operator_and_back(tab: Tab) -> None:
    page = tab.go("operators")
    page.keyboard.press("/")
    page.keyboard.type("operator_0")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.textContent") == "operator_001"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent") == "operator_099"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('operator_000')")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.title().startswith("operator_000")
    page.keyboard.press("Escape")
    page.wait_for_selector("h1:has-text('Operators')")
    page.go_back()
    page.wait_for_selector("h1:has-text('operator_000')")


def test_the_focus_goes_in_the_order_of_the_page(tab: Tab) -> None:
    page = tab.go("operators")
    seen = []
    tabs = ["Home", "Models", "Operators", "Modules", "Sizes", "Times", "Test runs", "How it works", "Words"]
    expected = ["Skip to the content", "aiter-prebuilt", *tabs, "Dark", "All words", "search"]
    for _ in expected:
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
    assert seen == expected
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_pages_of_a_long_table(tab: Tab) -> None:
    page = tab.go("operators")
    page.click("button.more")
    assert len(tab.rows()) == 200
    assert page.evaluate("document.activeElement.textContent") == tab.rows()[100]
    page.click("button.more")
    assert len(tab.rows()) == 214 and not page.is_visible("button.more")


def test_sorting(tab: Tab) -> None:
    page = tab.go("operators")
    page.click("button.sort:has-text('operator')")
    page.click("button.sort:has-text('operator')")
    assert tab.rows()[0] == "operator_209"
    assert page.get_attribute("th:has-text('operator')", "aria-sort") == "descending"


def test_thousands_of_receipts_cost_no_wait(tab: Tab) -> None:
    page = tab.go("operator/operator_000")
    assert f"{made.RECEIPTS:,} receipts" in page.inner_text("main")
    spent = page.evaluate(
        "() => { const field = document.getElementById('search'), from = performance.now();"
        " for (const word of ['1', '12', '123', '1234']) { field.value = word; field.dispatchEvent(new Event('input')); }"
        " return performance.now() - from; }"
    )
    assert spent < 4 * 250
    page.fill("#search", f"{1234:064x}")
    assert page.locator("details.receipt").count() == 1
    page.focus("details.receipt summary")
    page.keyboard.press("Enter")
    told = page.inner_text("details.receipt")
    for words in (
        f"{1234:064x}",
        f"{1234 + 10**6:064x}",
        made.DEVICE,
        "addresses, races",
        "triton 3.9.0",
        "ab" * 8,
        "cd" * 8,
    ):
        assert words in told


def test_markup_in_a_name_or_a_note_is_text(tab: Tab) -> None:
    page = tab.go("operators?state=built")
    page.click("main tbody a.name")
    page.wait_for_selector("h1 code")
    assert page.inner_text("h1 code") == made.HOSTILE
    assert made.HOSTILE in page.inner_text("main > p:nth-of-type(2)")
    assert page.locator("img").count() == 0
    tab.go("modules/module_norm")
    assert made.HOSTILE in page.inner_text("main") and page.locator("img").count() == 0
    tab.go("models/A-Model")
    assert tab.rows() == ["operator_000", made.HOSTILE] and page.locator("img").count() == 0


def test_every_link_leads_somewhere(tab: Tab) -> None:
    page = tab.page
    tab.go("operators")
    seen, left = set[str](), {f"#/{view}" for view in VIEWS}
    while left and len(seen) < 44:
        address = left.pop()
        seen.add(address)
        tab.go(address.removeprefix("#/"))
        assert page.locator("h1:has-text('Not here'), h1:has-text('Not loaded')").count() == 0, address
        assert page.locator("main p.note:has-text('has this name')").count() == 0, address
        found = page.eval_on_selector_all(
            "a[href^='#/']", "links => links.map((link) => link.getAttribute('href'))"
        )
        left |= set(found) - seen
    assert len(seen) == 44
    tab.go("nowhere")
    assert page.inner_text("h1") == "Not here"
    tab.go("operator/nobody")
    assert "No operator has this name" in page.inner_text("main")


def test_a_name_that_no_view_has_is_no_link(tab: Tab) -> None:
    page = tab.go("models/A-Model")
    assert "tgemm.mm" in page.inner_text("main tbody >> nth=1") and "tgemm.mm" not in tab.rows()
    assert page.locator("main tbody a").count() == 2
    assert page.inner_text("main .table >> nth=0").count("4 of 5") == 3
    page.fill("#search", "tgemm")
    assert page.inner_text("details.run summary").strip().startswith("◇")


def test_without_modules_nothing_links_to_them(browser: Any, tmp_path: Path) -> None:
    told = made.content()
    given = {name: each for name, each in told.documents.items() if name not in ("modules", "shapes")}
    write.write(tmp_path, replace(told, documents=given))
    context = browser.new_context(locale="en-US")
    tab = Tab(context, (tmp_path / "index.html").as_uri())
    page = tab.go("operator/operator_000")
    assert "module_norm" in page.inner_text("main")
    assert page.locator("a[href*='modules'], a[href*='models']").count() == 0
    context.close()
    assert tab.said == []


def test_the_way_past_the_head_keeps_the_address(tab: Tab) -> None:
    page = tab.go("operator/operator_000")
    address = page.url
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main" and page.url == address
    page.reload()
    page.wait_for_selector("h1:has-text('operator_000')")


def test_models_tell_ranges_and_reasons(tab: Tab) -> None:
    page = tab.go("models/A-Model")
    page.fill("#search", "operator_000")
    runs = page.locator("details.run")
    assert [text.strip() for text in runs.locator("summary").all_inner_texts()] == [
        "● 1\N{EN DASH}8 operator_000_row triton", "◐ 64 other_row triton", "\N{EN DASH} 1 refused",
    ]  # fmt: skip
    runs.nth(2).locator("summary").click()
    assert "made for M > 4" in runs.nth(2).inner_text()
    page.click('[data-filter="serve=served"]')
    assert tab.rows() == []


def test_sizes_are_plotted_and_written(tab: Tab) -> None:
    page = tab.go("sizes")
    page.wait_for_selector(".plot canvas")
    assert page.locator(".plot canvas").count() == 2
    assert "gfx942 ck-free 3" in (page.get_attribute(".plot", "aria-label") or "")
    assert "3.00 MB" in page.inner_text("main") and "12.3 kB" in page.inner_text("main")
    painted = page.evaluate(
        "() => { const canvas = document.querySelector('.plot canvas');"
        " const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        " return data.some((value, at) => at % 4 === 3 && value > 0); }"
    )
    assert painted
    picture(page, "sizes")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", ["desk", "phone"])
def test_each_view_at_each_width_is_whole_and_accessible(
    browser: Any, site: str, scheme: str, width: str
) -> None:
    size = PHONE if width == "phone" else {"width": 1280, "height": 860}
    # axe-core is put into the page past its policy, which the other tests leave in force
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True, locale="en-US")
    tab = Tab(context, site)
    axe = browser_folder() / "axe.min.js"
    for view in VIEWS:
        page = tab.go(view)
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (view, width)
        assert page.locator("h1").count() == 1
        picture(page, f"{view.replace('/', '-')}-{width}-{scheme}")
        if axe.is_file():
            page.evaluate(axe.read_text())
            found = page.evaluate(
                "axe.run({preload: false}).then((told) => told.violations.map((each) => [each.id, each.nodes[0].html]))"
            )
            assert found == [], (view, scheme, width)
    assert tab.said == []
    context.close()


def test_light_and_dark(browser: Any, site: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    for scheme, expected in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(16, 20, 24)")):
        context = browser.new_context(color_scheme=scheme, locale="en-US")
        page = Tab(context, site).go("operators")
        assert page.evaluate(ground) == expected
        page.click("#theme")
        other = page.evaluate(ground)
        assert other != expected
        page.reload()
        page.wait_for_selector("main h1")
        assert page.evaluate(ground) == other
        context.close()


def test_the_policy_is_in_force(browser: Any, site: str) -> None:
    context = browser.new_context(locale="en-US")
    tab = Tab(context, site)
    page = tab.go("operators")
    page.evaluate(
        "() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1'; document.body.append(one); }"
    )
    page.evaluate(
        "() => { const one = new Image(); one.src = 'https://example.invalid/x.png'; document.body.append(one); }"
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.ran") is None
    assert sum("Content Security Policy" in words for words in tab.said) == 2
    context.close()


def test_what_was_run_is_told(tab: Tab) -> None:
    page = tab.go("compatibility")
    told = page.inner_text("main tbody")
    for words in (
        "tests/unit",
        "python 3.12.1, torch 2.13.0",
        "a stub",
        "5 passed, 1 failed, 2 skipped (of 1 of 3 files)",
    ):
        assert words in told
