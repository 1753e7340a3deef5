"""Writes the page: one HTML file, its style and programs, and the data as programs too, since a page that was opened from a disk
may load programs and nothing else. No file names another machine.
"""

from __future__ import annotations

import hashlib
import html
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from build_tools.errors import SiteError
from build_tools.files.reproducible import write_atomic
from build_tools.site import home, models, tables
from build_tools.site.documents import MORE, NEEDED, Documents

_HERE: Final = Path(__file__).resolve().parent
PAGE: Final = _HERE / "page"
VENDOR: Final = _HERE / "vendor"
#: Of the files of others, by their bytes: what is served is what was read.
PINS: Final = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "THIRD_PARTY.txt": "",
}
#: In the order in which they are loaded: each uses those before it. The order of the views is that of the tabs.
SCRIPTS: Final = (
    "core.js", "table.js", "home.js", "models.js", "operators.js", "operator.js", "modules.js", "sizes.js", "times.js",
    "compatibility.js", "pictures.js", "words.js", "main.js",
)  # fmt: skip
#: What is in a folder that this wrote, and in no other.
MARK: Final = "data/index.js"
#: Folder of the documentation site below the page.
DOCS: Final = "docs"
_ROOT: Final = _HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Content:
    """All of a page. ``records``: of releases, the oldest first; ``times``: what was measured; ``here``: is the last record of
    the bundles that the documents tell of? ``predicted``: times of a model, and ``errors``: how far it was off. ``links``: where
    documents and sources are; ``docs``: a folder of the documentation site, which becomes ``docs`` in the page's folder.
    """

    documents: Documents
    records: Sequence[Mapping[str, Any]]
    times: Sequence[Mapping[str, Any]]
    here: bool = False
    predicted: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Mapping[str, Any]] = ()
    links: home.Links = field(default_factory=home.Links)
    docs: Path | None = None


def write(folder: Path, content: Content) -> int:
    """Write the page into ``folder``, in place of one that is there; how many files.

    Raises:
        SiteError: the folder holds something else, or a file of others is not the one that is pinned.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise SiteError(f"write the page into {folder}", "it holds something else", "Name an empty folder")
    for name, pin in PINS.items():
        if pin and hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() != pin:
            raise SiteError(
                f"take the vendored {name}",
                "it is not the file that is pinned",
                f"Run: git checkout {VENDOR}",
            )
    for name in ("data", DOCS):
        shutil.rmtree(folder / name, ignore_errors=True)
    files = {name: (VENDOR / name).read_bytes() for name in PINS}
    files |= {name: (PAGE / name).read_bytes() for name in ("site.css", *SCRIPTS)}
    files |= {f"data/{name}.js": _script(name, value) for name, value in data(content).items()}
    files["index.html"] = _html(content).encode()
    for name, body in files.items():
        write_atomic(folder / name, body)
    if content.docs is None:
        return len(files)
    shutil.copytree(content.docs, folder / DOCS)
    return len(files) + sum(path.is_file() for path in (folder / DOCS).rglob("*"))


def data(content: Content) -> dict[str, Any]:
    """Name -> table, as the programs of the page ask for them."""
    documents = content.documents
    operators = tables.operators(documents)
    found: dict[str, Any] = {
        "index": {
            "operators": operators,
            "targets": sorted({cell[0] for row in operators for cell in row["cells"]}),
            "backends": sorted({cell[1] for row in operators for cell in row["cells"]}),
            "home": home.as_json(
                _ROOT, content.links, documents["receipts"]["receipts"], _wheels(content.records)
            ),
            "release": _release(content.records),
            "built": _built(content, operators),
            "here": content.here,
            "receipts": len(documents["receipts"]["receipts"]),
            "remarks": _remarks(documents),
            "models": models.overview(documents) if "shapes" in documents else None,
            "modules": [row["name"] for row in documents["modules"]["modules"]]
            if "modules" in documents
            else [],
            "has": _given(content),
        },
        "sizes": [
            {key: record[key] for key in ("release", "commit", "date", "wheels")}
            | {"bundles": [_without(row, "sources", "tools") for row in record["bundles"]]}
            for record in content.records
        ],
        "times": list(content.times),
        "predicted": {"rows": list(content.predicted), "errors": list(content.errors)},
    }
    if "modules" in documents:
        found["modules"] = tables.modules(documents)
    if "compatibility" in documents:
        found["compatibility"] = documents["compatibility"]
    if "shapes" in documents:
        found |= {f"model/{tables.file_of(name)}": page for name, page in models.pages(documents).items()}
    return found | {
        f"operator/{tables.file_of(name)}": page for name, page in tables.pages(documents).items()
    }


def _built(content: Content, operators: Sequence[Mapping[str, Any]]) -> list[int]:
    """Entries, and of them those with a receipt: as the bundles have them, which know of no kernels that share an entry."""
    if content.here:
        bundles = content.records[-1]["bundles"]
        return [sum(row[name] for row in bundles) for name in ("entries", "proved")]
    cells = [cell for row in operators for cell in row["cells"]]
    return [sum(cell[place] for cell in cells) for place in (3, 4)]


def _given(content: Content) -> list[str]:
    """Name the documents and views that have something to show: a view without rows has no tab."""
    fields = {**NEEDED, **MORE}
    views: dict[str, Sequence[Any]] = {name: found[fields[name]] for name, found in content.documents.items()}
    views |= {"sizes": content.records, "times": [*content.times, *content.predicted]}
    return sorted(name for name, rows in views.items() if rows)


def _wheels(records: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return records[-1]["wheels"] if records else ()


def _release(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {key: str(records[-1][key]) for key in ("release", "commit", "date")} if records else {}


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _remarks(documents: Documents) -> list[str]:
    """List remarks about the numbers.

    Bundles that are older than their sources, or hold a set only.
    """
    status = documents["status"]
    sets = [
        f"{name}: built with the {found} set of Composable Kernel's instances; the whole of it is tuned"
        for name, found in status.get("ck", {}).items()
        if found != "tuned"
    ]
    return [*(f"older than its sources: {words}" for words in status.get("stale", ())), *sets]


def _script(name: str, value: Any) -> bytes:
    """Write a table as a program that hands it over.

    ``<`` is written so that no text ends a script, wherever it is put.
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")
    return f"site.take({json.dumps(name)},{text});\n".encode()


def _html(content: Content) -> str:
    told = _release(content.records)
    release = html.escape(told.get("release", ""))
    at, _, dirty = told.get("commit", "").partition("-")
    commit = html.escape(at[:12] + (f"-{dirty}" if dirty else ""))
    scripts = "\n".join(f'<script src="{name}"></script>' for name in (SCRIPTS[0], MARK, *SCRIPTS[1:]))
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    for mark, words in (("{{release}}", release), ("{{commit}}", commit), ("{{scripts}}", scripts)):
        text = text.replace(mark, words)
    return text
