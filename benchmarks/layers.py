"""What the calls of one layer's decode step cost on the host, for each model and target, beside AITER's Python for the same.

    python benchmarks/layers.py [--model llama3] [--target gfx942] [--json]

The calls are those that the layers in ``examples/`` make, by the public functions, with torch tensors, against the bundles of
``python -m build_tools build``; the driver is a stub, so that all figures are the host's. AITER's are those of its own functions
(the pinned tree, or the checkout that ``AITER_DIR`` names) with operators that do nothing: ``stock_aiter.py``. Exit status: 0 all
bars met, 1 one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rows import Row, report
from runtime import BUILD, compiled

from build_tools.tools.fetch import fetch

MODELS: Final = ("llama3", "qwen3moe", "gptoss", "deepseek_v3")
TARGETS: Final = ("gfx942", "gfx950")
#: Microseconds a call, on average over a layer's.
BAR: Final = 0.35
#: What is no time.
COUNTS: Final = ("launches", "allocations")
Calls = list[dict[str, Any]]


def measured(model: str, target: str, words: dict[str, str]) -> Calls:
    """The calls of one layer, each with what it costs, from a process of its own."""
    files = [ROOT / "build" / "bundles" / f"{target}-{profile}.apb" for profile in ("ck-free", "ck-full")]
    there = [str(path) for path in files if path.is_file()]
    if not there:
        raise SystemExit(f"{files[0]} is not there: run 'python -m build_tools build' first")
    settings = {"AITER_PREBUILT_HIP": words["stub"], "AITER_PREBUILT_BUNDLES": os.pathsep.join(there)}
    script = Path(__file__).with_name("layer_cost.py")
    command = [sys.executable, str(script), json.dumps({**words, "model": model, "target": target})]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found: Calls = json.loads(done.stdout.splitlines()[-1])
    return found


def total(calls: Calls, figure: str) -> float:
    """Of all calls; microseconds of what is in nanoseconds."""
    return sum(float(call[figure]) for call in calls) / (1 if figure in COUNTS else 1000)


def rows_of(model: str, target: str, calls: Calls) -> list[Row]:
    """The table of one layer."""
    count, launches = len(calls), total(calls, "launches")
    whole, allocating = total(calls, "ns"), total(calls, "allocating_ns")
    group = f"{model}, one layer's decode step, {target}: {count} calls, {launches:.0f} launches"
    made = total(calls, "allocations")
    rows = [
        Row(group, "a call, all of it", whole / count, "us", BAR, f"{whole / launches:.2f} us a launch"),
        Row(group, "  torch's allocations", allocating / count, "us", None, f"{made:.0f} in the layer"),
        Row(group, "  the rest of a call", (whole - allocating) / count, "us", BAR,
            f"{(whole - allocating) / launches:.2f} us a launch"),
    ]  # fmt: skip
    both = [call for call in calls if call["aiter_ns"] is not None]
    if both:
        theirs, own = total(both, "aiter_ns"), total(both, "ns")
        what = f"AITER's Python, a call of the {len(both)} that it can make"
        note = f"{theirs / own:.2f} of ours ({own / len(both):.2f} us)"
        rows.append(Row(group, what, theirs / len(both), "us", None, note))
    return [*rows, *dearest(group, calls)]


def dearest(group: str, calls: Calls) -> list[Row]:
    """The calls by name, dearest first without what torch allocates."""
    named: dict[str, Calls] = {}
    for call in calls:
        named.setdefault(call["name"], []).append(call)
    ordered = sorted(named.items(), key=lambda item: -max(rest(call) for call in item[1]))
    return [one(group, name, some) for name, some in ordered]


def rest(call: dict[str, Any]) -> float:
    """Nanoseconds without torch's allocations."""
    return float(call["ns"] - call["allocating_ns"])


def one(group: str, name: str, calls: Calls) -> Row:
    """One name: its mean without allocations, and what AITER's costs."""
    count = len(calls)
    whole, launches = total(calls, "ns") / count, total(calls, "launches") / count
    parts = [
        f"{whole:.2f} with {total(calls, 'allocations') / count:.1f} allocations",
        f"{launches:.1f} launches",
    ]
    if calls[0]["aiter_ns"] is None:
        parts.append(calls[0]["aiter_note"])
    else:
        theirs = total(calls, "aiter_ns") / count
        parts.append(f"AITER {theirs:.2f}, {theirs / whole:.2f} of ours")
    label = f"  {name}" + (f" x{count}" if count > 1 else "")
    return Row(group, label, whole - total(calls, "allocating_ns") / count, "us", None, "; ".join(parts))


def main(words: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--no-aiter", action="store_true", help="leave AITER's Python out")
    options = parser.parse_args(words)
    BUILD.mkdir(parents=True, exist_ok=True)
    stub = compiled(ROOT / "tests" / "native" / "stub_hip.c", "libstub_driver.so", "-DSTUB_COUNTS_ONLY")
    rebadge = Path(__file__).with_name("rebadge.c")
    exchange = compiled(rebadge, "librebadge.so", f"-I{fetch('dlpack', ROOT)}")
    stock = BUILD / "stock"
    tree = ""
    if not options.no_aiter:
        from stock_aiter import unpacked

        tree = str(unpacked(stock))
    common = {"stub": str(stub), "exchange": str(exchange), "aiter": tree, "scratch": str(stock)}
    rows: list[Row] = []
    for model in options.model or MODELS:
        for target in options.target or TARGETS:
            rows += rows_of(model, target, measured(model, target, common))
    facts = {"python": platform.python_version(), "processor": platform.processor() or platform.machine()}
    return report(rows, options.json, facts)


if __name__ == "__main__":
    sys.exit(main())
