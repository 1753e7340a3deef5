"""The home of the status page: GPUs and the lines to type, the status, documents, words, timings."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support import page, sessions

from aiter_prebuilt.contract import products
from build_tools.__main__ import cli
from build_tools.errors import SiteError
from build_tools.site import home, write
from build_tools.verbs import site as verb

ROOT = Path(__file__).resolve().parents[2]
#: Pages that tell users what to type.
PAGES = ("README.md", "docs/quickstart.md", "docs/server.md", "docs/troubleshooting.md")


def told(links: home.Links | None = None) -> dict[str, Any]:
    return home.as_json(ROOT, links or home.Links(), page.documents()["receipts"]["receipts"], [])


def test_each_product_is_one_that_the_command_knows() -> None:
    for target, (names, extra) in home.PRODUCTS.items():
        assert {products.target_of(name) for name in names} == {target}
        assert f'extra = "{extra}"' in (ROOT / "manifests/targets.toml").read_text()
    listed = {name.lower() for names, _ in home.PRODUCTS.values() for name in names}
    amd = {name for name, target in products.PRODUCTS.items() if target in home.PRODUCTS}
    assert amd - listed == {"mi300", "mi350"}  # series, not products


@pytest.mark.parametrize("use", home.COMMANDS)
@pytest.mark.parametrize("extra", ["gfx942", "gfx950"])
def test_each_line_to_type_is_one_of_the_pages(use: str, extra: str) -> None:
    pages = (
        "\n".join((ROOT / name).read_text() for name in PAGES)
        .replace("gfx942", extra)
        .replace("gfx950", extra)
    )
    for line in home.COMMANDS[use]:
        typed = line.replace("EXTRA", extra)
        # README writes the line with more extras, and in words which one is enough for Python
        assert typed in pages or (
            use == "Python" and typed.replace(f"[{extra}]", f"[{extra},bridge]") in pages
        ), line
    assert home.BUILD in pages


def test_wheel_sizes_come_from_the_record() -> None:
    wheels = [{"file": "aiter_prebuilt_gfx950-0.1.0-py3-none-any.whl", "bytes": 7}]
    assert [(row["extra"], row["bytes"]) for row in home.picker(wheels)] == [
        ("gfx942", 0),
        ("gfx950", 7),
        ("emulator", 0),
    ]


def test_devices_of_receipts_are_cards_or_emulated() -> None:
    rows = [
        page.receipt("a"),
        page.receipt("b"),
        {**page.receipt("c", target="sm_90"), "device": "NVIDIA H100"},
    ]
    assert home.devices(rows) == [["gfx942", True, 2], ["sm_90", False, 1]]
    card = {**page.receipt("d"), "device": "AMD Instinct MI300X"}
    assert home.devices([*rows, card])[0] == ["gfx942", False, 1]


def test_documents_are_the_menu_of_the_documentation_site() -> None:
    groups = told(home.Links("docs/", ".html"))["documents"]
    listed = {link for group in groups for _, link in group["pages"]}
    menu = set(
        re.findall(r"- (?:[^:\n]+: )?((?!project/|index)[a-z0-9/_-]+)\.md", (ROOT / "mkdocs.yml").read_text())
    )
    assert listed == {f"docs/{name}.html" for name in menu}
    for group in groups:
        for title, link in group["pages"]:
            source = ROOT / link.removesuffix(".html")
            assert source.with_suffix(".md").is_file() and title and "`" not in title
    assert told()["documents"] == []


def test_words_are_the_glossary() -> None:
    found = dict(told()["words"])
    text = (ROOT / "docs/glossary.md").read_text()
    assert len(found) == text.count("\n| ") - 1 and "receipt" in found
    assert not any("](" in each for row in found.items() for each in row)


def test_timings_are_those_of_the_page_on_performance() -> None:
    text = (ROOT / "docs/performance.md").read_text()
    drawn = told()["timings"]
    assert len(drawn) == 2
    for figure in drawn:
        assert f"## {figure['title']}\n" in text and len(figure["rows"]) >= 3
        for label, least, most in figure["rows"]:
            value = f"{least:,g}" if least == most else f"{least:,g} to {most:,g}"
            assert f"| {label} | {value} |" in text
            assert 0 < least <= most


def test_a_page_without_the_drawn_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/performance.md").write_text("# What calls cost\n\n## One call\n\nNo table.\n")
    with pytest.raises(SiteError, match="One call"):
        home.timings(tmp_path)
    with pytest.raises(SiteError, match="glossary"):
        home.words(tmp_path)


def test_the_documentation_site_is_copied_below_the_page(tmp_path: Path) -> None:
    docs, out = tmp_path / "site-docs", tmp_path / "out"
    docs.mkdir()
    (docs / "quickstart.html").write_text("<p>Quickstart</p>")
    words = ["site", str(out), "--documents", str(page.written(tmp_path / "documents")), "--docs", str(docs)]
    words += ["--bundles", str(tmp_path / "none"), "--sources", "https://host.example/tree"]
    for _ in range(2):
        done = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert done.exit_code == 0
        assert (out / write.DOCS / "quickstart.html").read_text() == "<p>Quickstart</p>"
    index = (out / "data/index.js").read_text()
    assert '"docs/quickstart.html"' in index and "https://host.example/tree/" in index
    shutil.rmtree(docs)
    again = CliRunner().invoke(cli, words[:4] + words[6:], catch_exceptions=False)
    assert again.exit_code == 0 and not (out / write.DOCS).exists()


@pytest.mark.parametrize(("folder", "linked"), [("site-docs", ["../index.html"]), ("docs", [])])
def test_the_documentation_below_the_page_links_back(
    monkeypatch: pytest.MonkeyPatch, folder: str, linked: list[str]
) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: nox -s docs")
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    hooks = importlib.import_module("docs_hooks")
    nav = SimpleNamespace(items=[])
    hooks.on_nav(nav, config=SimpleNamespace(site_dir=f"/somewhere/{folder}"), files=[])
    assert [each.url for each in nav.items] == linked
    assert f'BUILD / "{hooks.BELOW_STATUS_PAGE}"' in sessions.text()


def test_links_lead_into_the_checkout_where_the_page_lies_in_it(tmp_path: Path) -> None:
    inside = verb._links(ROOT / "build" / "site", None, "")
    assert inside == home.Links("../../docs/", ".md", "../../")
    assert verb._links(tmp_path, None, "") == home.Links()
    assert verb._links(tmp_path, tmp_path, "https://host.example/tree/") == home.Links(
        "docs/", ".html", "https://host.example/tree/"
    )


def test_each_part_of_the_page_is_named_while_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with verb._step("coverage"):
        pass
    assert re.fullmatch(r"coverage \.\.\. \d+\.\d s\n", capsys.readouterr().err)


def test_a_view_without_rows_has_no_tab() -> None:
    full = write.data(page.content())["index"]["has"]
    assert {"sizes", "times", "shapes", "modules", "compatibility"} <= set(full)
    bare = page.content()
    documents = {name: bare.documents[name] for name in ("coverage", "status", "receipts")}
    has = write.data(write.Content(documents, [], []))["index"]["has"]
    assert has == ["coverage", "receipts", "status"]
    empty = {**bare.documents, "compatibility": {"version": 1, "runs": []}}
    assert "compatibility" not in write.data(write.Content(empty, [], []))["index"]["has"]


def test_what_the_home_loads_is_small(tmp_path: Path) -> None:
    """The plots' library and the tables of single operators are loaded by the views that need them."""
    write.write(tmp_path, page.content())
    text = (tmp_path / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^":#]+\.(?:js|css))"', text)
    assert "site.css" in loaded and not any("uPlot" in name for name in loaded)
    programs = sum((tmp_path / name).stat().st_size for name in loaded if name != write.MARK)
    assert programs < 90_000
