"""Two runtime wheels beside each other."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json

_WHEEL = click.Path(exists=True, dir_okay=False, path_type=Path)


@example("same-runtime ONE.whl OTHER.whl")
@click.command()
@click.argument("first", type=_WHEEL)
@click.argument("second", type=_WHEEL)
@options.json
def same_runtime(first: Path, second: Path, as_json: bool) -> None:
    """Compare two runtime wheels of two builders: the same program? Exit code 12 when they are not."""
    from build_tools.errors import WheelError
    from build_tools.pack.same_runtime import differences

    found = differences(first, second)
    if as_json:
        print_json({"differences": found})
    else:
        click.echo("\n".join(found) if found else f"{first.name} and {second.name} hold the same program")
    if found:
        raise WheelError(
            f"compare {first.name} with {second.name}",
            f"{len(found)} difference{'s' if len(found) > 1 else ''}",
            "Build both from the same commit, or mend the builder that is wrong",
        )
