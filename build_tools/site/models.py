"""The models' part of the page: which kernel each call of each model's steps chooses, runs of sizes that choose alike as one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from build_tools.site.documents import Documents
from build_tools.site.tables import file_of

#: What tells one call of a model from another; its sizes are runs below it.
_CALL = ("client", "call", "function", "layer", "phase", "ranks")


def overview(documents: Documents) -> list[dict[str, Any]]:
    """Return a row for each model, with the sums that ``report shapes`` counted.

    ``sums``: target -> engine, "" for all calls -> ``steps`` and ``sizes``, each [served, calls].
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in documents["shapes"]["sums"]:
        mine = found.setdefault(row["model"], {}).setdefault(row["target"], {})
        mine[row["engine"]] = {"steps": row["steps"], "sizes": row["sizes"]}
    return [{"name": name, "file": file_of(name), "sums": sums} for name, sums in found.items()]


def pages(documents: Documents) -> dict[str, dict[str, Any]]:
    """Model -> its calls: [client, call, function, layer, phase, ranks, runs], where a run is
    [target, first tokens, last tokens, state, backend, kernel, variants, reason, arguments, proved]. Texts are places in
    ``said``; proved: every entry of the kernel on the target has a receipt, as the status says.
    """
    states: dict[tuple[str, str], set[str]] = {}
    for kernel in documents["status"]["kernels"]:
        states.setdefault((kernel["kernel"], kernel["target"]), set()).add(kernel["state"])
    # A kernel may stand there once for each operator and profile: what was not built was not chosen either.
    proved = {place for place, found in states.items() if found - {"source only"} == {"tested"}}
    models: dict[str, dict[tuple[Any, ...], list[Mapping[str, Any]]]] = {}
    for row in documents["shapes"]["shapes"]:
        key = tuple(row[name] for name in _CALL)
        models.setdefault(row["model"], {}).setdefault(key, []).append(row)
    return {name: _page(calls, proved) for name, calls in models.items()}


def _page(
    calls: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]], proved: Collection[tuple[str, str]]
) -> dict[str, Any]:
    said: dict[str, int] = {}

    def place(words: str) -> int:
        return said.setdefault(words, len(said))

    rows = []
    for (client, call, function, layer, phase, ranks), mine in calls.items():
        texts = [place(words) for words in (client, call, function, layer, phase)]
        rows.append([*texts, ranks, [_run(run, place, proved) for run in _runs(mine)]])
    return {"calls": rows, "said": list(said)}


def _runs(rows: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Sizes one after the other that the same kernel serves, or that the same keeps from it."""
    found: list[list[Mapping[str, Any]]] = []
    for row in sorted(rows, key=lambda each: (each["target"], each["tokens"])):
        if found and _alike(found[-1][-1]) == _alike(row):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _alike(row: Mapping[str, Any]) -> tuple[Any, ...]:
    why = "" if row["kernel"] else row["reason"]
    return (row["target"], row["state"], row["backend"], row["kernel"], why)


def _run(rows: Sequence[Mapping[str, Any]], place: Any, proved: Collection[tuple[str, str]]) -> list[Any]:
    first, last = rows[0], rows[-1]
    variants = " · ".join(dict.fromkeys(row["variant"] for row in rows if row["variant"]))
    return [
        place(first["target"]),
        first["tokens"],
        last["tokens"],
        place(first["state"]),
        place(first["backend"]),
        place(first["kernel"]),
        place(variants),
        place(first["reason"]),
        place(first["arguments"]),
        (first["kernel"], first["target"]) in proved,
    ]
