"""From documents of verbs to the tables of the page: what a view shows, in few bytes. What few open is a file of its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from build_tools.site.documents import Documents

#: The ledger's words and the page's: what a receipt proved, what was compiled, what the manifests name.
STATES: Final = {"tested": "proved", "compiled": "built", "source only": "declared"}
_ORDER: Final = ("proved", "built", "declared")
#: What the coverage says of an operator that only its own page shows, and the value if it says nothing.
_DESCRIBED: Final[Mapping[str, Any]] = {"signature": "", "arguments": [], "results": [], "sources": []}
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


def file_of(name: str) -> str:
    """Return a file name for any name.

    Itself where that is safe everywhere, else its hash.
    """
    return name if _PLAIN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:24]


def operators(documents: Documents) -> list[dict[str, Any]]:
    """List the operators' rows.

    An operator has one row, the first of AITER's list. ``cells``: [target, backend, state, entries, proved]: the coverage's,
    which has an entry once; of a place that it does not count, such as another target, the status's, where an entry stands once
    for each kernel that it serves.
    """
    ledger: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    for row in documents["status"]["kernels"]:
        mine = ledger.setdefault(row["operator"], {})
        mine.setdefault((row["target"], row["backend"]), []).append(row)
    found: dict[str, dict[str, Any]] = {}
    for row in documents["coverage"]["rows"]:
        cells = {place: _cell(*place, rows) for place, rows in ledger.get(row["operator"], {}).items()}
        cells |= {tuple(cell[:2]): cell for cell in _counted(row)}
        every = [cells[place] for place in sorted(cells)]
        found.setdefault(
            row["operator"],
            {
                "name": row["operator"],
                "file": file_of(row["operator"]),
                "category": row["category"],
                "title": row["title"],
                "family": row.get("family", ""),
                "module": row.get("module", ""),
                "summary": row.get("summary", ""),
                "aiter": row["aiter_backends"],
                "reasons": row["reasons"],
                "cells": every,
                "state": _state(every, row["status"]),
            },
        )
    return [found[name] for name in sorted(found)]


def _counted(row: Mapping[str, Any]) -> Iterable[list[Any]]:
    for place, cell in row["cells"].items():
        backend, _, target = place.partition("/")
        entries, proved = cell["entries"], cell["proved"]
        state = _ORDER[-1] if not entries else _ORDER[0] if proved == entries else _ORDER[1]
        yield [target, backend, state, entries, proved]


def _cell(target: str, backend: str, kernels: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the worst state of the built kernels.

    Kernels of a set that this build left out do not hide the others.
    """
    states = {STATES[row["state"]] for row in kernels}
    built = [state for state in _ORDER[:2] if state in states]
    state = built[-1] if built else _ORDER[-1]
    return [
        target,
        backend,
        state,
        sum(row["entries"] for row in kernels),
        sum(row["proved"] for row in kernels),
    ]


def _state(cells: Sequence[Sequence[Any]], status: str) -> str:
    """Return the worst state of the built entries.

    The coverage's own words where these know more: a target without it, an unproved entry.
    """
    found = {cell[2] for cell in cells}
    built = [state for state in _ORDER[:2] if state in found]
    if not built:
        return _ORDER[-1] if found else "missing"
    more = status.startswith("missing") or (built[-1] == _ORDER[0] and status != _ORDER[0])
    return status if more else built[-1]


def pages(documents: Documents) -> dict[str, dict[str, Any]]:
    """Return, for each operator, what only its own page shows: arguments, kernels, receipts, and the models that call it."""
    kernels: dict[str, list[list[Any]]] = {}
    for row in documents["status"]["kernels"]:
        kernels.setdefault(row["operator"], []).append(
            [
                row["kernel"],
                row["backend"],
                row["profile"],
                row["target"],
                STATES[row["state"]],
                row["entries"],
                row["proved"],
                row["unproved"],
            ]
        )
    receipts: dict[str, list[Mapping[str, Any]]] = {}
    for row in documents["receipts"]["receipts"]:
        receipts.setdefault(row["operator"], []).append(row)
    callers = _callers(documents.get("shapes", {}).get("shapes", ()))
    described = {row["operator"]: row for row in documents["coverage"]["rows"]}
    names = {row["operator"] for row in documents["coverage"]["rows"]} | set(kernels) | set(receipts)
    return {
        name: {
            "kernels": kernels.get(name, []),
            **{key: described.get(name, {}).get(key, empty) for key, empty in _DESCRIBED.items()},
            **_receipts(receipts.get(name, ())),
            "models": callers.get(name, []),
        }
        for name in sorted(names)
    }


def _receipts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """``receipts``: [kernel, variant, target, device, checks, calls, worst, code objects, recipe, reference, cases, tools], where
    device, checks and tools are places in ``said``.
    """
    said: dict[str, int] = {}

    def place(words: str) -> int:
        return said.setdefault(words, len(said))

    table = [
        [
            row["kernel"].partition(".")[2] or row["kernel"],
            row["variant"],
            row["target"],
            place(row["device"]),
            place(row["checks"]),
            row["calls"],
            row["worst"],
            row["code_objects"],
            row["recipe"],
            row["reference"],
            row["cases"],
            place(", ".join(f"{name} {version}" for name, version in row["tools"].items())),
        ]
        for row in rows
    ]
    return {"receipts": table, "said": list(said)}


def _callers(shapes: Iterable[Mapping[str, Any]]) -> dict[str, list[list[Any]]]:
    """Map each function to its models and counts.

    Function -> [model, shapes asked, of them served].
    """
    counts: dict[tuple[str, str], list[int]] = {}
    for row in shapes:
        mine = counts.setdefault((row["function"], row["model"]), [0, 0])
        mine[0] += 1
        mine[1] += row["state"] in ("chosen", "on the host")
    found: dict[str, list[list[Any]]] = {}
    for (function, model), (asked, served) in counts.items():
        found.setdefault(function, []).append([model, asked, served])
    return found


def modules(documents: Documents) -> dict[str, Any]:
    """AITER's modules: the verb's own rows, without what no view shows."""
    told = documents["modules"]
    rows = [
        {
            "name": row["name"],
            "class": row["class"],
            "status": row["status"],
            "reason": row["reason"] or "",
            "instead": row.get("instead", []),
            "functions": [
                [each["name"], [by["operator"] for by in each["by"]], each["reason"] or ""]
                for each in row["functions"]
            ],
            "places": [
                [
                    place["operator"],
                    place["backend"],
                    place["target"],
                    STATES[place["state"]],
                    place["entries"],
                ]
                for place in row["served_by"]
            ],
        }
        for row in told["modules"]
    ]
    return {"tree": told["tree"], "total": told["total"], "functions": told["functions"], "modules": rows}
