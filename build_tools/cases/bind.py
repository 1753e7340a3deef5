"""The words of a call and an operator's signature -> every tensor's shape, strides, offset and element type."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from aiter_prebuilt.contract import dtype
from aiter_prebuilt.contract.bytecode import ExpressionError, evaluate
from aiter_prebuilt.contract.expression import Scope, compile_expression
from build_tools.cases import numbers
from build_tools.cases.subject import Subject
from build_tools.cases.words import Several, Together, Words
from build_tools.manifest.grammar import TensorSpec, is_symbol
from build_tools.manifest.operators import ArgumentType
from build_tools.manifest.problems import suggestion

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
#: Elements of one tensor of a case; more is a slip of the pen.
MAX_ELEMENTS: Final = 1 << 28


#: Hexadecimal digits of what a call's words came to.
_DIGITS: Final = 12


class BindError(ValueError):
    """A call that cannot be made: a symbol too few, a value of the wrong kind."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One tensor of a call."""

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    returned: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """One call, bound: ``tensors`` has None for what is left out; ``types`` the manifest's word for every type variable, ``fp8``
    what that word means here; ``values`` all parameters that are no tensors; ``stated`` those that the words name.
    """

    subject: Subject
    words: Words
    label: str
    types: Mapping[str, str]
    fp8: str
    sizes: Mapping[str, int]
    tensors: Mapping[str, Layout | None]
    values: Mapping[str, Any]
    stated: frozenset[str]

    @property
    def name(self) -> str:
        """The operator, the words, and what they came to, by content: words that bind to other strides are another call."""
        came_to = (
            list(self.tensors.items()), sorted(self.values.items()), sorted(self.stated), sorted(self.types.items()), self.fp8,
        )  # fmt: skip
        digest = hashlib.sha256(repr(came_to).encode()).hexdigest()[:_DIGITS]
        return f"{self.subject.name} {self.label} {digest}"


def bind(subject: Subject, words: Words, fp8: str) -> Iterator[Bound]:
    """Yield the calls that ``words`` stand for.

    A type variable that is not stated takes each of its values, an option of which several are stated each of these. ``fp8``: the
    target's own.

    Raises:
        BindError: with what is missing or wrong.
    """
    open_types = [name for name in subject.types if name not in words.types]
    several = {name: value.values for name, value in words.values.items() if isinstance(value, Several)}
    places = _together(words)
    choices = [*several.values(), *(subject.types[name] for name in open_types)]
    taken = {*several, *(places[0] if places else ())}
    said = " ".join(word for word in words.text.split() if word.partition("=")[0] not in taken)
    for beside, chosen in itertools.product(places or [{}], itertools.product(*choices)):
        values = {**beside, **dict(zip(several, chosen, strict=False))}
        picked = dict(zip(open_types, chosen[len(several) :], strict=True))
        told = [f"{name}={_word(value)}" for name, value in values.items()]
        told += [f"{name}={kind}" for name, kind in picked.items() if len(subject.types[name]) > 1]
        types = _types(subject, {**words.types, **picked})
        one = _with(words, values) if values else words
        yield bind_one(subject, one, " ".join([*([said] if said else []), *told]), types, fp8)


def _together(words: Words) -> list[dict[str, Any]]:
    """List the groups of values that belong to one call each.

    Empty where the words have no such groups.
    """
    found = {
        name: value.values
        for name, value in (*words.symbols.items(), *words.values.items())
        if isinstance(value, Together)
    }
    if len({len(values) for values in found.values()}) > 1:
        raise BindError(f"{', '.join(found)} have different numbers of values")
    return [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]


def _with(words: Words, values: Mapping[str, Any]) -> Words:
    """Replace groups of values by one value each."""
    symbols = {name: value for name, value in values.items() if name in words.symbols}
    options = {name: value for name, value in values.items() if name not in symbols}
    return replace(words, symbols={**words.symbols, **symbols}, values={**words.values, **options})


def _word(value: Any) -> str:
    """Write a value as a call does."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _types(subject: Subject, said: Mapping[str, str]) -> dict[str, str]:
    """Type variables by their manifest name; one may be said to be another one (``C=T``)."""
    found = {}
    for name, text in said.items():
        kind = said.get(text, text)
        if kind not in subject.types[name]:
            allowed = subject.types[name]
            raise BindError(
                f"{name}={text}: {kind!r} is not one of {', '.join(allowed)}{suggestion(kind, allowed)}"
            )
        found[name] = kind
    return found


def bind_one(subject: Subject, words: Words, label: str, types: Mapping[str, str], fp8: str) -> Bound:
    """One call, all types chosen.

    Raises:
        BindError: with what is missing or wrong.
    """
    stored = {name: dtype.resolve(kind, fp8).name for name, kind in types.items()}
    constants = {f"sizeof_{name}": dtype.BY_NAME[kind].itemsize for name, kind in stored.items()}
    sizes, several = _sizes(subject, words, constants)
    scope = Scope({}, {**constants, **sizes})
    gaps = _gaps(subject, words, sizes)
    tensors: dict[str, Layout | None] = {}
    for spec in (*subject.arguments, *subject.returns):
        if spec.name in words.absent:
            tensors[spec.name] = None
            continue
        kind = stored.get(spec.type) or dtype.resolve(spec.type, fp8).name
        try:
            tensors[spec.name] = _layout(subject, spec, words, kind, scope, several, gaps)
        except ExpressionError as error:
            raise BindError(f"{spec.name}: {error}") from None
    values, stated = _values(subject, words, stored)
    for name, value in values.items():
        if isinstance(value, ArgumentType):
            layout = tensors[value.argument]
            values[name] = layout.dtype if layout is not None else None
    return Bound(subject, words, label, types, fp8, sizes, tensors, values, stated)


def _sizes(
    subject: Subject, words: Words, constants: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """(every stated symbol's value, the dims of those that stand for several). Expressions wait for what they name."""
    starred = subject.symbols()
    waiting = {name: text for name, text in words.symbols.items() if not isinstance(text, Together)}
    sizes: dict[str, int] = {}
    several: dict[str, tuple[int, ...]] = {}
    while waiting:
        scope = Scope({}, {**constants, **sizes})
        ready = [
            name
            for name, text in waiting.items()
            if not (_mentioned(text) - {"cdiv", "min", "max", "if", "else", "and", "or", "not"})
            & waiting.keys()
        ]
        if not ready:
            raise BindError(f"{', '.join(sorted(waiting))}: each is said by the other")
        for name in ready:
            text = waiting.pop(name)
            dims = tuple(_size(part, scope, name) for part in ((text,) if isinstance(text, str) else text))
            sizes[name] = math.prod(dims)
            if starred[name]:
                several[name] = dims
    return sizes, several


def _mentioned(text: str | tuple[str, ...]) -> frozenset[str]:
    return _names(text if isinstance(text, str) else " ".join(text))


@lru_cache(maxsize=8192)
def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text))


def _evaluate(text: str, scope: Scope) -> int:
    """Evaluate ``text`` over known sizes.

    Most texts are one name, and the names decide the value.
    """
    known = scope.constants
    if text in known:
        return known[text]
    return _valued(text, tuple((name, known[name]) for name in sorted(_names(text)) if name in known))


@lru_cache(maxsize=1 << 15)
def _valued(text: str, known: tuple[tuple[str, int], ...]) -> int:
    return evaluate(compile_expression(text, Scope({}, dict(known))), ())


def _size(text: str, scope: Scope, name: str) -> int:
    try:
        value = _evaluate(text, scope)
    except ExpressionError as error:
        raise BindError(f"{name}: {error}") from None
    if value < 0:
        raise BindError(f"{name}={text} is negative")
    return value


def _layout(
    subject: Subject,
    spec: TensorSpec,
    words: Words,
    kind: str,
    scope: Scope,
    several: Mapping[str, tuple[int, ...]],
    gaps: Mapping[str, int],
) -> Layout:
    missing = [name for text in spec.dims for name in sorted(_mentioned(text)) if name not in scope.constants]
    if missing:
        raise BindError(f"{missing[0]!r} is not said, and {spec.name} needs it")
    if kind not in numbers.KNOWN:
        raise BindError(f"{spec.name}: no case can hold {kind}")
    shape: list[int] = []
    places: list[
        int
    ] = []  # which entry of spec.strides each dim follows; leading dims of a star but the last have none
    for place, text in enumerate(spec.dims):
        dims = several[text] if spec.star and place == 0 else (_evaluate(text, scope),)
        shape += dims
        places += [-1] * (len(dims) - 1) + [place] * bool(dims)
    returned = subject.parameter(spec.name) is None
    strides = _strides(spec, shape, places, scope, *((Words(), {}) if returned else (words, gaps)))
    if math.prod(shape) > MAX_ELEMENTS:
        raise BindError(f"{spec.name} would have {math.prod(shape)} elements")
    if overlaps(shape, strides) and not (spec.role == "in" and _stated(spec, words)):
        how = "only read, and no word says so:" if spec.role == "in" else "written, and"
        raise BindError(
            f"{spec.name} is {how} strides {strides} of {tuple(shape)} put two elements in one place"
        )
    offset = words.offsets.get(spec.name, 0)
    return Layout(spec.name, spec.role, kind, tuple(shape), tuple(strides), offset, returned)


def _strides(
    spec: TensorSpec,
    shape: Sequence[int],
    places: Sequence[int],
    scope: Scope,
    said: Words,
    gaps: Mapping[str, int],
) -> list[int]:
    """Dense, but for the strides that the call states or the signature computes, and as far as it swaps dims and leaves gaps."""
    strides = [0] * len(shape)
    texts = [spec.strides[place] if spec.strides is not None and place >= 0 else "_" for place in places]
    order = list(range(len(shape)))
    if said.swapped and max(said.swapped) < len(shape):
        first, second = said.swapped
        if all(is_symbol(texts[dim]) and texts[dim] not in said.symbols for dim in (first, second)):
            order[first], order[second] = second, first
    step = dense = 1
    for dim in reversed(order):
        text = texts[dim]
        if text != "_" and (text in said.symbols or not text.isidentifier() or text in scope.constants):
            step = _evaluate(text, scope)
        else:
            step += gaps.get(text, 0)
        strides[dim] = step
        if step:  # a dim of stride 0 takes no place: what lies around it is as if it were not there
            dense = step * max(shape[dim], 1)
        step = dense
    return strides


def _gaps(subject: Subject, words: Words, sizes: Mapping[str, int]) -> dict[str, int]:
    """Stride symbols that nothing says -> how many elements more than dense: each another number, lest one pass for the other."""
    last = {spec.strides[-1] for spec in subject.arguments if spec.strides}
    known = {*sizes, *subject.dims(), *last}
    left = [name for name in subject.symbols() if name not in known]
    return {name: words.gaps * place for place, name in enumerate(left, 1)} if words.gaps else {}


def _stated(spec: TensorSpec, words: Words) -> bool:
    """Tell whether a word gives a stride of this tensor.

    Only then do its elements share places for a reason.
    """
    return any(text in words.symbols for text in spec.strides or ())


def overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Could two elements share a place? Sorted by stride, each step must pass all that lies below it."""
    reach = 0
    for step, size in sorted((step, size) for step, size in zip(strides, shape, strict=True) if size > 1):
        if step <= reach:
            return True
        reach += (size - 1) * step
    return False


def _values(
    subject: Subject, words: Words, stored: Mapping[str, str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Every parameter that is no tensor; one that chooses a type gets it, unless the words say none."""
    chosen = {parameter: subject.tensors()[tensor].type for tensor, parameter in subject.type_of.items()}
    values: dict[str, Any] = {}
    for parameter in subject.parameters:
        name = parameter.name
        if parameter.kind == "Tensor":
            if subject.tensors().get(name) is None and not parameter.optional:
                raise BindError(f"{name} is a tensor that no call can give")
            continue
        if name in words.values:
            values[name] = words.values[name]
        elif name in chosen:
            values[name] = stored.get(chosen[name], chosen[name])
        elif parameter.required:
            raise BindError(f"{name!r} has no default: say {name}=VALUE")
        else:
            values[name] = parameter.default
    for tensor, name in subject.type_of.items():
        if values[name] is None:
            _check_none(subject, tensor, stored)
    return values, frozenset(words.values)


def _check_none(subject: Subject, tensor: str, stored: Mapping[str, str]) -> None:
    """No type asked for: the type of the inputs where they have the same variable, else the first one served."""
    variable = subject.tensors()[tensor].type
    inputs = {spec.type for spec in subject.arguments if subject.parameter(spec.name)}
    if (
        variable not in inputs
        and variable in subject.types
        and stored[variable] != subject.types[variable][0]
    ):
        raise BindError(f"without {subject.type_of[tensor]}, {variable} is {subject.types[variable][0]}")
