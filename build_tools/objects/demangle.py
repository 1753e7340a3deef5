"""C++ names of kernels, from their mangled symbols (Itanium ABI), in the house's words.

A name is what people type: namespaces, the function, its template arguments; no result and no parameters. Element types have the
house's names (``bf16``, ``f32``, ``i64``), whatever C++ spells them as, and a function that is an argument is its name alone::

    _ZN5aiter18act_and_mul_kernelIDF16bTnPFfRKT_EXadL_ZNS_11silu_kernelIDF16bEEfS3_EELi8EEEvPS1_PS2_i
    aiter::act_and_mul_kernel<bf16, aiter::silu_kernel<bf16>, 8>
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

_BUILTIN: Final = {
    "v": "void", "b": "bool", "c": "char", "a": "i8", "h": "u8", "s": "i16", "t": "u16", "i": "i32", "j": "u32", "l": "i64",
    "m": "u64", "x": "i64", "y": "u64", "f": "f32", "d": "f64", "w": "wchar_t", "z": "...",
    "DF16_": "f16", "Dh": "f16", "DF16b": "bf16", "Dn": "nullptr_t", "Da": "auto", "Dc": "decltype(auto)", "Di": "char32_t",
    "Ds": "char16_t",
}  # fmt: skip
#: The classes that stand for an element type where torch's or HIP's own are passed.
_ELEMENTS: Final = {
    "c10::Half": "f16", "c10::BFloat16": "bf16", "__hip_bfloat16": "bf16",
    "stand_in::e4m3fn": "e4m3fn", "stand_in::e4m3fnuz": "e4m3fnuz", "stand_in::fp4x2_t": "fp4x2",
}  # fmt: skip
#: Integers of a width of bits in which AITER's later sources keep 8-bit floats.
_FLOATS: Final = {"i8": "fp8", "u8": "bf8"}
_STD: Final = {
    "St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string", "Si": "std::istream",
    "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
#: Operators of two operands in what a result depends on, as in an ``enable_if``.
_BINARY: Final = {
    "oo": "||",
    "aa": "&&",
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
}
_QUALIFIER: Final = {"r": " restrict", "V": " volatile", "K": " const"}
_SUFFIX: Final = {"P": "*", "R": "&", "O": "&&"}


class DemangleError(ValueError):
    """The symbol is none, or has something that no kernel's name had so far."""


@lru_cache(maxsize=65536)
def kernel_name(symbol: str) -> str:
    """Return the name of the kernel ``symbol``.

    The symbol itself where it is not mangled, or cannot be read.
    """
    if not symbol.startswith("_Z"):
        return symbol
    try:
        reader = _Reader(symbol, 2)
        name = reader.encoding(alone=False)
    except (DemangleError, IndexError, RecursionError):
        return symbol
    return name


class _Reader:
    """One pass over a symbol. ``seen``: what ``S_``, ``S0_`` ... mean; ``given``: what ``T_``, ``T0_`` ... mean."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.seen: list[str] = []
        self.given: list[str] = []

    def peek(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def take(self, word: str) -> bool:
        if not self.peek(word):
            return False
        self.at += len(word)
        return True

    def fail(self) -> DemangleError:
        return DemangleError(f"{self.text} at {self.at}")

    def need(self, word: str) -> None:
        if not self.take(word):
            raise self.fail()

    def number(self) -> int:
        match = re.compile(r"\d+").match(self.text, self.at)
        if match is None:
            raise self.fail()
        self.at = match.end()
        return int(match[0])

    def index(self) -> int:
        """Read a number in base 36 up to ``_``.

        The digits are 0 to Z: nothing is 0, ``0`` is 1.
        """
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at : end], end + 1
        return int(digits, 36) + 1 if digits else 0

    def remember(self, text: str) -> str:
        self.seen.append(text)
        return text

    def encoding(self, *, alone: bool) -> str:
        """Read a function's name.

        Its parameters are skipped, up to the ``E`` behind them if it does not stand alone at the end.
        """
        outer, self.given = self.given, []
        name = self.name()
        while self.at < len(self.text) and not self.peek("E") and not self.peek("."):
            self.type()
        self.given = outer
        if alone:
            self.need("E")
        return name

    def name(self) -> str:
        if self.take("N"):
            return self.nested()
        if self.take("Z"):
            return self.local()
        if self.peek("St") or not self.peek("S"):
            name = self.unqualified("std::" if self.take("St") else "")
            if self.peek("I"):
                self.remember(name)
                name += self.arguments()
            return name
        name = self.substitution()
        return name + self.arguments() if self.peek("I") else name

    def local(self) -> str:
        """Read the name of a local entity."""
        function = self.encoding(alone=True)
        if self.take("s"):
            return function
        if self.take("d"):
            self.index()
        name = f"{function}::{self.name()}"
        if self.take("_"):
            self.take("_") if self.peek("_") else self.number()
        return name

    def nested(self) -> str:
        while self.at < len(self.text) and self.text[self.at] in "rVKRO":
            self.at += 1
        name = ""
        while not self.take("E"):
            if self.peek("I"):
                name += self.arguments()
            elif self.peek("S") and not self.peek("St"):
                name = self.substitution()
                continue
            elif self.take("St"):
                name = "std"
                continue
            elif self.peek("T"):
                name = self.type()
                continue
            else:
                part = self.unqualified("")
                name = f"{name}::{part}" if name else part
            if not self.peek("E"):
                self.remember(name)
        return name

    def unqualified(self, before: str) -> str:
        self.take("L")
        if self.take("Ul"):
            while not self.take("E"):
                self.type()
            which = self.index()
            return f"{before}lambda{which + 1}"
        if self.take("Ut"):
            return f"{before}unnamed{self.index() + 1}"
        if self.text[self.at].isdigit():
            length = self.number()
            word = self.text[self.at : self.at + length]
            if len(word) != length:
                raise self.fail()
            self.at += length
            return before + ("(anonymous)" if word.startswith("_GLOBAL__N") else word)
        if re.compile(r"[CD][0-9]").match(self.text, self.at):
            self.at += 2
            return f"{before}constructor"
        if re.compile(r"[a-z]{2}|cv").match(self.text, self.at):
            word, self.at = self.text[self.at : self.at + 2], self.at + 2
            return f"{before}operator {self.type() if word == 'cv' else word}"
        raise self.fail()

    def substitution(self) -> str:
        for word, meaning in _STD.items():
            if self.take(word):
                return meaning
        self.need("S")
        place = self.index()
        if place >= len(self.seen):
            raise self.fail()
        return self.seen[place]

    def arguments(self) -> str:
        self.need("I")
        found: list[str] = []
        while not self.take("E"):
            if self.take("J"):
                while not self.take("E"):
                    found.append(self.argument())
            else:
                found.append(self.argument())
        self.given = found
        return f"<{', '.join(found)}>"

    def argument(self) -> str:
        if self.take("Tn"):  # the type of a value whose parameter says `auto` or depends on another
            self.type()
        if self.take("X"):
            text = self.expression()
            self.need("E")
            return text
        return self.literal() if self.peek("L") else self.type()

    def expression(self) -> str:
        if self.take("ad"):
            return self.expression()
        if self.peek("L"):
            return self.literal()
        if self.peek("T"):
            return self.type()
        if self.take("nt"):
            return f"!{self.expression()}"
        if self.take("sr"):
            return self.member()
        operator = _BINARY.get(self.text[self.at : self.at + 2])
        if operator is None:
            raise self.fail()
        self.at += 2
        return f"({self.expression()} {operator} {self.expression()})"

    def member(self) -> str:
        """Read the name of a dependent member.

        It is the class, ``E``, its name.
        """
        name = ""
        while not self.take("E"):
            name = self.unqualified(f"{name}::" if name else "")
            if self.peek("I"):
                name += self.arguments()
        return f"{name}::{self.unqualified('')}"

    def literal(self) -> str:
        self.need("L")
        if self.take("_Z"):
            return self.encoding(alone=True)
        kind = self.type()
        end = self.text.index("E", self.at)
        value, self.at = self.text[self.at : end], end + 1
        if kind == "bool":
            return "true" if value == "1" else "false"
        number = value.replace("n", "-")
        return number if kind in _BUILTIN.values() else f"{kind}({number})"

    def type(self) -> str:
        for word, meaning in _BUILTIN.items():
            if self.take(word):
                return meaning
        head = self.text[self.at]
        readers: dict[str, Callable[[], str]] = {"F": self.function, "A": self.array, "T": self.parameter}
        if head in _SUFFIX:
            self.at += 1
            return self.remember(self.type() + _SUFFIX[head])
        if head in _QUALIFIER:
            self.at += 1
            words = _QUALIFIER[head]
            while self.text[self.at] in _QUALIFIER:
                words = _QUALIFIER[self.text[self.at]] + words
                self.at += 1
            return self.remember(self.type() + words)
        if head in readers:
            return readers[head]()
        if self.take("Dv"):
            count = self.number()
            self.need("_")
            return self.remember(f"{self.type()}x{count}")
        if self.take("DB") or self.peek("DU"):
            signed = "i" if not self.take("DU") else "u"
            bits = self.number()
            self.need("_")
            return self.remember(_FLOATS.get(f"{signed}{bits}", f"{signed}{bits}"))
        if self.take("Dp"):
            return self.type()
        if self.take("u"):
            return self.remember(self.unqualified(""))
        if self.take("U"):
            self.unqualified("")
            return self.remember(self.type())
        return self.named()

    def named(self) -> str:
        """Read a class or an enumeration.

        It may be met again as a whole.
        """
        known = self.peek("S") and not self.peek("St")
        before = self.at
        name = self.name()
        if not (known and "I" not in self.text[before : self.at]):
            self.remember(_ELEMENTS.get(name, name))
        return _ELEMENTS.get(name, name)

    def parameter(self) -> str:
        self.need("T")
        place = self.index()
        found = self.given[place] if place < len(self.given) else "auto"
        self.remember(found)
        if self.peek("I"):
            return self.remember(found + self.arguments())
        return found

    def function(self) -> str:
        self.need("F")
        self.take("Y")
        parts = []
        while not self.take("E"):
            parts.append(self.type())
        return self.remember(f"{parts[0]}({', '.join(parts[1:])})")

    def array(self) -> str:
        self.need("A")
        count = "" if self.peek("_") else str(self.number())
        self.need("_")
        return self.remember(f"{self.type()}[{count}]")
