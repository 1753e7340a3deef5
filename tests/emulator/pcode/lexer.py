"""Words of AMD's pseudocode."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

KEYWORDS: Final = frozenset(
    ("if", "then", "elsif", "else", "endif", "for", "do", "endfor", "declare", "break", "return", "lambda")
)


@dataclass(frozen=True, slots=True)
class Token:
    """``kind``: number, cast, name, keyword, mark or end. Numbers and casts have ``width`` (0: none written) and ``letter``."""

    kind: str
    text: str
    at: int
    width: int = 0
    letter: str = ""


class PcodeError(Exception):
    """The text is not what the evaluator knows."""


_PATTERN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<cast>(?P<cw>\d+)'(?P<cl>BF|[UIFB])(?=\(|\b))
  | (?P<sized>(?P<sw>\d+)'(?P<sv>0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?P<sl>[UI]?)\b)
  | (?P<number>(?P<nv>0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?P<nl>ULL|LL|U|L|F)?\b)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<mark>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|\+:|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    """,
    re.VERBOSE,
)
_SUFFIX: Final = {
    "": (0, ""),
    "U": (32, "U"),
    "L": (64, "I"),
    "LL": (64, "I"),
    "ULL": (64, "U"),
    "F": (32, "F"),
}


def tokens(text: str) -> list[Token]:
    """All tokens of ``text``, an "end" last.

    Raises:
        PcodeError: a character that begins no token, for entries whose text is prose.
    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            raise PcodeError(f"no token at {text[at : at + 20]!r}")
        if match["cast"]:
            found.append(Token("cast", match["cast"], at, int(match["cw"]), match["cl"]))
        elif match["sized"]:
            letter = "F" if "." in match["sv"] else match["sl"]
            found.append(Token("number", match["sv"], at, int(match["sw"]), letter))
        elif match["number"]:
            width, letter = _SUFFIX[match["nl"] or ""]
            if "." in match["nv"] and not width:
                width, letter = 64, "F"
            found.append(Token("number", match["nv"], at, width, letter))
        elif match["name"]:
            word = match["name"]
            found.append(Token("keyword" if word in KEYWORDS else "name", word, at))
        elif match["mark"]:
            found.append(Token("mark", match["mark"], at))
        at = match.end()
    found.append(Token("end", "", len(text)))
    return found
