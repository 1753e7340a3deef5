"""Read the names that a module's C++ exports to Python.

Pybind definitions, spelled out or in macros, and functions with C names for ctypes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Every module has it for the stream of a call; nobody calls it by name.
PLUMBING: Final = frozenset(("_set_current_hip_stream",))
_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_MACRO: Final = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)
_WORD: Final = re.compile(r"\b[A-Z][A-Z0-9_]+\b")
_DEFINITION: Final = re.compile(r'\bm\s*\.\s*def\s*\(\s*"(\w+)"')
_TYPE: Final = re.compile(r'\b(?:py|pybind11)::(?:enum_|class_)\s*<[^;]*?>\s*\(\s*m\s*,\s*"(\w+)"')
_ENTRY: Final = re.compile(r"\bAITER_CTYPES_DEFINE_ENTRYPOINT(?:_VOID)?\s*\(\s*(\w+)\s*,")
_VISIBLE: Final = r'extern\s+"C"\s+__attribute__\s*\(\(\s*visibility\s*\(\s*"default"\s*\)\s*\)\)'
#: A macro of the tree's own for that.
_VISIBLE_WORD: Final = "AITER_C_ITFS"


@dataclass(frozen=True, slots=True)
class Exports:
    """Names, each once, in the order of the text. ``functions`` and ``types``: of the Python module; ``entries``: C names, which
    only a function of AITER's that knows their arguments can call.
    """

    functions: tuple[str, ...]
    types: tuple[str, ...]
    entries: tuple[str, ...]


def uncommented(text: str) -> str:
    """C++ without comments; strings stay."""
    return _COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)


def macros(text: str) -> dict[str, str]:
    """Name -> what stands for it, of a header without comments."""
    return {name: body.replace("\\\n", "\n") for name, body in _MACRO.findall(text)}


def exported(text: str, known: Mapping[str, str]) -> Exports:
    """Read the exports of one source without comments.

    ``known``: macros of the headers that it may use.
    """
    functions: list[str] = []
    types: list[str] = []
    if "PYBIND11_MODULE" in text:
        whole = _expanded(text[text.index("PYBIND11_MODULE") :], known)
        functions += _DEFINITION.findall(whole)
        types += _TYPE.findall(whole)
    own = (name for name, body in macros(text).items() if re.search(_VISIBLE, body))
    visible = "|".join([_VISIBLE, *(rf"\b{name}\b" for name in (_VISIBLE_WORD, *own))])
    undefined = re.sub(_MACRO, "", text)
    entries = _ENTRY.findall(undefined)
    entries += re.findall(rf"(?:{visible})\s+(?:[\w:<>*&]+\s+)+?[*&]*(\w+)\s*\(", undefined)
    return Exports(
        tuple(name for name in dict.fromkeys(functions) if name not in PLUMBING),
        tuple(dict.fromkeys(types)),
        tuple(dict.fromkeys(entries)),
    )


def _expanded(text: str, known: Mapping[str, str]) -> str:
    """``text``, and behind it what the macros in it, and in those, stand for."""
    seen: list[str] = []
    todo = [text]
    while todo:
        for word in _WORD.findall(todo.pop()):
            if word in known and word not in seen:
                seen.append(word)
                todo.append(known[word])
    return "\n".join([text, *(known[word] for word in seen)])
