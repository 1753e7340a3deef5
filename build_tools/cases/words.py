"""The grammar of a call: ``"M=(2,3) N=256 input~edges cus=1"`` -> :class:`Words`. Everything wrong is said at once.

NAME=VALUE      a dim or stride symbol (an integer, an expression of other symbols, or ``(2,3)`` for a ``*M``), a type
                variable, or a parameter of the Python function
OPTION=A.dtype  the element type of argument A           OPTION=(-1,0)  a tuple of integers
OPTION=''       an empty text                    OPTION=0|1      a call for each of the values
NAME=A&B        a call with A and one with B, of an option, a dim or a stride: all words with & in them take the first together,
                then the second
TENSOR=none     an optional tensor is left out     TENSOR@K        its address is K elements past an aligned one
TENSOR~DRAW:a,b how its values are drawn           cus=N           as if the device had N compute units
tree=aiter-2026-08  only where the build read this source tree
targets=a,b     only there                         gaps=N          N elements more in the first stride symbol that no word
                says, but that of a last dim, than were it dense, 2 * N in the next one, and so on
swapped=A,B     dims A and B of each tensor, where both have a stride that no word says, lie in memory in the other order
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from build_tools.cases.subject import Subject
from build_tools.manifest.grammar import TensorSpec
from build_tools.manifest.operators import ArgumentType
from build_tools.manifest.problems import Problems, suggestion
from build_tools.manifest.python import Parameter

_WORD: Final = re.compile(r"^([A-Za-z_]\w*)([=@~])(.+)$")
_DRAW: Final = re.compile(r"^([a-z_][a-z0-9_]*)(?::(.*))?$")
_NUMBERS: Final = {
    "int": re.compile(r"-?[0-9]{1,18}"),
    "float": re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-?inf|nan"),
}
_SWAPPED: Final = re.compile(r"[0-7],[0-7]")
_OR: Final = "|"
_AND: Final = "&"
_OWN: Final = ("cus", "targets", "tree", "gaps", "swapped")
_TREE: Final = re.compile(r"[a-z][a-z0-9-]*")
MAX_COMPUTE_UNITS: Final = 1 << 20
MAX_GAPS: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Draw:
    """The distribution of a tensor's values."""

    name: str
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Several:
    """Values of an option, each in a call of its own."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Values of which calls take the first, then the next, as all others do that stand in their words."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """One call as it is written, or the words that hold for every call of an operator. An option may have :class:`Several`, it
    and a symbol :class:`Together`.
    """

    text: str = ""
    symbols: Mapping[str, str | tuple[str, ...] | Together] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    offsets: Mapping[str, int] = field(default_factory=dict)
    draws: Mapping[str, Draw] = field(default_factory=dict)
    compute_units: int = 0
    targets: tuple[str, ...] = ()
    gaps: int = 0
    swapped: tuple[int, ...] = ()
    tree: str = ""

    def over(self, default: Words) -> Words:
        """Fill open words from ``default``.

        A draw here gives a tensor that is left out there.
        """
        said = self.draws.keys() | self.offsets.keys()
        return Words(
            self.text,
            {**default.symbols, **self.symbols},
            {**default.types, **self.types},
            {**default.values, **self.values},
            self.absent | (default.absent - said),
            {**default.offsets, **self.offsets},
            {**default.draws, **self.draws},
            self.compute_units or default.compute_units,
            self.targets or default.targets,
            self.gaps or default.gaps,
            self.swapped or default.swapped,
            self.tree or default.tree,
        )


class _Reader:
    """Reads the words of one call; what is wrong goes to ``problems``."""

    def __init__(
        self, subject: Subject, draws: Iterable[str], targets: Iterable[str], problems: Problems
    ) -> None:
        self.subject, self.problems = subject, problems
        self.symbols, self.tensors = subject.symbols(), subject.tensors()
        self.options = {
            parameter.name: parameter for parameter in subject.parameters if parameter.kind != "Tensor"
        }
        self.known_draws, self.known_targets = set(draws), set(targets)
        self.said: dict[str, dict[str, Any]] = {
            "symbols": {}, "types": {}, "values": {}, "offsets": {}, "draws": {}, "absent": {}, "own": {},
        }  # fmt: skip

    def read(self, text: str) -> Words:
        for word in text.split():
            match = _WORD.match(word)
            if match is None:
                self.problems.add(f"{word!r} is not NAME=VALUE, TENSOR@ELEMENTS or TENSOR~DRAW")
                continue
            name, sign, rest = match.groups()
            if sign == "=":
                self._equals(name, rest, word)
            else:
                self._tensor(name, sign, rest, word)
        said = self.said
        for name in said["absent"]:
            if name in said["draws"] or name in said["offsets"]:
                self.problems.add(f"{name!r} is left out and given in the same call")
        return Words(
            " ".join(text.split()), said["symbols"], said["types"], said["values"], frozenset(said["absent"]),
            said["offsets"], said["draws"], said["own"].get("cus", 0), said["own"].get("targets", ()),
            said["own"].get("gaps", 0), said["own"].get("swapped", ()), said["own"].get("tree", ""),
        )  # fmt: skip

    def _note(self, group: str, name: str, value: Any) -> None:
        if name in self.said[group]:
            self.problems.add(f"{name!r} is said twice")
        self.said[group][name] = value

    def _equals(self, name: str, text: str, word: str) -> None:
        if name in _OWN:
            self._own(name, text)
        elif name in self.symbols:
            self._symbol(name, text)
        elif name in self.subject.types:
            self._note("types", name, text)
        elif name in self.tensors:
            self._left_out(self.tensors[name], text, word)
        elif name in self.options:
            self._option(self.options[name], text)
        else:
            known = [*self.symbols, *self.subject.types, *self.tensors, *self.options, *_OWN]
            self.problems.add(f"{self.subject.name} has nothing called {name!r}{suggestion(name, known)}")

    def _own(self, name: str, text: str) -> None:
        if name == "swapped":
            if not _SWAPPED.fullmatch(text) or len(set(text.split(","))) < 2:
                self.problems.add(f"swapped={text}: not two dims")
            else:
                self._note("own", name, tuple(map(int, text.split(","))))
            return
        if name == "tree":
            if not _TREE.fullmatch(text):
                self.problems.add(f"tree={text}: not the name of a source tree")
            self._note("own", name, text)
            return
        if name != "targets":
            most, what = (MAX_COMPUTE_UNITS, "compute units") if name == "cus" else (MAX_GAPS, "elements")
            if not text.isascii() or not text.isdigit() or not 0 < int(text) <= most:
                self.problems.add(f"{name}={text}: not a number of {what}")
            else:
                self._note("own", name, int(text))
            return
        targets = tuple(text.split(","))
        for target in targets:
            if target not in self.known_targets:
                self.problems.add(f"{target!r} is not a known target{suggestion(target, self.known_targets)}")
        self._note("own", name, targets)

    def _symbol(self, name: str, text: str) -> None:
        if not (text.startswith("(") and text.endswith(")")):
            parts = tuple(text.split(_AND))
            self._note("symbols", name, Together(parts) if len(parts) > 1 else text)
            return
        if not self.symbols[name]:
            self.problems.add(f"{name}={text}: only a *{name} stands for several dims")
        self._note("symbols", name, tuple(part for part in text[1:-1].split(",") if part))

    def _left_out(self, spec: TensorSpec, text: str, word: str) -> None:
        if text != "none":
            self.problems.add(
                f"{word!r}: a tensor is left out with {spec.name}=none; its values are drawn with {spec.name}~DRAW"
            )
        elif not spec.optional or self.subject.parameter(spec.name) is None:
            self.problems.add(f"{word!r}: {spec.name} cannot be left out")
        self._note("absent", spec.name, True)

    def _option(self, parameter: Parameter, text: str) -> None:
        name = parameter.name
        sign, kind = (_AND, Together) if _AND in text else (_OR, Several)
        values = tuple(self._value(parameter, part) for part in text.split(sign))
        for value in values:
            if values.count(value) > 1:
                self.problems.add(f"{name}={text}: {value!r} is said twice")
                break
        self._note("values", name, kind(values) if len(values) > 1 else values[0])

    def _value(self, parameter: Parameter, text: str) -> Any:
        name = parameter.name
        value = read_value(parameter, text)
        served = self.subject.covered.get(name)
        if value is _WRONG:
            self.problems.add(f"{name}={text}: not a value of {parameter.text!r}")
        elif served is not None and value not in served:
            self.problems.add(f"{name}={text}: not served (covered: {', '.join(map(repr, served))})")
        elif served is None and parameter.kind == "dtype" and value is not None:
            self.problems.add(f"{name}={text}: say the type variable instead; only {name}=none is written")
        return None if value is _WRONG else value

    def _tensor(self, name: str, sign: str, text: str, word: str) -> None:
        if name not in self.tensors:
            self.problems.add(f"{word!r}: no tensor is called {name!r}{suggestion(name, self.tensors)}")
        elif self.subject.parameter(name) is None:
            self.problems.add(f"{word!r}: the function allocates {name} itself")
        elif sign == "@":
            if not text.isascii() or not text.isdigit() or len(text) > 6:
                self.problems.add(f"{word!r}: {text!r} is not a number of elements")
            else:
                self._note("offsets", name, int(text))
        elif self.tensors[name].role == "out":
            self.problems.add(f"{word!r}: {name} is written only; its values are never read")
        else:
            self._draw(name, text, word)

    def _draw(self, name: str, text: str, word: str) -> None:
        match = _DRAW.match(text)
        numbers = match[2].split(",") if match and match[2] is not None else []
        if match is None or not all(_NUMBERS["float"].fullmatch(number) for number in numbers):
            self.problems.add(f"{word!r}: a draw is NAME or NAME:NUMBER,NUMBER")
            return
        if match[1] not in self.known_draws:
            self.problems.add(f"no draw is called {match[1]!r}{suggestion(match[1], self.known_draws)}")
        self._note("draws", name, Draw(match[1], tuple(map(float, numbers))))


_WRONG: Final = object()


def read_value(parameter: Parameter, text: str) -> Any:
    """``text`` as a value of ``parameter``, or a marker that equals nothing."""
    if text == "none":
        return None if parameter.optional else _WRONG
    if parameter.kind == "bool":
        return {"true": True, "false": False}.get(text, _WRONG)
    if parameter.kind in _NUMBERS:
        convert = int if parameter.kind == "int" else float
        return convert(text) if _NUMBERS[parameter.kind].fullmatch(text) else _WRONG
    if parameter.kind == "dtype":
        return ArgumentType(text.removesuffix(".dtype")) if text.endswith(".dtype") else _WRONG
    if parameter.kind == "tuple[int, ...]":
        parts = text[1:-1].split(",")
        written = text[0] + text[-1] == "()" and all(map(_NUMBERS["int"].fullmatch, parts))
        return tuple(map(int, parts)) if written else _WRONG
    if parameter.kind == "str":
        return "" if text == "''" else text
    return _WRONG


def read(
    text: str, subject: Subject, draws: Iterable[str], targets: Iterable[str], problems: Problems
) -> Words:
    """Parse the words of one call; problems go to ``problems``."""
    return _Reader(subject, draws, targets, problems).read(text)


def check_names(subject: Subject, problems: Problems) -> None:
    """Check that each name of an operator means one thing."""
    groups = {
        "a dim or stride symbol": set(subject.symbols()),
        "a type variable": set(subject.types),
        "a tensor": set(subject.tensors()),
        "a parameter": {p.name for p in subject.parameters if p.kind != "Tensor"},
        "a word of its own": set(_OWN),
    }
    seen: dict[str, str] = {}
    for what, names in groups.items():
        for name in sorted(names):
            if name in seen:
                problems.add(f"{name!r} is {seen[name]} of {subject.name} and {what}: rename one of them")
            seen[name] = what
