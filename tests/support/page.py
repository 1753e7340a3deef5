"""Documents as the verbs print them, small and made, for tests of the page: with names and notes that are markup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from build_tools.release import record
from build_tools.site.documents import VERSION
from build_tools.site.write import Content

HOSTILE: Final = "</script><img src=x onerror=alert(1)>\"'&"
TARGETS: Final = ("gfx942", "gfx950")
#: A run of tests, of a part of them.
COMPATIBLE: Final = {
    "what": "tests/unit", "with": {"python": "3.12.1", "torch": "2.13.0"}, "device": "a stub", "passed": 5, "failed": 1,
    "skipped": 2, "files": 1, "of": 3, "commit": "c" * 40, "date": "2026-11-26",
}  # fmt: skip
#: Longer than a line of a small phone.
LONG: Final = "a_function_whose_name_has_many_words_and_no_space"
#: Where receipts were made.
DEVICE: Final = "gfx942 of aiter-prebuilt-emulator 0.1.0"
#: Why no kernel takes a call.
REFUSED: Final = "made for M > 4"
#: More than one page of a table holds.
MANY: Final = 210
RECEIPTS: Final = 2500


def kernel(operator: str, target: str, state: str = "tested", backend: str = "triton") -> dict[str, Any]:
    """A line of the ledger."""
    built, proved = (0 if state == "source only" else 2), (2 if state == "tested" else 0)
    return {
        "family": "norm", "operator": operator, "kernel": f"{operator}_row", "backend": backend, "profile": "ck-free",
        "target": target, "entries": built, "proved": proved,
        "unproved": ["entry0", "entry1"] if state == "compiled" else [], "state": state,
    }  # fmt: skip


def row(operator: str, category: str = "norm", **more: Any) -> dict[str, Any]:
    """A row of the coverage."""
    return {
        "category": category, "title": f"Title of {operator}", "operator": operator, "aiter_backends": ["hip", "ck"],
        "cells": {}, "status": "proved", "reasons": {}, "family": "norm", "module": "module_norm",
        "summary": f"`{operator}` of rows", "signature": f"{operator}(x: torch.Tensor)",
        "arguments": [["x", "x: Tensor", "[M, N] bf16, rows may be `strided`"]], "results": ["New, contiguous: [M, N] bf16"],
        "sources": ["csrc/kernels/triton/norm.py", "aiter:csrc/kernels/norm.cu"], **more,
    }  # fmt: skip


def counted(rows: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> None:
    """Give each row the cells of its operator's kernels, which have an entry of their own each."""
    for told in rows:
        for one in kernels:
            if one["operator"] == told["operator"]:
                cell = {"kernels": 1, "entries": one["entries"], "proved": one["proved"]}
                told["cells"] = {**told["cells"], f"{one['backend']}/{one['target']}": cell}


def receipt(operator: str, place: int = 0, target: str = "gfx942") -> dict[str, Any]:
    """A receipt of a recipe."""
    return {
        "operator": operator, "family": "norm", "kernel": f"{operator}.{operator}_row", "variant": f"{place} T=bf16",
        "target": target, "device": DEVICE, "checks": "addresses, races", "calls": 3, "worst": 0.25,
        "code_objects": [f"{place:064x}"], "recipe": f"{place + 10**6:064x}", "reference": "ab" * 8, "cases": "cd" * 8,
        "tools": {"triton": "3.9.0"},
    }  # fmt: skip


def shape(model: str, function: str, tokens: int, target: str, **more: Any) -> dict[str, Any]:
    """A line of the shapes."""
    return {
        "model": model, "ranks": 1, "phase": "decode", "tokens": tokens, "call": f"vllm_{function}", "client": "vLLM 1",
        "function": function, "layer": "", "arguments": "bf16[1, 4096]", "target": target, "state": "chosen",
        "reason": "lowest cost 4096", "kernel": f"{function}_row", "variant": "4096", "backend": "triton",
        "profile": "ck-free", "cost": 4096, **more,
    }  # fmt: skip


def sums() -> list[dict[str, Any]]:
    """Sums of the shapes, as ``report shapes`` has them."""
    counts = {"gfx942": ([4, 5], [5, 5]), "gfx950": ([0, 1], [0, 1])}
    return [
        {"model": "A-Model", "engine": engine, "target": target, "steps": steps, "sizes": sizes}
        for engine in ("", "vllm", "sglang")
        for target, (steps, sizes) in counts.items()
    ]


def documents() -> dict[str, dict[str, Any]]:
    """Build the documents of all verbs that the page asks."""
    names = [f"operator_{place:03}" for place in range(MANY)]
    kernels = [kernel(name, target) for name in names for target in TARGETS]
    kernels += [kernel(HOSTILE, "gfx942", "compiled"), kernel("only_declared", "gfx950", "source only", "ck")]
    kernels += [kernel("half", "gfx942")]
    rows = [row(name) for name in names]
    rows += [
        row(HOSTILE, HOSTILE, summary=HOSTILE, title=HOSTILE, reasons={"gfx950": HOSTILE}),
        row("only_declared", "gemm"),
        row("lacking", "gemm", reasons={"gfx942": "nobody wrote it", "gfx950": "nobody wrote it"}),
        row("half", status="missing on gfx950", reasons={"gfx950": "nobody wrote it"}),
        row("half", "gemm", title="Another title of half", status="missing on gfx950"),
    ]
    counted(rows, kernels)
    # Of two kernels that one entry serves, the ledger has a line each, and the coverage counts the entry once.
    kernels += [kernel("half", "gfx942")]
    shapes = [
        shape("A-Model", "operator_000", 1, "gfx942"),
        shape("A-Model", "operator_000", 8, "gfx942", variant="8192"),
        shape("A-Model", "operator_000", 64, "gfx942", kernel="other_row"),
        shape("A-Model", "operator_000", 1, "gfx950", state="refused", kernel="", variant="", backend="", reason=REFUSED),
        shape("A-Model", HOSTILE, 1, "gfx942"),
        shape("A-Model", "tgemm.mm", 1, "gfx942", state="on the host", kernel="", variant="", backend=""),
    ]  # fmt: skip
    by = {"operator": "operator_000", "through": False, "lacks": [], "limited": []}
    place: dict[str, Any] = {
        "operator": "operator_000",
        "backend": "triton",
        "target": "gfx942",
        "kernels": {},
    }
    place |= {"entries": 2, "proved": 2, "state": "tested"}
    module = {
        "name": "module_norm", "class": "hip", "kinds": ["hip"], "status": "partly served", "reason": None, "third_party": [],
        "types": [], "functions": [
            {"name": "operator_000", "exported": True, "python": [], "by": [by], "reason": None},
            {"name": "nobody", "exported": True, "python": [], "by": [], "reason": HOSTILE},
            {"name": "long", "exported": True, "python": [], "by": [{**by, "operator": LONG}], "reason": None},
        ],
        "served_by": [place],
    }  # fmt: skip
    replaced = {
        **module,
        "name": "module_ranks",
        "status": "replaced",
        "reason": HOSTILE,
        "instead": ["CustomAllreduce"],
    }
    replaced["functions"] = [
        {"name": "all_reduce", "exported": True, "python": [], "by": [], "reason": HOSTILE}
    ]
    found: dict[str, dict[str, Any]] = {
        "coverage": {"rows": rows},
        "status": {"kernels": kernels, "unproved_entries": 2, "stale": [HOSTILE], "ck": {"gfx942-ck-full.apb": "sample"}},
        "receipts": {"receipts": [receipt("operator_000", place) for place in range(RECEIPTS)] + [receipt(HOSTILE)]},
        "shapes": {"shapes": shapes, "sums": sums()},
        "compatibility": {"runs": [COMPATIBLE]},
        "modules": {
            "tree": {"name": "aiter", "version": "0.1", "pinned": True}, "total": {}, "modules": [module, replaced],
            "functions": {"all": 2, "served": 1},
        },
    }  # fmt: skip
    return {name: {"version": VERSION, **told} for name, told in found.items()}


def release(version: str, size: int) -> dict[str, Any]:
    """The record of a release with one bundle."""
    bundle = {
        "target": "gfx942", "profile": "ck-free", "sha256": "0" * 64, "bytes": size, "raw_bytes": 20 * size, "code_objects": 3,
        "entries": size // 1000, "proved": 2, "ck": None, "tools": {}, "sources": {},
    }  # fmt: skip
    return {
        "edition": record.EDITION, "release": version, "commit": "c" * 40, "date": "2026-01-01T00:00:00Z", "bundles": [bundle],
        "wheels": [{"file": "aiter_prebuilt-0.1.0-py3-none-any.whl", "bytes": 12345, "sha256": "f" * 64}], "operators": [],
    }  # fmt: skip


def time(embedded: bool = False) -> dict[str, Any]:
    """Build the document of one benchmark."""
    call = {"types": {"T": "bf16"}, "symbols": {"M": 4}, "absent": []}
    return {
        "operator": "operator_000", "device": "an MI300X", "embedded": embedded, "target": "gfx942", "call": call, "repeat": 10,
        "host_seconds": 1e-6, "seconds": 5e-6,
    }  # fmt: skip


def predicted() -> dict[str, Any]:
    """Build a row of a table of tune --by-model."""
    return {
        "operator": "operator_000", "target": "gfx950", "cus": 256, "call": {"types": "bf16", "symbols": {"M": 4, "N": 64}},
        "kernel": "operator_000_row", "variant": "4096", "us": 7.25,
    }  # fmt: skip


def content() -> Content:
    """All of a page."""
    return Content(
        documents(),
        [release("0.1.0", 1_000_000), release("0.2.0", 3_000_000)],
        [time(), time(True)],
        False,
        [predicted()],
        [{"family": "f4gemm gfx950 256", "rows": 1414, "median": 6.1, "p90": 22.1}],
    )


def written(folder: Path) -> Path:
    """Every document in ``folder`` as a verb's file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, told in documents().items():
        (folder / f"{name}.json").write_text(json.dumps(told))
    return folder
