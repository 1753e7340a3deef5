"""``aiter-prebuilt coverage --model MODEL``: is each call of a model's steps served here, by which kernel, and was it proved."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from aiter_prebuilt.bundles import extras, locate, opening
from aiter_prebuilt.commands.output import print_json, print_table, styled, wrapped
from aiter_prebuilt.commands.suggest import unknown
from aiter_prebuilt.contract import model_steps
from aiter_prebuilt.contract.bundle import FormatError
from aiter_prebuilt.contract.receipt import was_executed
from aiter_prebuilt.contract.targets import NAMES
from aiter_prebuilt.devices import device
from aiter_prebuilt.errors import ArgumentError, NoBundleError
from aiter_prebuilt.inspection import call_forms
from aiter_prebuilt.launch import dispatch

if TYPE_CHECKING:
    from aiter_prebuilt.inspection.call_forms import CallForms, SizedCall

HELP = "list the calls of a model's steps, with the kernel and the proof of each"
EXAMPLE = "aiter-prebuilt coverage --model llama3 --engine vllm"
#: As a target's name begins whose calls these are; the forms are AITER's, which has no others.
_AMD: Final = "gfx"
_HOST: Final = "on the host"


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call of a step. ``have``: it is served; ``kernel``: by what; ``within``: by which of the functions that it calls, which
    have rows of their own; ``proved``: was all that it launches executed and right before it shipped, None where that is nothing;
    ``reason``: why that kernel, or why none.
    """

    operator: str
    form: str
    client: str
    layer: str
    target: str
    step: str
    tokens: int
    have: bool
    within: tuple[str, ...] = ()
    kernel: str = ""
    variant: str = ""
    backend: str = ""
    proved: bool | None = None
    reason: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument("--model", required=True, help="llama3, qwen3moe, deepseek_v3 or gptoss")
    parser.add_argument("--engine", help="only calls of vllm or sglang, and of what these call")
    parser.add_argument("--target", help=f"one of {NAMES}; every installed one when left out")
    parser.add_argument(
        "--forms", action="store_true", help="print the calls, too, as the engines write them"
    )


def execute(options: argparse.Namespace) -> int:
    """Print the table; 0, also where something is not served: the table says it."""
    forms = call_forms.load()
    calls = model_calls(forms, options.model, options.engine)
    found = [row for target in _targets(options.target) for row in rows(forms, calls, target)]
    if options.json:
        written = {each.form.name: each.form.text for each in calls}
        model = {"model": options.model, "name": forms.models[options.model].name}
        counts = {
            target: asdict(_total(found, target)) for target in dict.fromkeys(row.target for row in found)
        }
        calls_json = [asdict(row) for row in found]
        print_json("coverage", {**model, "forms": written, "counts": counts, "calls": calls_json})
        return 0
    print(f"{options.model}: steps of {forms.models[options.model].name} on one GPU")
    if options.forms:
        for form in {each.form.name: each.form for each in calls}.values():
            print("\n".join(wrapped(f"{form.name}, a call of {form.function}: {form.text}")))
    _print(found)
    return 0


def model_calls(forms: CallForms, model: str, engine: str | None) -> tuple[SizedCall, ...]:
    """Select the calls of a model.

    With an engine: those of the engine, and the calls that its functions make.

    Raises:
        ArgumentError: no such model, or engine.
    """
    if model not in forms.models:
        raise unknown("model", model, forms.models, f"The models are: {', '.join(forms.models)}")
    calls = forms.models[model].calls
    if engine is None:
        return calls
    if engine not in model_steps.ENGINES:
        raise unknown(
            "engine", engine, model_steps.ENGINES, f"The engines are: {', '.join(model_steps.ENGINES)}"
        )
    within = {name for each in calls if each.form.of(engine) for name in each.form.through}
    return tuple(each for each in calls if each.form.of(engine) or each.form.function in within)


def _targets(asked: str | None) -> list[str]:
    """List the requested target, or all installed ones.

    Raises:
        ArgumentError: it is none of AMD's. NoBundleError: it is not installed, or nothing is.
    """
    installed = locate.installed()
    if asked is not None:
        if not asked.startswith(_AMD):
            raise ArgumentError(
                f"show coverage of {asked}", "AITER serves models only on AMD GPUs", "For example: --target gfx950"
            )  # fmt: skip
        locate.for_target(asked, installed, f"calls of models on {asked}")
        return [asked]
    found = sorted({bundle.target for bundle in installed if bundle.target.startswith(_AMD)})
    if not found:
        raise NoBundleError(
            "show coverage", "no bundle for an AMD GPU is installed",
            f"Run: {extras.nothing_installed()}",
        )  # fmt: skip
    return found


def rows(forms: CallForms, calls: Iterable[SizedCall], target: str) -> list[CallRow]:
    """Find this machine's launch for each call.

    Functions around others have rows for their calls, too.
    """
    return list(_joined(list(_rows(forms, calls, target))))


def _rows(forms: CallForms, calls: Iterable[SizedCall], target: str) -> Iterator[CallRow]:
    from aiter_prebuilt.execute.explain import explain, facts_of

    proved = _proved(target)
    for each in calls:
        form = each.form
        if form.targets and target.partition(":")[0] not in form.targets:
            continue
        row = CallRow(
            form.function, form.name, form.client, each.layer, target, each.step, each.tokens, have=False
        )
        if form.missing:
            yield replace(row, reason=form.missing)
        elif form.through:
            yield replace(row, within=form.through)
        elif form.host:
            yield replace(row, have=True, kernel=_HOST)
        else:
            with device.described(facts_of(target)):  # some functions ask how many compute units there are
                found = explain(forms.call(each, target), target)
            if found.problems:
                said = "; ".join(found.problems)
                absent = _lacking(form.function, target) if "NoOperatorError" in said else ""
                yield replace(row, reason=absent or said)
                continue
            yield replace(
                row, have=True, kernel=found.kernel, variant=found.variant, backend=found.backend,
                proved=all(digest in proved for digest in found.launched), reason=getattr(found, "reason", ""),
            )  # fmt: skip


def _lacking(name: str, target: str) -> str:
    """Why the bundles have no operator of this name, where a wheel has one; else nothing."""
    bundles = dispatch.bundles_of(target, target)
    if any(name in bundle.names for bundle in bundles):
        return ""
    missing = dispatch.absent(f"call {name}", name, target, {bundle.profile for bundle in bundles})
    return "" if missing is None else f"{type(missing).__name__}: {missing}"


def _joined(rows: Sequence[CallRow]) -> Iterator[CallRow]:
    """Merge the rows of functions around others.

    One of their own rows serves the call.
    """
    calls = [_step_call(row) for row in rows]
    known = model_steps.callees(calls)
    unproved = {
        (call.function, call.place)
        for row, call in zip(rows, calls, strict=True)
        if row.have and row.proved is False
    }
    for row, call in zip(rows, calls, strict=True):
        if not row.within:
            yield row
        elif found := model_steps.serving(call, known):
            proved = not any((name, call.place) in unproved for name in found)
            yield replace(row, have=True, within=found, proved=proved)
        else:
            yield replace(row, reason=f"none of {', '.join(row.within)} takes it")


def _step_call(row: CallRow) -> model_steps.StepCall:
    place = model_steps.Place(row.target, model_steps.RANKS, row.layer, row.step, row.tokens)
    return model_steps.StepCall(row.operator, row.client, place, row.within, row.have)


def _total(rows: Iterable[CallRow], target: str) -> model_steps.Sum:
    """Count the calls on a target, as the status page and ``report shapes`` do."""
    return model_steps.total(_step_call(row) for row in rows if row.target == target)


def _proved(target: str) -> set[str]:
    """SHA-256 of the code objects of which every entry was executed and right before it shipped."""
    proved: set[str] = set()
    left: set[str] = set()
    for bundle in locate.for_target(target, locate.installed(), f"calls of models on {target}"):
        try:
            read = opening.read_bundle(bundle)
            for name in read.names:
                for entry in read.operator(name).entries:
                    (proved if was_executed(entry) else left).add(entry.sha256.hex())
        except FormatError as error:
            raise opening.damaged(bundle, error) from error
    return proved - left


def _print(rows: Sequence[CallRow]) -> None:
    """Print counts, a line for each call and kernel, the reasons why calls are not served, and the counts again."""
    targets = dict.fromkeys(row.target for row in rows)
    _print_sums(rows)  # first too: hundreds of lines follow
    print()
    for target in targets:
        print(styled(target, "bold"))
        print_table(
            ["call", "tokens", "served by", "proved"], _lines([row for row in rows if row.target == target])
        )
        print()
    for reason, forms in _missing(rows).items():
        print("\n".join(wrapped(f"Not served: {', '.join(forms)}: {reason}")))
    _print_sums(rows)


def _print_sums(rows: Sequence[CallRow]) -> None:
    """Print the counts of each target."""
    for target in dict.fromkeys(row.target for row in rows):
        mine = [row for row in rows if row.target == target]
        launched, sums = [row for row in mine if row.proved is not None], _total(mine, target)
        text = (
            f"{target}: {sums.served} of {sums.calls} calls are served; of {len(launched)} that launch "
            f"something {sum(bool(row.proved) for row in launched)} are proved"
        )
        print("\n".join(wrapped(text)))


def _lines(rows: Sequence[CallRow]) -> list[tuple[str, str, str, str]]:
    """Build the table of one target. Calls with the same steps and kernel share a line, whoever makes them."""
    lines: dict[tuple[str, str, str, str], None] = {}
    for _, same in groupby(rows, key=lambda row: (row.form, row.layer, row.have, _by(row), row.proved)):
        run = list(same)
        first = run[0]
        steps = ", ".join(
            f"{step} {'/'.join(str(row.tokens) for row in each)}" for step, each in _by_step(run)
        )
        proved = "" if first.proved is None else "yes" if first.proved else "no"
        by = _by(first) if first.have else "not served"
        lines[f"{first.operator} {first.layer}".strip(), steps, by, proved] = None
    return [*lines]


def _by(row: CallRow) -> str:
    if row.within and row.have:
        return f"by {', '.join(row.within)}"
    return f"{row.kernel}[{row.variant}] {row.backend}" if row.backend else row.kernel


def _by_step(run: Sequence[CallRow]) -> Iterator[tuple[str, list[CallRow]]]:
    for step, rows in groupby(run, key=lambda row: row.step):
        yield step, list(rows)


def _missing(rows: Iterable[CallRow]) -> dict[str, dict[str, None]]:
    """Reason -> the forms that it is the reason of."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        if not row.have:
            found.setdefault(row.reason, {})[row.form] = None
    return found
