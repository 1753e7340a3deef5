"""Calls that an engine made (``ci/engines/recorder.py``) against the forms of ``manifests/clients.toml``.

Engines run small models, so that no size is compared with a number: a size's name stands for one number in the whole call, and an
expression for what these numbers give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiter_prebuilt.contract.dtype import DTYPES, TARGET_FP8
from build_tools.shapes.forms import Form, FormError, Size, Tensor, Type, Value, names, parse
from build_tools.shapes.models import Models, Sizes

_TORCH: Final = "torch.ops.aiter."
#: Addresses are uint64 to AITER; forms have no such type.
_SHORT: Final = {each.torch: each.name for each in DTYPES} | {"uint64": "i64"}
_FP8: Final = frozenset(("e4m3fn", "e4m3fnuz"))
#: Forms give it because a call that is only described has no generator of torch's; clients leave it out.
_DESCRIBED_ONLY: Final = frozenset(("generator",))
#: Integers of these may be of 64 bits, too, as in vLLM's first step: our functions turn them into those of the form.
_WIDER: Final = frozenset(("top_k_top_p_sampling_from_probs",))
#: Numbers of tokens, blocks and pieces of work are larger; literal dims up to here are a layout's.
_LAYOUT: Final = 128


@dataclass(frozen=True, slots=True)
class Misfit:
    """A recorded call that no form has.

    ``nearest``: the form with the fewest differences, "" where the function has no form; ``why``: its differences.
    """

    call: Mapping[str, Any]
    nearest: str
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``seen``: forms that a recorded call has; ``misfits``: calls that no form has; ``unseen``: forms without a call."""

    seen: frozenset[str]
    misfits: tuple[Misfit, ...]
    unseen: tuple[str, ...]


@dataclass
class _Numbers:
    """The numbers that texts of sizes stand for in one call."""

    derived: Mapping[str, str]
    found: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def meet(self, text: str, number: int, where: str) -> None:
        if text.isdecimal():
            if int(text) != number and min(int(text), number) <= _LAYOUT:
                self.wrong.append(f"{where}: {number}, the form has {text}")
        elif self.found.setdefault(text, number) != number:
            self.wrong.append(f"{where}: {text} is {number}, and {self.found[text]} before")

    def check(self) -> None:
        """Compare each expression with what the sizes in it give, as far as these are known."""
        known = {text: number for text, number in self.found.items() if text.isidentifier()}
        for text, number in self.found.items():
            if text.isidentifier() and text not in self.derived:
                continue
            others = {name: told for name, told in known.items() if name != text}
            sizes = Sizes(
                others, {name: told for name, told in self.derived.items() if name not in others}, {}
            )
            try:
                given = sizes.integer(text)
            except FormError:
                continue  # a size of the model that the call does not show
            if given != number:
                self.wrong.append(f"{text} is {number}, and its sizes give {given}")


def compare(models: Models, calls: Iterable[Mapping[str, Any]], client: str) -> Comparison:
    """Compare recorded calls with all forms.

    Args:
        models: both manifests.
        calls: recorded calls.
        client: forms whose client's name begins so may be unseen. Those of other clients, and those that AITER's own functions
            make (``vLLM 0.33.0 in fused_moe``), are not counted.
    """
    forms = {key: parse(told.call) for key, told in models.calls.items()}
    # A constant is the real model's size. Sizes that follow from others follow in small models, too.
    derived = {name: text for name, text in models.sizes.items() if names(text)}
    seen: set[str] = set()
    misfits = []
    for call in calls:
        function = function_of(call)
        why = {
            key: differences(form, call, derived) for key, form in forms.items() if form.function == function
        }
        fits = {key for key, wrong in why.items() if not wrong}
        seen |= fits
        if not fits:
            nearest = min(why, key=lambda key: len(why[key]), default="")
            misfits.append(Misfit(call, nearest, tuple(why.get(nearest, ("the function has no form",)))))
    unseen = [
        key
        for key, told in models.calls.items()
        if told.client.startswith(client) and " in " not in told.client and key not in seen
    ]
    return Comparison(frozenset(seen), tuple(misfits), tuple(unseen))


def function_of(call: Mapping[str, Any]) -> str:
    """Return the name of a recorded call's function as forms have it."""
    return str(call["name"]).removeprefix(_TORCH)


def differences(form: Form, call: Mapping[str, Any], derived: Mapping[str, str]) -> list[str]:
    """Return the differences between a form and a recorded call of the same function; none when it fits.

    Args:
        form: of ``clients.toml``.
        call: recorded.
        derived: sizes that follow from others.
    """
    wrong = []
    if len(form.positional) != len(call["args"]):
        wrong.append(f"{len(call['args'])} by position, the form has {len(form.positional)}")
    keywords = {name: value for name, value in form.keywords if name not in _DESCRIBED_ONLY}
    given = call["keywords"]
    wrong += [f"{name}: the form does not have it" for name in given if name not in keywords]
    wrong += [f"{name}: not given" for name in keywords if name not in given]
    numbers = _Numbers(derived)
    pairs = [
        *((str(place), *pair) for place, pair in enumerate(zip(form.positional, call["args"], strict=False))),
        *((name, keywords[name], given[name]) for name in given if name in keywords),
    ]
    wider = form.function in _WIDER
    for where, value, told in pairs:
        if wider and isinstance(told, dict) and told.get("tensor") == "int64":
            told = told | {"tensor": "int32"}  # noqa: PLW2901
        wrong += _differs(where, value, told, numbers)
    numbers.check()
    return wrong + numbers.wrong


def _differs(where: str, value: Value, told: Any, numbers: _Numbers) -> Iterator[str]:
    if isinstance(value, Tensor):
        yield from _tensor_differs(where, value, told, numbers)
    elif isinstance(value, Type):
        if not isinstance(told, dict) or not _same_type(value.name, str(told.get("dtype"))):
            yield f"{where}: {_shown(told)}, the form has the type {value.name}"
    elif isinstance(value, Size):
        if isinstance(told, bool) or not isinstance(told, (int, float)):
            yield f"{where}: {_shown(told)}, the form has {value.text}"
        elif isinstance(told, int):
            numbers.meet(value.text, told, where)
    elif not _same_literal(value.value, told):
        yield f"{where}: {_shown(told)}, the form has {_shown(value.value)}"


def _tensor_differs(where: str, value: Tensor, told: Any, numbers: _Numbers) -> Iterator[str]:
    if not isinstance(told, dict) or "tensor" not in told:
        yield f"{where}: {_shown(told)}, the form has a tensor"
        return
    if not _same_type(value.dtype, told["tensor"]):
        yield f"{where}: {told['tensor']}, the form has {value.dtype}"
    dims = () if value.dims == ("()",) else value.dims
    if len(dims) != len(told["shape"]):
        yield f"{where}: {len(told['shape'])} dims, the form has {len(dims)}"
        return
    for text, number in zip(dims, told["shape"], strict=True):
        numbers.meet(text, number, where)
    if value.strides is None:
        if not _is_dense(told["shape"], told["strides"]):
            yield f"{where}: strides {told['strides']} of {told['shape']}, the form is dense"
        return
    for text, stride, number in zip(value.strides, told["strides"], told["shape"], strict=True):
        if number != 1:  # the stride of a single element means nothing
            numbers.meet(text, stride, f"{where}, a stride")


def _same_type(name: str, torch: str) -> bool:
    short = _SHORT.get(torch, torch)
    return short in _FP8 if name == TARGET_FP8 else short == name


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    wanted = 1
    for number, stride in zip(reversed(shape), reversed(strides), strict=True):
        if number == 0:
            return True
        if number != 1 and stride != wanted:
            return False
        wanted *= number
    return True


def _same_literal(value: Any, told: Any) -> bool:
    """Is it the same value? Scales and widths of windows are the model's: only that they are numbers counts."""
    if isinstance(told, dict) and "enum" in told:
        told = told["value"]
    if isinstance(value, tuple):
        return (
            isinstance(told, list)
            and len(told) == len(value)
            and all(_same_bound(mine, theirs) for mine, theirs in zip(value, told, strict=True))
        )
    if type(value) is not type(told):
        return False
    if isinstance(value, float) and value not in (0.0, 1.0):
        return bool(told not in (0.0, 1.0))
    return bool(value == told)


def _same_bound(value: Any, told: Any) -> bool:
    both = isinstance(value, int) and isinstance(told, int) and not isinstance(told, bool)
    return both and (value == told or min(value, told) > 0)


def _shown(told: Any) -> str:
    if isinstance(told, dict):
        if "tensor" in told:
            return f"{told['tensor']}{told['shape']}"
        return str(told.get("enum") or told.get("dtype") or told.get("object"))
    return repr(told)


def shape_free(call: Mapping[str, Any]) -> str:
    """Return a text that two calls share if they differ in sizes and scales alone."""
    keywords = {name: _without_sizes(value) for name, value in call["keywords"].items()}
    return repr((call["name"], [_without_sizes(each) for each in call["args"]], sorted(keywords.items())))


def _without_sizes(told: Any) -> Any:
    if isinstance(told, list):
        return [_without_sizes(each) for each in told]
    if isinstance(told, dict) and "tensor" in told:
        shape, strides = told["shape"], told["strides"]
        many = [place for place, number in enumerate(shape) if number > 1]
        order = sorted(many, key=lambda place: (-strides[place], place))
        zero = [place for place in many if not strides[place]]
        return (told["tensor"], len(shape), order, zero, _is_dense(shape, strides))
    if isinstance(told, (bool, str, dict)) or told is None:
        return told
    return (type(told).__name__, (told > 0) - (told < 0))
