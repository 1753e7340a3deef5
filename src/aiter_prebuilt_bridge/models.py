"""The calls of a model's steps as its clients write them, in the AITER that is here: through which name each goes, whether what
answers there is ours, and whether a kernel here serves it. ``aiter-prebuilt bridge status --model llama3``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt_bridge import lookup_log, machine, serving
from aiter_prebuilt_bridge.signature_check import Words, among

if TYPE_CHECKING:
    from aiter_prebuilt.inspection.call_forms import Form

#: How manifests/clients.toml says where a client takes a function from. ``in fused_moe``: AITER calls it, the client does not.
_TORCH: Final = re.compile(r"as torch\.ops\.aiter\.(\w+)")
_FROM: Final = re.compile(r"from (aiter[\w.]*\w)")
_WITHIN: Final = re.compile(r"\bin (?:[a-z]\w*|[A-Z]\w*\.\w+)\b(?! a model)")
_OPERATORS: Final = "torch.ops.aiter"
#: Imported where its operators are asked for: AITER does not.
_OF_SAMPLERS: Final = "aiter.ops.sampling"
CLIENTS: Final = ("vLLM", "SGLang", "ATOM", "diffusers")


@dataclass(frozen=True, slots=True)
class FormRow:
    """One call form. ``through``: the name of AITER's that the client calls; ``state``: ``ours`` (a public name), ``stub`` (an
    operator of the JIT), ``left`` (AITER's own) or ``absent`` (this AITER has no such name, or its function does not take the
    call); ``why``: for the last two. ``served``: does a kernel here take each of the model's calls of this form; None where ours
    is not asked.
    """

    form: str
    client: str
    function: str
    through: str
    state: str
    why: str = ""
    served: bool | None = None


def rows(model: str, engine: str | None) -> list[FormRow]:
    """Every call of ``model`` that ``engine`` makes, each client's where it is None.

    Raises:
        ArgumentError: there is no such model, or engine.
    """
    from aiter_prebuilt.commands import coverage
    from aiter_prebuilt.inspection import call_forms

    forms = call_forms.load()
    asked, here = coverage.model_calls(forms, model, engine), machine.architecture()
    known = {each.form.name: each.form for each in asked if _is_made(each.form, here)}
    served = _served(coverage.rows(forms, asked, here))
    return [_row(form, served) for form in known.values()]


def _is_made(form: Form, target: str) -> bool:
    """Tell whether a client makes the call itself on this target."""
    there = not form.targets or target in form.targets
    return there and any(each in form.client for each in CLIENTS) and not _WITHIN.search(form.client)


def _served(rows: Any) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for row in rows:
        found[row.form] = found.get(row.form, True) and row.have
    return found


def _row(form: Form, served: Mapping[str, bool]) -> FormRow:
    """Find how one call form is served."""
    through, state, why = _found(form)
    ours = state in ("ours", "stub")
    return FormRow(
        form.name, form.client, form.function, through, state, why, served.get(form.name) if ours else None
    )


def _found(form: Form) -> tuple[str, str, str]:
    operator = _TORCH.search(form.client)
    if operator:
        return _operator(operator.group(1))
    places = _places(form)
    if not places:
        return form.function, "absent", "this AITER has no such name"
    # The first place is where clients look; another is asked, and imported, where that has nothing for the call.
    told: list[tuple[str, str, str]] = []
    for place, name in places:
        told.append(_public(place, name, form))
        if told[-1][1] != "absent":
            return told[-1]
    return told[0]


def _operator(name: str) -> tuple[str, str, str]:
    through = f"{_OPERATORS}.{name}"
    importlib.import_module(_OF_SAMPLERS)
    named = [row for row in lookup_log.NAMES.values() if row.name == name and row.way != "public"]
    if not named:
        return through, "absent", "AITER registers no such operator"
    left = [row.why for row in named if row.why]
    return (through, "left", left[0]) if left else (through, "stub", "")


def _places(form: Form) -> list[tuple[str, str]]:
    """Modules of AITER that have the form's function, and its name there; those that clients import it from come first."""
    name = form.function.partition(".")[0]
    package: Any = importlib.import_module("aiter")
    told = _FROM.search(form.client)
    defined = [(place, name) for place in _defining(Path(package.__file__).parent, name)]
    if told:
        # What clients name may be an old name of a module, or a package of several.
        below = [each for each in defined if each[0].startswith(f"{told.group(1)}.")]
        return below or [(told.group(1), name)]
    if callable(getattr(package, name, None)) or ("." in form.function and hasattr(package, name)):
        return [("aiter", name), *defined]
    renamed = [(row.module, row.name) for row in lookup_log.NAMES.values() if row.ours == form.function]
    return defined or renamed


def _defining(package: Path, name: str) -> Iterator[str]:
    """Public modules whose text defines ``name`` at its left edge; nothing is imported."""
    line = re.compile(rf"^(?:async )?(?:def|class) {re.escape(name)}\b|^{re.escape(name)}\s*=", re.MULTILINE)
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts) or "gluon" in parts:
            continue
        if line.search(path.read_text(encoding="utf-8", errors="replace")):
            yield ".".join(("aiter", *(part for part in parts if part != "__init__")))


def _public(place: str, name: str, form: Form) -> tuple[str, str, str]:
    """Look up ``place.name``, and tell whether it takes the call."""
    dotted = form.function.partition(".")[2]
    through = ".".join(filter(None, (place, name, dotted)))
    try:
        value: Any = getattr(_imported(place), name)
        for part in filter(None, dotted.split(".")):
            value = getattr(value, part)
    except Exception as error:  # noqa: BLE001  # whatever AITER's module raises where it is imported
        return through, "absent", f"{type(error).__name__}: {error}"
    row = _recorded(value, name, dotted)
    refused = _refused(value, form, row)
    if refused:
        return through, "absent" if not serving.is_replacement(value) else "left", refused
    if serving.is_replacement(value) and (row is None or row.way == "public"):
        return through, "ours", ""
    if row is None:
        return through, "left", serving.ours(name)[1] or "the bridge did not look at it"
    return (through, "left", row.why) if row.why else (through, "ours" if row.way == "public" else "stub", "")


def _imported(place: str) -> Any:
    """Import a module.

    A package of AITER's may fail once, in a sibling that its Triton is too new for: not the second time.
    """
    try:
        return importlib.import_module(place)
    except ImportError:
        raise
    except Exception:  # noqa: BLE001  # whatever its module raises
        return importlib.import_module(place)


def _recorded(value: Any, name: str, dotted: str) -> lookup_log.Name | None:
    whole = f"{name}.{dotted}" if dotted else name
    module = getattr(value, "__module__", "")
    return lookup_log.NAMES.get((module, whole)) or next(
        (row for (_, each), row in lookup_log.NAMES.items() if each == whole), None
    )


def _refused(value: Any, form: Form, row: lookup_log.Name | None) -> str:
    """Why what is there does not take the call, or ours does not; from its signature and the values that the form has."""
    signature = serving.signature_of(value)
    if signature is None:
        return ""
    args, keywords = _arguments(form.text)
    parameters = [*signature.parameters.values()]
    if parameters and parameters[0].name == "self":  # a method, found on its class
        signature = signature.replace(parameters=parameters[1:])
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        return f"it does not take the call: {error}"
    words: Words | None = row.words if row else None
    for each in words.limits if words else ():
        given = bound.arguments.get(each.name, each.default)
        if given is not inspect.Parameter.empty and not among(given, each.values):
            return f"ours take it only with {each.name} {' or '.join(map(repr, each.values))}"
    return ""


class _Unknown:
    """A tensor, or a size: nothing that an option could be."""


def _arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    return [_value(each) for each in call.args], {str(each.arg): _value(each.value) for each in call.keywords}


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _Unknown()


def examine(model: str, engine: str | None) -> list[dict[str, Any]]:
    """Return the rows as JSON has them."""
    return [asdict(row) for row in rows(model, engine)]
