"""What the parser makes of the pseudocode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """``hexadecimal`` literals are bit patterns: a float cast of one reinterprets."""

    text: str
    width: int
    letter: str

    @property
    def hexadecimal(self) -> bool:
        return self.text.startswith("0x")


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """``base.name``: a view (u32, f16, bf8, ...) or a field of a named register."""

    base: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Index:
    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Slice:
    """``base[high : low]``; bits reversed when low is written first. ``counted``: ``base[start +: width]``."""

    base: Expression
    high: Expression
    low: Expression
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    width: int
    letter: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Choice:
    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Concatenation:
    """First part highest."""

    parts: tuple[Expression, ...]


Expression: TypeAlias = (
    Literal | Name | Member | Index | Slice | Call | Cast | Unary | Binary | Choice | Concatenation
)


@dataclass(frozen=True, slots=True)
class Assign:
    """``a = b = value``: targets from left to right. ``operator``: "" or "+" or "-"."""

    targets: tuple[Expression, ...]
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class If:
    """Pairs of condition and body; the condition of else is None."""

    branches: tuple[tuple[Expression | None, Body], ...]


@dataclass(frozen=True, slots=True)
class For:
    name: str
    first: Expression
    last: Expression
    body: Body


@dataclass(frozen=True, slots=True)
class Declare:
    """``count`` 0: one value, not an array."""

    name: str
    width: int
    letter: str
    count: int


@dataclass(frozen=True, slots=True)
class Lambda:
    name: str
    parameters: tuple[str, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Evaluate:
    value: Expression


Statement: TypeAlias = Assign | If | For | Declare | Lambda | Return | Break | Evaluate
Body: TypeAlias = tuple[Statement, ...]
