"""Calls with known answers, for a device to execute; and whether they would notice a wrong kernel."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example


@example("cases --target gfx942 --output build/cases")
@click.command()
@click.option(
    "--target",
    type=options.TARGET,
    required=True,
    help="The target whose calls are made (its fp8 is one of two).",
)
@click.option(
    "--operator", "operators", multiple=True, help="Only this operator. May be given more than once."
)
@click.option(
    "--seed", default=1, show_default=True, help="Inputs are drawn from it: the same seed, the same bytes."
)
@click.option("--golden", is_flag=True, help="Only the small calls that travel in the wheels.")
@click.option(
    "--most",
    type=click.IntRange(min=1),
    help="At most so many calls of an operator, by lot of the seed; of the large ones as few as that allows.",
)
@click.option(
    "--output", required=True, type=click.Path(path_type=Path, allow_dash=True), help="A file; - for a pipe."
)
def cases(
    target: str, operators: tuple[str, ...], seed: int, golden: bool, most: int | None, output: Path
) -> None:
    """Write the calls of manifests/*/cases.toml with their answers, as python -m aiter_prebuilt.execute reads them."""
    from aiter_prebuilt.contract.calls import pack
    from build_tools.cases import make, table
    from build_tools.cases.subject import subjects
    from build_tools.manifest.names import refuse_unknown, unknown_target
    from build_tools.manifest.parse import load

    manifest = load(options.ROOT / "manifests")
    facts = manifest.targets.get(target)
    if facts is None:
        raise unknown_target(target, manifest.targets)
    every = subjects(manifest)
    refuse_unknown("make calls", operators, [each.name for each in every])
    # Those of other families are not read: binding the calls of all operators takes seconds.
    families = {each.family for each in every if not operators or each.name in operators}
    asked = [each for each in every if each.family in families]
    known = table.load(options.ROOT / "manifests", asked, manifest.targets)

    with sys.stdout.buffer if str(output) == "-" else output.open("wb") as stream:
        for name, each in known.items():
            if target in each.subject.targets and (not operators or name in operators):
                bounds = list(make.bounds(each, target, facts, golden=golden))
                if most is not None and most < len(bounds):
                    lot = random.Random(f"{seed} {target} {name}")  # noqa: S311  # no secret
                    bounds = make.by_lot(bounds, most, lot)
                for bound in bounds:
                    stream.write(pack(make.call_of(each, make.question_of(each, bound, seed), target)))
