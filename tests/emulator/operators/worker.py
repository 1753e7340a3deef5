"""Run cases and write one JSON line each: ``python -m emulator.operators.worker TARGET PROFILE SEED``.

Each case runs in a fork of this process, which has opened no driver: a fault makes the device of its process unusable, as
on a card, and must not touch the next case. The environment names the library (``AITER_PREBUILT_HIP``), the bundles and the
devices; device 0 has the target's usual number of compute units, the others the numbers that some cases ask for.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from emulator.operators import caches, products, rows
from emulator.operators.tensors import Case, Maker

import aiter_prebuilt_emulator
from aiter_prebuilt import device, dispatch

UNITS = {"gfx942": 304, "gfx950": 256}
#: Numbers of compute units that the cases ask for; 0 is the target's own.
CUS = (0, 1, 2, 4, 8, 16)


def devices(target: str) -> str:
    """``AITER_PREBUILT_EMULATOR`` with one device for every number in :data:`CUS`."""
    return ",".join(f"{target}:cus={cus or UNITS[target]}" for cus in CUS)


def cases(profile: str) -> Iterator[Case]:
    """All cases that run with the bundles of ``profile``; ck-full only what ck-free has not shown already."""
    for swap in (False, True):
        for case in chain(rows.cases(swap), products.cases(swap), caches.cases(swap)):
            if profile in case.profiles:
                yield case


def run(case: Case, target: str, seed: int) -> dict[str, Any]:
    """One case: what was chosen, how far off, and everything that is wrong."""
    torch.manual_seed(seed)
    ordinal = CUS.index(case.cus)
    call = case.build(Maker(target, ordinal))
    operator = dispatch.operator(case.operator)
    facts = device.facts("amd", ordinal)
    raws = [tensor and tensor.raw for tensor in call.tensors]
    bundles = dispatch.bundles_of(target, str(facts))
    chosen = [
        row
        for row in operator.explain(bundles, facts.compute_units, raws, list(call.attributes))
        if row["chosen"]
    ]
    problems = [] if len(chosen) == 1 else [f"explain chose {len(chosen)} candidates"]
    started = time.perf_counter()
    operator(*raws, *call.attributes, stream=0)
    seconds = time.perf_counter() - started
    worst = 0.0
    for name, (ratio, wrong) in call.check().items():
        worst = max(worst, ratio)
        if wrong or not ratio <= 1:
            problems.append(f"{name}: {ratio:.3g} times its bound {wrong}")
    outputs = [tensor for tensor in call.outputs if tensor]
    problems += [
        f"output {place}: padding was written"
        for place, tensor in enumerate(outputs)
        if not tensor.padding_untouched()
    ]
    inputs = [tensor for tensor in call.tensors if tensor and tensor not in outputs]
    problems += [
        f"input {place} was written" for place, tensor in enumerate(inputs) if not tensor.untouched()
    ]
    row = chosen[0] if chosen else {}
    return {
        "device": f"{target} of aiter-prebuilt-emulator {aiter_prebuilt_emulator.VERSION}",
        "kernel": row.get("kernel"),
        "variant": row.get("variant"),
        "backend": row.get("backend"),
        "launched": [step["sha256"] for step in row.get("steps", ()) if 0 not in step["grid"]],
        "worst": worst,
        "seconds": round(seconds, 4),
        "problems": problems,
    }


def forked(case: Case, target: str, seed: int) -> dict[str, Any]:
    """:func:`run` in a child; whatever ends the child is one more problem."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            line = run(case, target, seed)
        except Exception as error:  # noqa: BLE001  # it is what the line reports
            line = {"problems": [f"{type(error).__name__}: {error}"[:2000]]}
        with os.fdopen(writer, "w") as pipe:
            json.dump(line, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    found: dict[str, Any] = (
        json.loads(text) if text else {"problems": [f"the process ended with status {status}"]}
    )
    return {"operator": case.operator, "label": case.label, **found}


def main(words: list[str]) -> int:
    """Run them all; 0 whatever they show, for the lines say it."""
    target, profile, seed = words[0], words[1], int(words[2])
    torch.set_num_threads(1)
    for case in cases(profile):
        print(json.dumps(forked(case, target, seed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
