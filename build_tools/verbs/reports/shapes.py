"""Report the kernels that models' steps would launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import WIDEST, console, print_json, say_stale

if TYPE_CHECKING:
    from aiter_prebuilt.contract.calls import Call
    from build_tools.manifest.model import Manifest
    from build_tools.report.shapes import Shapes


def compute(
    names: tuple[str, ...],
    functions: tuple[str, ...],
    targets: tuple[str, ...],
    ranks: tuple[int, ...],
    bundles: Path,
) -> Shapes:
    """Each call of the steps that are asked for, with what the bundles would launch.

    Raises:
        ManifestError: the models' file is wrong. NotReadyError: there is no bundle of a target.
    """
    from build_tools.errors import ManifestError
    from build_tools.manifest.parse import load
    from build_tools.pack import notes
    from build_tools.report.shapes import Shapes
    from build_tools.shapes import ask, models, problems

    manifest = load(options.ROOT / "manifests")
    told = models.read(options.ROOT)
    if lines := problems.of_models(told, manifest):
        raise ManifestError(lines)
    only = ask.Filter(names, functions, ranks)
    problems.refuse(told, only)
    rows = []
    sets: dict[str, str] = {}
    for target in _targets(manifest, targets):
        files = _files(manifest, bundles, target)
        sets |= {path.name: notes.read(path).get("ck", "tuned") for path in files}
        every = ask.step_calls(told, manifest, target, only)
        rows += ask.answered(every, ask.operators_of(manifest), target, _explain(files))
    return Shapes(tuple(rows), sets, tuple(notes.stale_in(options.ROOT, bundles)))


@example("report shapes --model llama3")
@click.command()
@click.option("--model", "names", multiple=True, help="Only this model of manifests/models.toml.")
@click.option("--operator", "functions", multiple=True, help="Only calls of this function.")
@options.targets
@click.option(
    "--tp", "ranks", multiple=True, type=click.IntRange(min=1),
    help="Ranks that share heads and experts; those of the model when left out.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="An error when a call has no entry, for whatever reason.")
@options.json
@options.bundles
def shapes(
    names: tuple[str, ...],
    functions: tuple[str, ...],
    targets: tuple[str, ...],
    ranks: tuple[int, ...],
    strict: bool,
    as_json: bool,
    bundles: Path,
) -> None:
    """Show the kernel of each model's step on each AMD target, and why.

    It is chosen as a live call is, or the reason says why there is none: manifests/models.toml and manifests/clients.toml.
    """
    from build_tools.errors import ShapesError
    from build_tools.report.shapes_view import render

    found = compute(names, functions, targets, ranks, bundles)
    if as_json:
        print_json(found.as_json())
    else:
        render(found, console(WIDEST))
        say_stale(found.stale)
    if strict and (left := found.without()):
        first = left[0]
        raise ShapesError(
            "find an entry for each call of each step",
            f"{len(left)} of {len(found.rows)} have none, first {first.function} of {first.model}, TP {first.ranks}, "
            f"with {first.tokens} tokens on {first.target}: {first.state}: {first.reason}",
            "Leave --strict out to see all, or choose with --model and --operator",
        )


def _targets(manifest: Manifest, asked: tuple[str, ...]) -> list[str]:
    from build_tools.manifest.names import unknown_target

    ours = list(manifest.amd)
    for name in asked:
        if name not in ours:
            raise unknown_target(name, ours)
    return [name for name in ours if not asked or name in asked]


def _files(manifest: Manifest, bundles: Path, target: str) -> tuple[Path, ...]:
    """List the bundles of a target.

    A profile comes after the one that it adds to.
    """
    from aiter_prebuilt.contract.bundle import SUFFIX
    from build_tools.errors import NotReadyError

    names = sorted(manifest.profiles, key=lambda name: manifest.profiles[name].includes is not None)
    found = tuple(
        path
        for name in names
        if target in manifest.profiles[name].targets
        and (path := bundles / f"{target}-{name}{SUFFIX}").is_file()
    )
    if not found:
        raise NotReadyError(
            f"say what models' steps launch on {target}", f"{bundles} has no bundle of it",
            "Run python -m build_tools build, and then this command again",
        )  # fmt: skip
    return found


def _explain(files: tuple[Path, ...]) -> Any:
    from build_tools.prove import ready, workers

    library = ready.native_parts(options.ROOT)

    def explain(target: str, calls: Iterable[Call]) -> Iterator[Mapping[str, Any]]:
        return workers.explained(workers.Place(options.ROOT, files, target, library), calls)

    return explain
