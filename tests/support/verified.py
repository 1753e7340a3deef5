"""An operator whose kernel is a real one, right as it is: what ``verify`` says nothing of."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from aiter_prebuilt.contract.records import ARG_FLOAT, ARG_INT, ARG_TENSOR, Arg, Entry, Operator, Step
from support.bundles import code, small_operator

IMAGE = (Path(__file__).resolve().parents[1] / "data" / "codeobjects" / "scale_gfx942.co").read_bytes()
ARGS = (
    Arg(ARG_TENSOR, 8, 0, 0, b""),
    Arg(ARG_TENSOR, 8, 8, 1, b""),
    Arg(ARG_INT, 4, 16, 0, code("N")),
    Arg(ARG_FLOAT, 4, 20, 0, b""),
)
STEP = Step(0, 24, 64, 1, 1, code("M"), b"", b"", b"", ARGS)


def operator(step: Step = STEP, **entry: object) -> Operator:
    """An operator with one recipe of the real kernel ``scale``, which is compiled for blocks of 64 threads."""
    made = small_operator("scale")
    facts: dict[str, object] = {
        "symbol": "scale", "kernarg_size": 24, "max_threads": 64, "sha256": hashlib.sha256(IMAGE).digest(),
    }  # fmt: skip
    known: Entry = replace(made.entries[0], **(facts | entry))  # type: ignore[arg-type]
    return replace(made, entries=(known,), recipes=(replace(made.recipes[0], steps=(step,)),))
