"""The documents of the page.

They are printed by verbs with ``--json``, and the page has nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt.contract import tuned_grammar
from build_tools.errors import SiteError

#: Verb -> the field that its document is known by. A page without the first ones would say nothing.
NEEDED: Final = {"coverage": "rows", "status": "kernels", "receipts": "receipts"}
#: Documents whose part of the page says that it is not there.
MORE: Final = {"modules": "modules", "shapes": "shapes", "compatibility": "runs"}
#: Where a document is not called by its verb.
_VERBS: Final = {"compatibility": "release compatibility"}
#: Of verbs' documents, as ``build_tools/verbs/output.py`` has it.
VERSION: Final = 1
#: What ``aiter-prebuilt bench --json`` says of itself.
BENCH: Final = "bench"
#: Types as JSON calls them.
_CALLED: Final = {str: "text", int: "number", list: "list", dict: "object"}
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")

#: Of each row of those, what the page takes, and what it is.
_ROWS: Final[Mapping[str, Mapping[type, tuple[str, ...]]]] = {
    "coverage": {
        str: ("operator", "category", "title", "status"), list: ("aiter_backends",), dict: ("cells", "reasons"),
    },
    "status": {
        str: ("operator", "kernel", "backend", "profile", "target", "state"), int: ("entries", "proved"), list: ("unproved",),
    },
    "receipts": {
        str: ("operator", "kernel", "variant", "target", "device", "checks", "recipe", "reference", "cases"),
        int: ("calls",), list: ("code_objects",), dict: ("tools",),
    },
    "modules": {str: ("name", "class", "status"), list: ("functions", "served_by")},
    "shapes": {
        str: (
            "model", "phase", "call", "client", "function", "layer", "arguments", "target", "state", "reason", "kernel",
            "variant", "backend",
        ),
        int: ("ranks", "tokens"),
    },
    "compatibility": {
        str: ("what", "device", "date"), int: ("passed", "failed", "skipped", "files", "of"), dict: ("with",),
    },
}  # fmt: skip

Documents = Mapping[str, Mapping[str, Any]]


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the documents in ``folder``, each as ``<verb>.json``.

    Raises:
        SiteError: one that is needed is not there, or a file is no document of its verb.
    """
    return {
        name: _document(folder / f"{name}.json", field)
        for name, field in {**NEEDED, **MORE}.items()
        if name in NEEDED or (folder / f"{name}.json").is_file()
    }


def _document(path: Path, field: str) -> dict[str, Any]:
    verb = _VERBS.get(path.stem, path.stem)
    asked, fix = f"read {path}", f"Write it: python -m build_tools {verb} --json > {path}"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SiteError(asked, str(error), fix) from error
    if not isinstance(told, dict) or told.get("version") != VERSION or not isinstance(told.get(field), list):
        raise SiteError(
            asked,
            f"it is no document of the verb {verb} of version {VERSION}",
            fix,
        )
    for place, row in enumerate(told[field]):
        wrong = _wrong(row, _ROWS[path.stem])
        if wrong:
            raise SiteError(asked, f"{field}[{place}] {wrong}", fix)
    return told


def _wrong(row: Any, wanted: Mapping[type, tuple[str, ...]]) -> str:
    """Describe why a row is invalid, or ""."""
    if not isinstance(row, dict):
        return f"is {json.dumps(row)[:40]}, no row"
    for kind, names in wanted.items():
        for name in names:
            if not isinstance(row.get(name), kind):
                return f"has no {name} that is a {_CALLED[kind]}"
    return ""


def times(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the results of ``aiter-prebuilt bench --json``, one per file.

    Raises:
        SiteError: a file is no such document.
    """
    found = []
    for path in paths:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            if told["verb"] != BENCH or told["version"] != VERSION:
                raise ValueError("it is of another verb or version")
            found.append(
                {
                    key: told[key]
                    for key in (
                        "operator",
                        "device",
                        "embedded",
                        "target",
                        "call",
                        "repeat",
                        "host_seconds",
                        "seconds",
                    )
                }
            )
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise SiteError(
                f"read the times in {path}",
                f"{type(error).__name__}: {error}",
                "Name files that aiter-prebuilt bench OPERATOR ... --json wrote",
            ) from error
    return found


def predicted(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the rows that ``tune --by-model`` wrote.

    Their times are a model's, a table an operator; a row of another source is left out.

    Raises:
        SiteError: a file is no table of tuned rows.
    """
    found: list[dict[str, Any]] = []
    for path in paths:
        asked, fix = f"read the predicted times in {path}", "Name a folder that tune --by-model wrote"
        try:
            table = tuned_grammar.read(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SiteError(asked, str(error), fix) from error
        for problem in table.problems:
            raise SiteError(asked, f"{problem.place}: {problem.text}", fix)
        names = [name for name, _ in table.symbols]
        for row in table.rows:
            if row.modelled and _NUMBER.fullmatch(row.us):
                call = {"types": row.types, "symbols": dict(zip(names, row.values, strict=True))}
                said = {"kernel": row.kernel, "variant": row.variant, "us": float(row.us)}
                found.append(
                    {"operator": path.stem, "target": row.target, "cus": row.cus, "call": call, **said}
                )
    return found


def prediction_errors(fitted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Summarise prediction errors of each family on a card, in percent.

    They are on measured rows that were not used for the fit.
    """
    return [
        {
            "family": name,
            "rows": family["rows"],
            **{key: family["held_out"][key] for key in ("median", "p90")},
        }
        for name, family in fitted["families"].items()
    ]
