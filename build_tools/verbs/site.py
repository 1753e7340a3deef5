"""The page that people look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from build_tools.verbs import options, receipts
from build_tools.verbs.output import JSON_VERSION
from build_tools.verbs.release import record_of
from build_tools.verbs.reports import coverage, modules, shapes, status

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--documents", type=_FOLDER, default=None,
    help="A folder of coverage.json, status.json and so on, as the verbs' --json printed them: they are not asked again.",
)  # fmt: skip
@click.option(
    "--record", "records", multiple=True, type=click.Path(exists=True, path_type=Path),
    help="A record of an earlier release, or its folder; the oldest first. The last point is these bundles.",
)  # fmt: skip
@click.option(
    "--times", type=_FOLDER, default=None, help="A folder of what aiter-prebuilt bench --json wrote."
)
@click.option(
    "--predicted",
    type=_FOLDER,
    default=None,
    help="A folder of what tune --by-model wrote, such as build/modelled.",
)
@click.option("--wheels", type=_FOLDER, default=None, help="A folder of wheels, whose sizes are shown.")
@options.bundles
def site(
    folder: Path,
    documents: Path | None,
    records: tuple[Path, ...],
    times: Path | None,
    predicted: Path | None,
    wheels: Path | None,
    bundles: Path,
) -> None:
    """Write a page of static files into DIR: operators by backend, target and state, receipts, modules, models, sizes and times,
    from what the verbs print as JSON. Open DIR/index.html; no server, no network.
    """
    from build_tools.release import record
    from build_tools.site import documents as sources
    from build_tools.site.write import Content, write

    told = _ask(bundles) if documents is None else sources.read(documents)
    past = [record.read(path) for path in records]
    here = documents is None or any(bundles.glob("*.apb"))
    if here:
        past.append(record_of(bundles, sorted(wheels.glob("*.whl")) if wheels else []))
    measured = sources.times(sorted(times.glob("*.json"))) if times else []
    modelled = sources.predicted(sorted(predicted.glob("*.csv"))) if predicted else []
    errors = sources.prediction_errors(_fitted()) if modelled else []
    count = write(folder, Content(told, past, measured, here, modelled, errors))
    click.echo(f"{count} files in {folder}: open {folder / 'index.html'}")


def _fitted() -> dict[str, Any]:
    """Read the model's constants and the quality of their fit."""
    from build_tools.timing import document

    return document.read(options.ROOT / document.NAME)


def _ask(bundles: Path) -> dict[str, dict[str, Any]]:
    """Build the documents as the verbs would print them now."""
    from build_tools.errors import FetchError
    from build_tools.release import compatibility

    found: dict[str, dict[str, Any]] = {
        "status": status.compute(bundles)[1],
        "coverage": coverage.compute("ck-full", (), bundles)[2],
        "receipts": receipts.compute((), ()),
        "shapes": shapes.compute((), (), (), (), bundles).as_json(),
    }
    runs = compatibility.read(options.ROOT / compatibility.DATA)
    if runs:
        found["compatibility"] = compatibility.document(runs)
    try:
        found["modules"] = modules.compute((), "", bundles)[1]
    except FetchError as error:
        click.echo(f"without AITER's modules: {error}", err=True)
    return {name: {"version": JSON_VERSION, **each} for name, each in found.items()}
