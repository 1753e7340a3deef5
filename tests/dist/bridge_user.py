"""A program that uses AITER and never heard of the bridge: test_bridge_installed.py copies it, with embedded.py.

    python bridge_user.py here|fork|spawn|plugins|obeying

``plugins``: load what vLLM and SGLang load. ``obeying``: give up what lets root write everywhere. Prints what is wrong.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import sys
from importlib.metadata import entry_points
from typing import Any


def work() -> None:
    """AITER's functions, on what torch has here for a GPU, beside float64."""
    torch: Any = importlib.import_module("torch")
    importlib.import_module("embedded").EmbeddedDevice("gfx942")
    aiter: Any = importlib.import_module("aiter")
    x, weight = torch.randn(5, 4096).bfloat16(), torch.randn(4096).bfloat16()
    exact = x.double()
    gate, up = exact.chunk(2, -1)
    norm = exact * (exact.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
    act = torch.nn.functional.silu(gate) * up
    out, other = torch.empty(5, 2048).bfloat16(), torch.empty(5, 2048).bfloat16()
    aiter.silu_and_mul(out, x)
    torch.ops.aiter.silu_and_mul(other, x)
    found = {
        "rms_norm": (aiter.rms_norm(x, weight, 1e-6), norm),
        "aiter.silu_and_mul": (out, act),
        "torch.ops.aiter": (other, act),
    }
    for name, (got, want) in found.items():
        if not bool((got.double() - want).abs().max() <= want.abs().max() * 2**-7):
            sys.exit(f"{name} is wrong")
    print("right", flush=True)


def main() -> None:
    way = sys.argv[1]
    if way == "obeying":
        ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    if way == "plugins":
        for group in ("vllm.general_plugins", "sglang.srt.plugins"):
            for each in entry_points(group=group):
                each.load()()
    if way in ("fork", "spawn"):
        context: Any = multiprocessing.get_context(way)
        child = context.Process(target=work)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    work()
    # What AITER of November 2025 registered breaks torch 2.13's own cleaning up, after everything was said.
    os._exit(0)


if __name__ == "__main__":
    main()
