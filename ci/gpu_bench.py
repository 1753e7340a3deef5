"""Measure operators on this NVIDIA GPU.

Times are ratios to torch and to a copy, all of one run.

    python ci/gpu_bench.py ops [--group forward] [--json FILE]

What is measured: ``gpu_attention.py``, ``gpu_rows.py``, ``gpu_experts.py``, ``gpu_caches.py``; how: ``gpu_clock.py``. Needs an
installed ``aiter-prebuilt`` with the bundle of the device's target, torch, click and rich. Exit status: 0 every bar is met, 1 one
is missed or a result is wrong, 2 no NVIDIA GPU with a bundle.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median

import click
import gpu_attention
import gpu_caches
import gpu_experts
import gpu_rows
import torch
from gpu_clock import BARS, Clock, TimedRow
from rich.console import Console
from rich.table import Table

from aiter_prebuilt.bundles import locate
from aiter_prebuilt.devices import device

GROUPS = gpu_attention.GROUPS | gpu_rows.GROUPS | gpu_experts.GROUPS | gpu_caches.GROUPS


def _show(rows: list[TimedRow], title: str) -> None:
    """Print the table, and the least and the middle ratio of each group."""
    table = Table("", "ours us", "other us", "than", "ratio", "", title=title)
    for row in rows:
        ours = "" if row.ours is None else f"{row.ours:.1f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}{'' if row.met else ' *'}"
        table.add_row(f"{row.group} {row.what}", ours, f"{row.other:.1f}", row.than, ratio, row.note)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    for group, model in dict.fromkeys((row.group, row.what.partition(":")[0]) for row in rows):
        mine = [row for row in rows if row.group == group and row.what.startswith(f"{model}:")]
        ratios = [row.ratio for row in mine if row.ratio is not None]
        if ratios:
            span = f"{min(ratios):.2f} to {max(ratios):.2f}, middle {median(ratios):.2f}"
            met = sum(row.met for row in mine)
            console.print(f"{group} {model}: {span}, bar {BARS[group]}, met by {met} of {len(mine)}")


@click.group()
def main() -> None:
    """Benchmarks on a GPU."""


@main.command()
@click.option("--group", "groups", multiple=True, type=click.Choice(list(GROUPS)), help="only these rows")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="also write everything as one document"
)
def ops(groups: tuple[str, ...], output: Path | None) -> None:
    """Attention (prompts, gradients, decoding), products of few rows and of many, mixtures of experts, row-wise operators."""
    targets = {bundle.target for bundle in locate.installed()}
    facts = [f for f in device.probe("nvidia").devices if f.target in targets]
    if not facts or not torch.cuda.is_available() or torch.version.hip:
        print("no NVIDIA GPU with an installed bundle here: nothing was measured")
        sys.exit(2)
    torch.manual_seed(0)
    clock = Clock()
    rows = []
    with torch.no_grad():
        for group in groups or GROUPS:
            for row in GROUPS[group](clock):
                rows.append(row)
                print(row.group, row.what, row.ratio, file=sys.stderr, flush=True)
    title = f"{facts[0].name}, driver {facts[0].driver_version}, torch {torch.__version__}; * below the bar"
    _show(rows, title)
    if output is not None:
        listed = [{**asdict(row), "met": row.met} for row in rows]
        about = {"device": facts[0].name, "driver": str(facts[0].driver_version), "torch": torch.__version__}
        document = {"version": 1, **about, "bars": BARS, "rows": listed}
        output.write_text(json.dumps(document, indent=1))
    sys.exit(0 if all(row.met for row in rows) else 1)


if __name__ == "__main__":
    main()
