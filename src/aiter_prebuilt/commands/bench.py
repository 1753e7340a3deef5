"""``aiter-prebuilt bench OP SYMBOL=VALUE...``: run one described call and say what it took."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from aiter_prebuilt.commands.explain import settings_of
from aiter_prebuilt.commands.output import print_json, print_table, wrapped
from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt.inspection.timing import Benchmark, bench

_TOTALS = (
    "mfma_flops",
    "global_read_bytes",
    "global_written_bytes",
    "lds_read_bytes",
    "lds_written_bytes",
)
HELP = "time one call on a device here; the emulator also counts instructions"
EXAMPLE = "aiter-prebuilt bench rms_norm M=7 N=2880"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("operator", help="rms_norm, for example")
    parser.add_argument(
        "call", nargs="*", metavar="SYMBOL=VALUE", help="as for explain: M=1024 N=8192 T=bf16"
    )
    parser.add_argument("--kernel", help="run this kernel, not the chosen one; explain lists them")
    parser.add_argument("--variant", help="run this variant; with --kernel alone, its cheapest one")
    parser.add_argument("--device", type=int, default=0, help="ordinal of the device")
    parser.add_argument("--repeat", type=int, default=10, help="calls that are timed")
    parser.add_argument("--counters", action="store_true", help="also what was executed (on the emulator)")


def execute(options: argparse.Namespace) -> int:
    """Print the figures; 0 when the call ran.

    Raises:
        UnsupportedError: counters were asked for and the device does not count.
    """
    settings = settings_of("bench", options.call)
    found = bench(
        options.operator, settings, options.device, max(1, options.repeat), options.kernel, options.variant
    )
    if options.counters and found.counters is None:
        raise UnsupportedError(
            f"count what {options.operator} executes",
            f"{found.device} has no counters",
            "Run it on the emulator: aiter-prebuilt-emulator run -- aiter-prebuilt "
            f"{' '.join(['bench', options.operator, *options.call])} --counters",
        )
    if options.json:
        document = asdict(found)
        if not options.counters:
            del document["counters"]
        print_json("bench", document)
        return 0
    symbols = " ".join(
        f"{name}={value}" for name, value in {**found.call["types"], **found.call["symbols"]}.items()
    )
    where = f"{found.device}, the emulator" if found.embedded else found.device
    print("\n".join(wrapped(f"{found.operator} on {where}: {symbols}")))
    print("\n".join(wrapped(f"{found.kernel}[{found.variant}] {found.backend}")))
    print(
        f"host {found.host_seconds * 1e6:.1f} us, until done {found.seconds * 1e6:.1f} us (medians of {found.repeat})"
    )
    if options.counters:
        _print_counters(found)
    return 0


def _print_counters(found: Benchmark) -> None:
    kernels: list[dict[str, Any]] = (found.counters or {}).get("kernels", [])
    for kernel in kernels:
        print(f"{kernel['kernel']}: {kernel['launches']} launches, {kernel['waves']} waves")
        rows = [(name, value) for name, value in kernel["instructions"].items() if value]
        rows += [(name.replace("_", " "), kernel[name]) for name in _TOTALS if kernel.get(name)]
        print_table(["counted", "in one call"], rows)
    # Under `aiter-prebuilt-emulator run --pmc`: those that were asked for.
    for dispatch in (found.counters or {}).get("pmc", {}).get("dispatches", []):
        print(f"{dispatch['kernel']}: occupancy limited by {dispatch['occupancy_limiter']}")
        print_table(["counter", "of this launch"], list(dispatch["counters"].items()))
