"""Executes what was built, and writes receipts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiter_prebuilt.contract.targets import AMD
from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_table

if TYPE_CHECKING:
    from build_tools.prove.prove import Proof


@example("prove --operator rms_norm")
@click.command()
@options.root
@click.option(
    "--operator", "operators", multiple=True, help="Only this operator. May be given more than once."
)
@click.option(
    "--target",
    "targets",
    type=options.TARGET,
    multiple=True,
    help=f"One of {', '.join(AMD)}; all when left out.",
)
@click.option("--all", "everything", is_flag=True, help="Execute every call, also where all has a receipt.")
@click.option(
    "--seed", default=1, show_default=True, help="Inputs are drawn from it: the same seed, the same receipts."
)
@click.option("--workers", type=click.IntRange(min=0), default=0, help="Calls at once; 0 is one per core.")
@options.bundles
def prove(
    root: Path,
    operators: tuple[str, ...],
    targets: tuple[str, ...],
    everything: bool,
    seed: int,
    workers: int,
    bundles: Path,
) -> None:
    """Execute recipes without a receipt on the emulator, all checks on: manifests/<family>/receipts.json."""
    from build_tools.files.lock import alone
    from build_tools.prove.prove import Settings
    from build_tools.prove.prove import prove as run_proof

    own = options.own_tree(root)
    program: tuple[str, ...] = ()
    if own:
        program = (str(options.functions_of(root)),)
        bundles = root.resolve() / "build" / "bundles" if bundles == options.BUNDLES else bundles
    few = operators and bundles == options.BUNDLES
    folders = (
        (options.OPERATOR_BUNDLES, bundles) if few else (bundles,)
    )  # of `build --operator`, when they are there
    lock = root / "build" / options.RECEIPTS_LOCK.name if own else options.RECEIPTS_LOCK
    with alone(lock, "prove what was built"):
        proof = run_proof(
            Settings(
                root.resolve(), folders, operators, targets, everything, seed, workers, options.ROOT, program
            )
        )
    rows = (
        (
            row.operator,
            row.target,
            f"{row.proved}/{row.entries}",
            row.calls,
            "" if row.worst is None else f"{row.worst:.3g}",
        )
        for row in proof.rows
        if row.entries
    )
    print_table("proved", ["operator", "target", "entries", "calls now", "error / bound"], rows)
    for name in proof.changed:
        click.echo(name)
    _refuse(proof)
    if proof.changed:
        where = f" --root {root}" if own else ""
        click.echo(f"now: python -m build_tools build{where} puts the receipts into the bundles")


def _refuse(proof: Proof) -> None:
    """Raise ProofError unless every call was right and every entry is proved."""
    from build_tools.errors import ProofError

    lines = [
        f"{line['target']} {line['operator']} {line['label']}: {'; '.join(line['problems'])}"
        for line in proof.wrong
    ]
    lines += [f"{recipe}: no call of the cases chooses it" for recipe in proof.unchosen]
    lines += proof.narrow
    if lines:
        raise ProofError(
            "prove what was built",
            f"{len(proof.wrong)} calls are wrong, {len(proof.unproved)} entries have no receipt, "
            f"{len(proof.narrow)} recipes have calls that show too little",
            "Mend the kernel, or add a call to the family's cases.toml that chooses the recipe, and prove again",
            lines,
        )
