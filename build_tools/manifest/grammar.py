"""The one-line grammar of arguments and attributes: text to records.

argument  := [out|inout] TYPE "[" dims "]" ["strides" "[" strides "]"] ["align" N] ["in place of" NAME] ["optional"]
attribute := int | bool | float | enum(a, b, ...) | text, each with an optional "= default"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aiter_prebuilt.contract.dtype import BY_NAME, TARGET_FP8
from aiter_prebuilt.contract.records import ATTRIBUTE_KINDS, NO_TEXT, ROLES

_ARGUMENT: Final = re.compile(
    r"^(?:(?P<role>out|inout)\s+)?(?P<type>\w+)\s*\[(?P<dims>[^\]]*)\]"
    r"(?:\s+strides\s*\[(?P<strides>[^\]]*)\])?(?:\s+align\s+(?P<align>\d+))?"
    r"(?:\s+in place of\s+(?P<in_place>\w+))?(?P<optional>\s+optional)?$"
)
_ATTRIBUTE: Final = re.compile(
    r"^(?P<kind>int|bool|float|enum|text)\s*(?:\((?P<values>[^)]*)\))?\s*(?:=\s*(?P<default>\S+))?$"
)
#: Bytes: the largest power of two in the 32 bits that a bundle has for it.
MAX_ALIGN: Final = 1 << 31
#: Default values as the runtime reads them; Python's own int() and float() take more ("1_000", "+1").
_NUMBERS: Final = {
    "int": re.compile(r"-?[0-9]{1,18}"),
    "float": re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-?(?:inf|nan)"),
}
_SYMBOL: Final = re.compile(r"^[A-Za-z_]\w*$")


class SignatureError(ValueError):
    """An argument or attribute text outside the grammar."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor of the signature. ``dims`` and ``strides`` are texts; ``strides`` is None for contiguous."""

    name: str
    role: str
    type: str
    star: bool
    dims: tuple[str, ...]
    strides: tuple[str, ...] | None
    align: int
    optional: bool
    in_place: str | None = None  # the tensor whose memory it may be

    def symbols(self) -> tuple[str, ...]:
        """Dims and strides that are plain names, in order: what this tensor binds."""
        return tuple(text for text in (*self.dims, *(self.strides or ())) if is_symbol(text))


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """A scalar of the signature. ``default`` is text, or None when the caller must give it."""

    name: str
    kind: str
    values: tuple[str, ...]
    default: str | None


def is_symbol(text: str) -> bool:
    """Tell whether a text is a name that binds.

    ``_`` is the stride that nobody looks at.
    """
    return text != "_" and _SYMBOL.match(text) is not None


def parse_tensor(name: str, text: str, types: dict[str, list[str]], *, returned: bool = False) -> TensorSpec:
    """Read one argument.

    Raises:
        SignatureError: with what is wrong in ``text``.
    """
    match = _ARGUMENT.match(text.strip())
    if match is None:
        raise SignatureError(
            f"{text!r} is not of the form '[out|inout] TYPE[dims] [strides [..]] [align N] [in place of NAME] [optional]'"
        )
    element = match["type"]
    if element not in types and element not in BY_NAME and element != TARGET_FP8:
        known = ", ".join([*types, *BY_NAME, TARGET_FP8])
        raise SignatureError(f"{element!r} is neither an element type nor a type variable (known: {known})")
    dims = _split(match["dims"])
    star = bool(dims) and dims[0].startswith("*")
    if star:
        dims = (dims[0][1:].strip(), *dims[1:])
    if any("*" in dim[:1] for dim in dims):
        raise SignatureError(f"only the first dim of {text!r} may be starred")
    strides = None if match["strides"] is None else _split(match["strides"])
    if strides is not None and len(strides) != len(dims):
        raise SignatureError(f"{text!r} has {len(dims)} dims and {len(strides)} strides")
    align = int(match["align"] or 1)
    if align & (align - 1) or align == 0:
        raise SignatureError(f"alignment {align} in {text!r} is not a power of two")
    if align > MAX_ALIGN:
        raise SignatureError(f"alignment {align} in {text!r} is more than {MAX_ALIGN}")
    role = match["role"] or ("out" if returned else ROLES[0])
    if returned and role != "out":
        raise SignatureError(f"a returned tensor is an output, not {role!r}")
    if match["in_place"] is not None and role != "out":
        raise SignatureError(f"{text!r}: only an 'out' can be in place of another tensor")
    optional = match["optional"] is not None
    return TensorSpec(name, role, element, star, dims, strides, align, optional, match["in_place"])


def _split(text: str) -> tuple[str, ...]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    if parts == [""]:
        return ()
    if "" in parts:
        raise SignatureError(f"an empty dim in [{text}]")
    return tuple(parts)


def parse_attribute(name: str, text: str) -> AttributeSpec:
    """Read one attribute.

    Raises:
        SignatureError: with what is wrong in ``text``.
    """
    match = _ATTRIBUTE.match(text.strip())
    if match is None:
        raise SignatureError(f"{text!r} is not of the form 'int|bool|float|enum(a, b)|text [= default]'")
    kind, default = match["kind"], match["default"]
    assert kind in ATTRIBUTE_KINDS
    values = tuple(value.strip() for value in (match["values"] or "").split(",") if value.strip())
    if (kind == "enum") != bool(values):
        raise SignatureError(f"{text!r}: an enum names its values, nothing else does")
    if default is not None:
        _check_default(kind, values, default, text)
    return AttributeSpec(name, kind, values, default)


def _check_default(kind: str, values: tuple[str, ...], default: str, text: str) -> None:
    if kind in _NUMBERS:
        fits = _NUMBERS[kind].fullmatch(default) is not None
    else:
        fits = default in {"enum": values, "bool": ("true", "false"), "text": (NO_TEXT,)}[kind]
    if not fits:
        raise SignatureError(f"{default!r} in {text!r} is not a value of {kind}")
