"""A step of a model's layer on the stub driver, with marks in the trace around it. Run by ``test_first_request.py``.

    python -m promises.first_request STUB EXCHANGE MODEL TARGET WHAT

WHAT: "all", "names" (of the functions that the layer calls) or "nothing" is loaded before the step.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch

import aiter_prebuilt

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "benchmarks")]
#: Asking for it is a system call with a name, which the trace has.
BEGINS: Final = "/the-first-request-begins"
ENDS: Final = "/the-first-request-ends"


def main() -> int:
    stub, exchange, model, target, what = sys.argv[1:]
    driver = ctypes.CDLL(stub)
    driver.stub_set_arch(f"{target}:sramecc+:xnack-".encode())
    rebadge: Any = import_module("host_cost").rebadge
    table = rebadge(exchange)
    setattr(torch.Tensor, "target", target)  # noqa: B010  # as examples/embedded.py does
    torch.set_num_threads(1)
    module = import_module(model)
    with torch.inference_mode():
        step = import_module("step")
        described, random = module.MODEL, torch.Generator().manual_seed(0)
        prompts = len(described.prompts)
        longest = max(described.prompts) + 1
        sequences = step.Sequences(prompts, longest, described.page)
        layer = described.layer(described.weights(random, 0), sequences.stored, longest)
        first, second = (
            (described.added(random, tokens), described.states(random, tokens), sequences.step(each))
            for tokens, each in ((sum(described.prompts), described.prompts), (prompts, [1] * prompts))
        )
        if what == "all":
            aiter_prebuilt.preload()
        elif what == "names":
            aiter_prebuilt.preload(*called(Path(module.__file__ or "")))
        before = driver.stub_load_attempts(), driver.stub_launches()
        os.access(BEGINS, os.F_OK)
        layer(*first)
        layer(*second)
        os.access(ENDS, os.F_OK)
        loads, launches = driver.stub_load_attempts() - before[0], driver.stub_launches() - before[1]
    print(json.dumps({"loads": loads, "before": before[0], "launches": launches, "table": bool(table)}))
    return 0


def called(source: Path) -> list[str]:
    """The functions that a client's text calls of this package, as a client would list them."""
    words = source.read_text(encoding="utf-8").replace("(", " ").replace("\n", " ").split()
    names = {word.split(".")[1] for word in words if word.startswith("aiter.")}
    return sorted(names & set(aiter_prebuilt.__all__))


if __name__ == "__main__":
    sys.exit(main())
