"""Miss logs to tables for a person."""

from __future__ import annotations

from pathlib import Path

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json


@example("tune-request misses.jsonl")
@click.command("tune-request")
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.json
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=options.ROOT / "build" / "tuning",
    show_default="build/tuning",
)
def tune_request(logs: tuple[Path, ...], as_json: bool, output: Path) -> None:
    """Turn miss logs of the runtime (AITER_PREBUILT_MISS_LOG) into tables for a person to complete."""
    from build_tools.report.tune_request import requests, write

    made = requests(logs)
    paths = write(output, made)
    rows = [
        {"file": path.as_posix(), "rows": request.rows} for path, request in zip(paths, made, strict=True)
    ]
    if as_json:
        print_json({"tables": rows})
        return
    for row in rows:
        click.echo(f"{row['file']}: {row['rows']} shapes")
    click.echo(
        "write kernel and variant of each row, then name the folder in AITER_PREBUILT_TUNED, "
        'or put the file into manifests/tuned/ and name it in the operator: tuned = "tuned/OPERATOR.csv"'
    )
