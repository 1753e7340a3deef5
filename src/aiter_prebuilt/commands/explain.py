"""``aiter-prebuilt explain OP SYMBOL=VALUE...``: every candidate with its verdict and cost."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.commands.output import print_json, print_table, wrapped
from aiter_prebuilt.contract.targets import NAMES
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import MOST_LINES, ArgumentError, by_reason
from aiter_prebuilt.inspection import deciding
from aiter_prebuilt.inspection.decisions import Explanation, explain, refuse_unknown

HELP = "show each candidate kernel of a call, with verdict and cost"
EXAMPLE = "aiter-prebuilt explain rms_norm M=17 N=4096 --target gfx942"


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("operator", help="gemm_a16w16, for example")
    parser.add_argument(
        "call", nargs="*", metavar="SYMBOL=VALUE", help="M=17 N=4096 K=4096 T=f16 bias=none out.align=2"
    )
    parser.add_argument("--target", help=f"one of {NAMES}; the first device's when left out")
    parser.add_argument("--cus", type=int, help="compute units; the target's usual number when left out")
    parser.add_argument(
        "--all", action="store_true", help="a row for every candidate, those for other types too"
    )


def execute(options: argparse.Namespace) -> int:
    """Print the decisions; 0 when a kernel was chosen, 1 when none fits."""
    settings = settings_of("explain", options.call)
    # A misspelt operator is told before a target is asked for.
    refuse_unknown(options.operator, locate.installed())
    found = explain(options.operator, settings, options.target or _target(), options.cus)
    chosen = next((decision for decision in found.decisions if decision["chosen"]), None)
    if options.json:
        print_json("explain", asdict(found))
    else:
        _print(found, chosen, options.all)
    return 0 if chosen else 1


def settings_of(verb: str, words: Sequence[str]) -> dict[str, str]:
    """``SYMBOL=VALUE`` words as a table.

    Raises:
        ArgumentError: a word has no ``=``, or a symbol is given twice.
    """
    settings: dict[str, str] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals:
            raise ArgumentError(verb, f"{text!r} must have the form SYMBOL=VALUE", "For example: M=17")
        if name in settings:
            raise ArgumentError(
                verb,
                f"{name} is given twice, as {settings[name]} and {value}",
                "Give it once",
            )
        settings[name] = value
    return settings


def _target() -> str:
    for vendor in device.VENDORS:
        for facts in device.probe(vendor).devices:
            return facts.target
    targets = sorted({bundle.target for bundle in locate.installed()})
    if len(targets) == 1:
        return targets[0]
    raise ArgumentError(
        "explain",
        f"--target must be given, because no GPU is here. Bundles are for {', '.join(targets) or 'no target'}",
        f"For example: --target {targets[0] if targets else 'gfx942'}",
    )


def _print(found: Explanation, chosen: dict[str, Any] | None, everything: bool) -> None:
    symbols = " ".join(
        f"{name}={value}" for name, value in {**found.call["types"], **found.call["symbols"]}.items()
    )
    print("\n".join(wrapped(f"{found.operator} on {found.target} with {found.cus} compute units: {symbols}")))
    for path in found.tables:
        print(f"tuned table: {path}")
    rows: list[tuple[Any, ...]] = []
    shown = [
        decision for decision in found.decisions
        if everything or not decision["reason"].startswith("made for other types")
    ]  # fmt: skip
    refused = sorted(
        (decision for decision in shown if not decision["accepted"]), key=lambda decision: decision["near"]
    )
    grouped = not everything and len(refused) > MOST_LINES
    for decision in shown:
        if grouped and not decision["accepted"]:
            continue
        cost = "" if decision["cost"] is None else decision["cost"]
        time = " ".join(filter(None, (decision["us"], decision["source"])))
        rows.append(
            (
                "" if decision["rank"] < 0 else decision["rank"],
                ":".join(filter(None, (decision.get("tree"), decision["kernel"]))),
                decision["backend"],
                decision["variant"],
                cost,
                time,
                _verdict(decision, chosen),
            )
        )
    columns = ["order", "kernel", "backend", "variant", "cost", "us", "verdict"]
    if not any(decision["us"] or decision["source"] for decision in shown):
        rows, columns = [(*row[:-2], row[-1]) for row in rows], [*columns[:-2], columns[-1]]
    print_table(columns, rows)
    if grouped:
        print("refused, the nearest to serving this call first (--all shows each):")
        for line in by_reason([(f"{each['kernel']}[{each['variant']}]", each["reason"]) for each in refused]):
            print("\n".join(f"  {part}" for part in wrapped(line, 2)))
    if chosen is None:
        nearest = [
            f"; the nearest is {each['kernel']}[{each['variant']}]: {each['reason']}" for each in refused[:1]
        ]
        print("\n".join(wrapped(f"no kernel fits{''.join(nearest)}")))
        return
    print("\n".join(wrapped(f"Chosen: {chosen['kernel']}[{chosen['variant']}] ({chosen['backend']})")))
    print("\n".join(wrapped(deciding.sentence(found.decisions))))
    if len([decision for decision in shown if decision["accepted"]]) > 1:
        print("Costs compare variants of one kernel only; between kernels the order decides.")
    for step in chosen["steps"]:
        grid, block = "x".join(map(str, step["grid"])), "x".join(map(str, step["block"]))
        text = (
            f"launch {step['symbol']} ({step['entry']}): grid {grid}, block {block}, LDS {step['lds']}, "
            f"sha256 {step['sha256'][:16]}"
        )
        print("\n".join(wrapped(text)))
    if chosen["workspace"]:
        print(f"workspace {chosen['workspace']} bytes")


def _verdict(decision: dict[str, Any], chosen: dict[str, Any] | None) -> str:
    """Say in a few words what became of a candidate."""
    if decision["chosen"]:
        return f"chosen: {decision['reason']}"
    if not decision["accepted"]:
        return f"refused: {decision['reason']}"
    if chosen is None or decision["tuned"] or decision["row"] or chosen["tuned"] or chosen["row"]:
        return f"accepted: {decision['reason']}"
    if decision["kernel"] != chosen["kernel"]:
        return f"would work; {chosen['kernel']} comes first"
    if decision["cost"] == chosen["cost"]:
        return f"would work; {chosen['variant']} comes first"
    return f"would work; {chosen['variant']} is cheaper"
