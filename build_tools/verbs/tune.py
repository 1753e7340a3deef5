"""Times by the emulator's model: its constants from measured rows, and tables of tuned rows from it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from build_tools.errors import UsageError
from build_tools.verbs import options
from build_tools.verbs.examples import example
from build_tools.verbs.output import print_json, print_table

if TYPE_CHECKING:
    from build_tools.timing.calls import Predicted

_FOLDER = "build/modelled"


@example("tune --by-model --call 'gemm_a16w16 M=512 N=4096 K=4096 T=bf16 bias=none'")
@click.command()
@click.option(
    "--fit",
    is_flag=True,
    help="Fit the model's constants to AITER's measured rows (AITER_DIR: a checkout's).",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="With --fit: how rows are dealt to two halves."
)
@click.option(
    "--older", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --fit or --blind: a folder of folders with earlier tables, for variants that were measured for one shape.",
)  # fmt: skip
@click.option(
    "--blind", is_flag=True,
    help="Test the model on families that no fit has seen. --older (AITER_DIR: a checkout's) reads their rows anew.",
)  # fmt: skip
@click.option(
    "--by-model", "by_model", is_flag=True, help="Write tuned rows for calls that no measured row decides."
)
@click.option(
    "--call", "calls", multiple=True, metavar="'OPERATOR SYMBOL=VALUE...'",
    help="With --by-model: a call as aiter-prebuilt explain takes it.",
)  # fmt: skip
@click.option(
    "--model", "models", multiple=True, help="With --by-model: the calls of a model of manifests/models.toml."
)
@click.option("--operator", "functions", multiple=True, help="With --model: only calls of this function.")
@click.option("--target", type=options.TARGET, default="gfx950", show_default=True, help="With --by-model.")
@click.option(
    "--cus",
    type=click.IntRange(min=1),
    help="With --by-model: compute units; the target's usual number when left out.",
)
@click.option(
    "--output", type=click.Path(path_type=Path),
    help=f"The file of --fit (build_tools/timing/fitted.json), or the folder of tables ({_FOLDER}).",
)  # fmt: skip
@options.bundles
@options.json
def tune(
    fit: bool, seed: int, older: Path | None, blind: bool, by_model: bool, calls: tuple[str, ...], models: tuple[str, ...],
    functions: tuple[str, ...], target: str, cus: int | None, output: Path | None, bundles: Path, as_json: bool,
) -> None:  # fmt: skip
    """Predict times by the emulator's model.

    It serves calls that nobody measured. Tables of --by-model are read by a runtime whose AITER_PREBUILT_TUNED names them;
    `aiter-prebuilt explain` then shows their times.
    """
    from build_tools.errors import UsageError

    if fit + blind + by_model != 1 or (by_model and not calls and not models):
        raise UsageError(
            "tune", "it takes one thing to do", "Say --fit, --blind, or --by-model with --call or --model"
        )
    if blind:
        tested = _blind(older)
        if as_json:
            print_json(tested)
        else:
            _print_blind(tested)
        return
    if fit:
        document = _fitted(seed, older, output)
        if as_json:
            print_json(document)
        else:
            _print_fit(document)
        return
    made = _modelled(calls, _of_models(models, functions, target), target, cus, bundles)
    files = _written(made, output or options.ROOT / _FOLDER)
    if as_json:
        print_json({"files": [str(path) for path in files], "calls": [_as_json(each) for each in made]})
        return
    _print_modelled(made)
    for path in files:
        click.echo(f"wrote {path}")


def _fitted(seed: int, older: Path | None, output: Path | None) -> dict[str, Any]:
    from build_tools.prove import ready
    from build_tools.timing import document as documents
    from build_tools.timing.report import cases_of, compute
    from build_tools.tools.tree import tree_of

    tree = tree_of("aiter", options.ROOT)
    folders = sorted(older.iterdir()) if older is not None else []
    cases = cases_of(tree, ready.native_parts(options.ROOT), folders)
    made = {"rows_of": f"{tree.pin.distribution} {tree.version}", **compute(cases, seed)}
    _refuse_to_lose(made, output)
    documents.write(output or options.ROOT / documents.NAME, made)
    return made


def _refuse_to_lose(made: dict[str, Any], output: Path | None) -> None:
    """Refuse to write a fit that loses families.

    A tree without code objects, or an older one, has few: the file that comes with the project keeps its families.
    """
    from build_tools.timing import document as documents

    asked = f"fit times to the rows of {made['rows_of']}"
    if not made["families"]:
        raise UsageError(
            asked,
            "it has no family whose code objects and rows are both there",
            "name a whole checkout: AITER_DIR=FOLDER",
        )
    place = options.ROOT / documents.NAME
    if output is not None or not place.exists():
        return
    lost = sorted(set(documents.read(place)["families"]) - set(made["families"]))
    if lost:
        raise UsageError(
            asked,
            f"{documents.NAME} would lose {', '.join(lost)}",
            "name a checkout that has their rows, AITER_DIR=FOLDER, or another file: --output FILE",
        )


def _print_fit(document: dict[str, Any]) -> None:
    columns = [
        "family", "rows", "median %", "p90 %", "winner first %", "in three %", "AITER's rule %", "left out: median %",
        "pairs 5 % apart", "in order %",
    ]  # fmt: skip
    rows = []
    for name, family in document["families"].items():
        pairs = family.get("pairs", {"apart": 0, "right": ""})
        left = family["left_out"]
        rows.append(
            (name, family["rows"], family["held_out"]["median"], family["held_out"]["p90"], family["winner_first"],
             family["winner_in_three"], family["heuristic_first"], left["median"] if left else "", pairs["apart"], pairs["right"])
        )  # fmt: skip
    print_table("predicted times of rows that had no say", columns, rows)


def _blind(older: Path | None) -> dict[str, Any]:
    """Write the figures of the blind test, and the measured rows where earlier tables are named."""
    from build_tools.manifest.parse import load
    from build_tools.timing import blind, costs, measured
    from build_tools.timing import document as documents
    from build_tools.tools.tree import tree_of

    if older is not None:
        rows = measured.document(tree_of("aiter", options.ROOT), sorted(older.iterdir()))
        documents.write(options.ROOT / measured.NAME, rows)
    families = measured.read(options.ROOT / measured.NAME)
    models = (blind.ByCycles(documents.read(options.ROOT / documents.NAME)), blind.ByTiles())
    made = blind.document(families, models, costs.costs_of(load(options.ROOT / "manifests"), families))
    documents.write(options.ROOT / blind.NAME, made)
    return made


def _print_blind(document: dict[str, Any]) -> None:
    from build_tools.timing.blind import trusted

    holds, rows = trusted(document), []
    for case, each in document["families"].items():
        off, loss, today = each["blind"] or {}, each["loss"] or {}, each["loss_today"] or {}
        rows.append(
            (case, each["model"], each["rows"], off.get("median", ""), off.get("p90", ""), off.get("bias", ""),
             "yes" if case in holds else "no", each["contested"], loss.get("mean", ""), today.get("mean", ""))
        )  # fmt: skip
    columns = [
        "family", "model", "rows", "median %", "p90 %", "bias %", "may choose", "shapes of several", "loss x", "cost's loss x",
    ]  # fmt: skip
    print_table("families that no fit has seen", columns, rows)
    pairs = [
        (name, each["shapes"], *(each[part]["mean"] for part in ("loss", "loss_first", "loss_second")))
        for name, each in document["between"].items()
    ]
    print_table("between two families", ["", "shapes", "loss x", "first always x", "second always x"], pairs)


def _of_models(models: tuple[str, ...], functions: tuple[str, ...], target: str) -> list[str]:
    from build_tools.manifest.parse import load
    from build_tools.shapes import ask, problems
    from build_tools.shapes import models as told
    from build_tools.timing.call_text import calls_of

    if not models:
        return []
    every, only = told.read(options.ROOT), ask.Filter(models, functions)
    problems.refuse(every, only)
    return list(calls_of(every, load(options.ROOT / "manifests"), target, only))


def _modelled(
    calls: Iterable[str], of_models: Iterable[str], target: str, cus: int | None, bundles: Path
) -> list[Predicted]:
    """Predict the times of calls, leaving out unusable ones.

    Calls of models that the runtime refuses, or whose words say too little, are named.
    """
    from aiter_prebuilt.contract.bundle import SUFFIX
    from build_tools.errors import ExecutorError, NotReadyError
    from build_tools.manifest.names import unknown_target
    from build_tools.manifest.parse import load
    from build_tools.prove import ready
    from build_tools.timing import document as documents
    from build_tools.timing.calls import Place, asked_of, explained, predicted

    targets = load(options.ROOT / "manifests").amd
    if target not in targets:
        raise unknown_target(target, targets)
    files = tuple(sorted(bundles.glob(f"{target}-*{SUFFIX}")))
    if not files:
        raise NotReadyError(
            f"predict times on {target}",
            f"{bundles} has no bundle of it",
            "Run python -m build_tools build, and again",
        )
    units = cus or targets[target].cus[0]
    constants = documents.card(documents.read(options.ROOT / documents.NAME), target, units)
    place = Place(options.ROOT, files, ready.native_parts(options.ROOT))
    asked = [asked_of(call, target, units) for call in calls]
    for each in asked:  # a word that is wrong is said before minutes are spent
        explained(place, each)
    made = [predicted(place, each, constants) for each in asked]
    for call in of_models:
        try:
            made.append(predicted(place, asked_of(call, target, units), constants))
        except ExecutorError as error:
            click.echo(f"left out: {call}: {error}", err=True)
    return made


def _written(made: Iterable[Predicted], folder: Path) -> list[Path]:
    from build_tools.timing.calls import tables

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in tables(made):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _as_json(each: Predicted) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(each)


def _print_modelled(made: Iterable[Predicted]) -> None:
    rows: list[tuple[Any, ...]] = []
    for each in made:
        call = " ".join([each.asked.operator, *each.asked.words])
        if not each.candidates:
            rows.append((call, "", "", "", each.left or "no candidate came to an end"))
        for line in each.failed:
            click.echo(f"left out of {call}: {line}", err=True)
        for place, candidate in enumerate(each.candidates):
            note = "the cost rule's" if candidate.chosen else ""
            if place < 3 or candidate.chosen:
                rows.append(
                    (
                        call if place == 0 else "",
                        candidate.kernel,
                        candidate.variant,
                        f"{candidate.us:.1f}",
                        note,
                    )
                )
    print_table(
        "predicted times: the first three, and what the cost rule takes",
        ["call", "kernel", "variant", "us", ""],
        rows,
    )
