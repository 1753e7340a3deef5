"""The home of the page: status, GPUs with the line to type, documents, words. Each fact is read from the file that owns it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from build_tools.errors import SiteError

#: Target -> the products that have it, as ``aiter_prebuilt.contract.products`` reads them, and the extra of their wheel.
PRODUCTS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "gfx942": (("MI300X", "MI300A", "MI308X", "MI325X"), "gfx942"),
    "gfx950": (("MI350X", "MI355X"), "gfx950"),
}
#: The one command that builds the wheels; then, for each use of them, the lines to type. EXTRA: the wheel's extra.
BUILD: Final = "python3 -m pip install -r build_tools/locks/nox.txt && python3 -m nox -s demo"
_INSTALL: Final = "pip install --no-index --find-links dist 'aiter-prebuilt[{}]'"
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "vLLM": (
        _INSTALL.format("EXTRA,bridge"),
        "aiter-prebuilt doctor",
        "AITER_PREBUILT_BRIDGE=strict VLLM_ROCM_USE_AITER=1 vllm serve MODEL",
    ),
    "SGLang": (
        _INSTALL.format("EXTRA,bridge"),
        "aiter-prebuilt doctor",
        "AITER_PREBUILT_BRIDGE=strict SGLANG_USE_AITER=1 python -m sglang.launch_server --model-path MODEL",
    ),
    "Python": (_INSTALL.format("EXTRA"), "aiter-prebuilt doctor", "aiter-prebuilt preload"),
    "Emulator": (
        _INSTALL.format("EXTRA,emulator"),
        "aiter-prebuilt-emulator run --devices EXTRA -- aiter-prebuilt bench rms_norm M=7 N=2880 --counters",
    ),
}
#: Extra of the wheel that executes kernels without a GPU.
EMULATOR: Final = "emulator"
#: In a receipt's device, if it was not a card.
EMULATED: Final = "aiter-prebuilt-emulator"
_NAV_GROUP: Final = re.compile(r"  - (?P<title>[^:]+):\s*$")
_NAV_PAGE: Final = re.compile(r"      - (?:(?P<title>[^:]+): )?(?P<page>[a-z0-9/_-]+\.md)\s*$")
_HEADING: Final = re.compile(r"^# (.+)$", re.MULTILINE)
_TABLE_ROW: Final = re.compile(r"^\| ([^|]+) \| (.+) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_FIGURES: Final = re.compile(r"^## (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_FIGURE_ROW: Final = re.compile(
    r"^\| ([^|]+) \| ([\d.,]+)(?: to ([\d.,]+))?(?: ?(ns|us|ms))?(?:,[^|]*)? \|$", re.MULTILINE
)
_UNIT: Final = re.compile(r"^\| [^|]*\| (ns|us|ms) \|$", re.MULTILINE)
#: Headings of ``docs/performance.md`` whose first table the page draws.
_DRAWN: Final = ("One call", "End to end on an NVIDIA card")
#: Pages of the site that are files outside of ``docs`` (``ci/docs_hooks.py``): only the documentation site has them.
_OUTSIDE: Final = "project/"


@dataclass(frozen=True, slots=True)
class Links:
    """Targets of the page's links. ``docs``: prefix of a documentation page; ``suffix``: its ending, ``.html`` or ``.md``;
    ``sources``: prefix of a file of the repository, "" if the page has no link to it.
    """

    docs: str = ""
    suffix: str = ".md"
    sources: str = ""


def as_json(
    root: Path, links: Links, receipts: Iterable[Mapping[str, Any]], wheels: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the data of the home.

    Args:
        root: the repository.
        links: where documents and sources are.
        receipts: rows of the verb ``receipts``.
        wheels: rows of a release's record, for their sizes; none when no wheels are known.

    Raises:
        SiteError: a file that the home is made of cannot be read.
    """
    return {
        "picker": picker(wheels),
        "build": BUILD,
        "commands": {use: list(lines) for use, lines in COMMANDS.items()},
        "devices": devices(receipts),
        "documents": documents(root, links) if links.docs else [],
        "sources": links.sources,
        "words": words(root),
        "timings": timings(root),
    }


def picker(wheels: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each kind of GPU: products, target, extra, and the size of its wheel in bytes, 0 if that is unknown."""
    sizes = {row["file"].partition("-")[0]: row["bytes"] for row in wheels}
    rows = [
        {"products": list(products), "target": target, "extra": extra, "bytes": _size(sizes, extra)}
        for target, (products, extra) in PRODUCTS.items()
    ]
    return [*rows, {"products": [], "target": "", "extra": EMULATOR, "bytes": _size(sizes, EMULATOR)}]


def _size(sizes: Mapping[str, int], extra: str) -> int:
    return sizes.get(f"aiter_prebuilt_{extra.replace('-', '_')}", 0)


def devices(receipts: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Return [target, is it an emulated device, receipts] for each target and kind of device."""
    counts: dict[tuple[str, bool], int] = {}
    for row in receipts:
        key = (row["target"], EMULATED in row["device"])
        counts[key] = counts.get(key, 0) + 1
    return [[target, emulated, count] for (target, emulated), count in sorted(counts.items())]


def documents(root: Path, links: Links) -> list[dict[str, Any]]:
    """Return the groups of the documentation's menu (``mkdocs.yml``), each with its pages' titles and links."""
    groups: list[dict[str, Any]] = []
    for line in _read(root / "mkdocs.yml").splitlines():
        if found := _NAV_GROUP.match(line):
            groups.append({"title": found["title"], "pages": []})
        elif groups and (found := _NAV_PAGE.match(line)):
            page = found["page"]
            if not page.startswith(_OUTSIDE):
                title = found["title"] or _title(root / "docs" / page)
                groups[-1]["pages"].append([title, links.docs + page.removesuffix(".md") + links.suffix])
    return [group for group in groups if group["pages"]]


def _title(page: Path) -> str:
    found = _HEADING.search(_read(page))
    return found[1].replace("`", "") if found else page.stem


def words(root: Path) -> list[list[str]]:
    """Return the glossary's rows: word and meaning."""
    rows: Sequence[tuple[str, str]] = _TABLE_ROW.findall(_read(root / "docs" / "glossary.md"))
    return [
        [_LINK.sub(r"\1", text.strip()) for text in row]
        for row in rows
        if row[0].strip() != "Word" and not row[0].startswith("-")
    ]


def timings(root: Path) -> list[dict[str, Any]]:
    """Return the figures of ``docs/performance.md`` that the page draws: title, unit, and rows of [label, least, most].

    Raises:
        SiteError: a heading, or its table, is not there.
    """
    path = root / "docs" / "performance.md"
    sections = {found["title"]: found["text"] for found in _FIGURES.finditer(_read(path))}
    drawn = []
    for title in _DRAWN:
        text = sections.get(title, "")
        unit, rows = _UNIT.search(text), _FIGURE_ROW.findall(text)
        if unit is None or not rows:
            raise SiteError(
                f"draw the timings of {title!r}",
                f"{path} has no such table",
                "Correct build_tools/site/home.py",
            )
        bars = [[_plain(label), _number(least), _number(most or least)] for label, least, most, _ in rows]
        drawn.append({"title": title, "unit": unit[1], "rows": bars})
    return drawn


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", text).strip()


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SiteError(f"read {path}", str(error), f"Run: git checkout {path}") from error
