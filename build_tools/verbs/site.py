"""Write the status page: static files that open from a disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.verbs import options, receipts
from build_tools.verbs.examples import example
from build_tools.verbs.output import JSON_VERSION
from build_tools.verbs.release import record_of
from build_tools.verbs.reports import coverage, modules, shapes, status

if TYPE_CHECKING:
    from build_tools.site.home import Links

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@example("site build/site")
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
@click.option(
    "--docs", type=_FOLDER, default=None,
    help="The documentation site that nox -s docs wrote. It is copied into DIR/docs. Without it, links lead to the sources.",
)  # fmt: skip
@click.option(
    "--sources", metavar="URL", default="",
    help="Where the files of this repository are, for links to them. Default: this checkout, if DIR is inside it.",
)  # fmt: skip
@options.bundles
def site(
    folder: Path,
    documents: Path | None,
    records: tuple[Path, ...],
    times: Path | None,
    predicted: Path | None,
    wheels: Path | None,
    docs: Path | None,
    sources: str,
    bundles: Path,
) -> None:
    """Write the status page into DIR.

    It shows models, operators, receipts, modules, sizes and times, from the JSON of the other verbs. Open DIR/index.html: it
    needs no server and no network.
    """
    from build_tools.release import record
    from build_tools.site import documents as given
    from build_tools.site.write import Content, write

    found = _ask(bundles) if documents is None else given.read(documents)
    past = [record.read(path) for path in records]
    here = documents is None or any(bundles.glob("*.apb"))
    if here:
        with _step("sizes of bundles and wheels"):
            past.append(record_of(bundles, sorted(wheels.glob("*.whl")) if wheels else []))
    measured = given.times(sorted(times.glob("*.json"))) if times else []
    modelled = given.predicted(sorted(predicted.glob("*.csv"))) if predicted else []
    errors = given.prediction_errors(_fitted()) if modelled else []
    content = Content(found, past, measured, here, modelled, errors, _links(folder, docs, sources), docs)
    with _step("files"):
        count = write(folder, content)
    click.echo(f"{count} files in {folder}. Open {folder / 'index.html'}")


def _links(folder: Path, docs: Path | None, sources: str) -> Links:
    """Return where the page's links lead: into its own ``docs``, and to the sources."""
    from build_tools.site.home import Links
    from build_tools.site.write import DOCS

    root, inside = options.ROOT.resolve(), folder.resolve()
    base = f"{sources.rstrip('/')}/" if sources else ""
    if not base and inside.is_relative_to(root):
        base = f"{os.path.relpath(root, inside)}/"
    if docs is not None:
        return Links(f"{DOCS}/", ".html", base)
    return Links(f"{base}docs/" if base else "", ".md", base)


def _fitted() -> dict[str, Any]:
    """Read the model's constants and the quality of their fit."""
    from build_tools.timing import document

    return document.read(options.ROOT / document.NAME)


def _ask(bundles: Path) -> dict[str, dict[str, Any]]:
    """Build the documents as the verbs would print them now."""
    from build_tools.errors import FetchError
    from build_tools.release import compatibility

    compute: dict[str, Callable[[], dict[str, Any]]] = {
        "status": lambda: status.compute(bundles)[1],
        "coverage": lambda: coverage.compute("ck-full", (), bundles)[2],
        "receipts": lambda: receipts.compute((), ()),
        "shapes": lambda: shapes.compute((), (), (), (), bundles).as_json(),
    }
    found: dict[str, dict[str, Any]] = {}
    for name, make in compute.items():
        with _step(name):
            found[name] = make()
    runs = compatibility.read(options.ROOT / compatibility.DATA)
    if runs:
        found["compatibility"] = compatibility.document(runs)
    try:
        with _step("modules"):
            found["modules"] = modules.compute((), "", bundles)[1]
    except FetchError as error:
        click.echo(f"The page has no modules: {error}", err=True)
    return {name: {"version": JSON_VERSION, **each} for name, each in found.items()}


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Say on stderr which part of the page is made, and its time: the whole takes minutes."""
    start = time.monotonic()
    click.echo(f"{name} ... ", nl=False, err=True)
    yield
    click.echo(f"{time.monotonic() - start:.1f} s", err=True)
