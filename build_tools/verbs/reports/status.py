"""Report declared, built and proved kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.report.lines import say
from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import console, print_json, say_stale

if TYPE_CHECKING:
    from build_tools.report.ledger import Ledger


def compute(bundles: Path) -> tuple[Ledger, dict[str, Any]]:
    """Return the ledger, and what ``--json`` prints of it."""
    from build_tools.manifest.parse import load
    from build_tools.pack import notes
    from build_tools.prove.known import known
    from build_tools.report import ledger

    sets = {path.name: notes.read(path).get("ck", "tuned") for path in sorted(bundles.glob("*.apb"))}
    found = ledger.compute(load(options.ROOT / "manifests"), bundles, known(options.ROOT))
    return found, {**found.as_json(), "stale": notes.stale_in(options.ROOT, bundles), "ck": sets}


@example("report status")
@click.command()
@options.json
@options.bundles
def status(as_json: bool, bundles: Path) -> None:
    """Show the ledger of kernels: tested, compiled, or source only."""
    from build_tools.report.ledger_view import render

    ledger, document = compute(bundles)
    if as_json:
        print_json(document)
    else:
        render(ledger, console())
        for name, found in document["ck"].items():
            if found != "tuned":
                say(
                    console(),
                    f"{name}: the {found} set of Composable Kernel's instances; build --ck tuned has all",
                )
        say_stale(document["stale"])
