"""AITER's ``optCompilerConfig.json`` as data: what its JIT makes each module of.

Its values are texts of Python expressions, which AITER evaluates on the machine that compiles. Here they are parsed, never run:
what only that machine knows stays in braces.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from build_tools.errors import UsageError

FILE: Final = "package/jit/optCompilerConfig.json"
#: An expression in braces -> the root of the tree that it means; the tree's own folder has none.
_PLACES: Final = {
    "AITER_CSRC_DIR": "csrc",
    "CK_DIR": "ck",
    "AITER_GRADLIB_DIR": "gradlib",
    "get_asm_dir()": "hsa",
    "AITER_META_DIR": "",
}


@dataclass(frozen=True, slots=True)
class Configured:
    """One module. ``sources`` and ``includes``: files and folders, ``ROOT/path``; ``generators``: commands that write more
    sources; ``third_party``: what else has to be there.
    """

    name: str
    sources: tuple[str, ...]
    generators: tuple[str, ...]
    includes: tuple[str, ...]
    third_party: tuple[str, ...]


def parse(text: str, where: str) -> tuple[Configured, ...]:
    """Return the modules, in the order of the file.

    ``where``: what the file is called in an error.

    Raises:
        UsageError: it is no such file.
    """
    try:
        table = json.loads(text)
        if not isinstance(table, dict):
            raise TypeError("not an object of modules")
        return tuple(_module(name, entry) for name, entry in table.items())
    except (ValueError, TypeError, SyntaxError) as error:
        raise UsageError(
            f"read AITER's modules in {where}",
            str(error),
            "Name another checkout with --aiter or AITER_DIR, or none for the pinned wheel",
        ) from None


def _module(name: str, entry: Any) -> Configured:
    if not isinstance(entry, dict):
        raise TypeError(f"{name} is not an object")
    return Configured(
        name=name,
        sources=tuple(texts(entry.get("srcs"))),
        generators=tuple(filter(None, texts(entry.get("blob_gen_cmd")))),
        includes=tuple(texts(entry.get("extra_include"))),
        third_party=tuple(texts(entry.get("third_party"))),
    )


def texts(value: Any) -> Iterator[str]:
    """Yield the strings that an expression may evaluate to.

    Of a condition both ends; a list gives those of its items.

    Raises:
        SyntaxError: it is no expression. TypeError: it is no text.
    """
    if value is None:
        return
    if isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield from _strings(ast.parse(value.strip(), mode="eval").body)
    else:
        raise TypeError(f"{value!r} is no text of an expression")


def _strings(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(map(_part, node.values)).removeprefix("/").rstrip("/")
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        said = ast.unparse(node.value)
        return _PLACES.get(said, f"{{{said}}}")
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
