"""The modules of a source tree: what each is made of, and the functions that it has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from build_tools.errors import UsageError
from build_tools.modules.bindings import Binding, Place, PythonSide
from build_tools.modules.classes import Text, classify
from build_tools.modules.config import FILE, Configured, parse
from build_tools.modules.exports import Exports, exported, macros, uncommented
from build_tools.tools.tree import Tree, tree_of

_TREE: Final = "aiter"
_SOURCES: Final = (".cu", ".cpp", ".cuh", ".h", ".hpp")
#: Parts of the Python package that compile by other means than modules.
_ELSEWHERE: Final = re.compile(r"ops/(triton|flydsl)/|aot/|configs/")
_MACROS: Final = "csrc/include/rocm_ops.hpp"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module. ``exported``: C++ has it; ``places``: the Python functions that stand for it."""

    name: str
    exported: bool
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """``first``: its class; ``kinds``: all that it is made of; ``types``: enumerations and classes that it has."""

    name: str
    first: str
    kinds: tuple[str, ...]
    functions: tuple[Function, ...]
    types: tuple[str, ...]
    third_party: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Modules:
    """All of one tree. ``version``: of the tree; ``pinned``: is it the pinned one?"""

    version: str
    pinned: bool
    modules: tuple[Module, ...]
    python: PythonSide


def read(root: Path, instead: str = "") -> Modules:
    """Read the modules of the pinned tree, or of a checkout.

    ``root`` is the repository that pins the tree; ``instead``: the checkout.

    Raises:
        FetchError: the tree cannot be had. ToolchainError: ``instead`` is no checkout. UsageError: it lists no modules.
    """
    tree = tree_of(_TREE, root, instead)
    where = f"{_TREE}:{FILE}"
    if not tree.has(where):
        raise UsageError(
            f"read the modules of {_TREE} {tree.version}",
            f"{tree.where(where)} is missing",
            "Name a whole checkout with --aiter or AITER_DIR, or none for the pinned wheel",
        )
    configured = parse(tree.text(where), tree.where(where))
    text = _reader(tree)
    python = PythonSide(_python(tree))
    bound: dict[str, list[Binding]] = {}
    for binding in python.bindings():
        bound.setdefault(binding.module, []).append(binding)
    known = macros(text(_MACROS) or "")
    found = [_module(each, tree, text, known, bound.get(each.name, [])) for each in configured]
    return Modules(tree.version, tree.pinned, tuple(found), python)


def _module(
    configured: Configured, tree: Tree, text: Text, known: dict[str, str], bound: list[Binding]
) -> Module:
    files = tuple(file for source in configured.sources for file in _files(source, tree))
    kind = classify(configured, files, text)
    said = [exported(each, known) for file in files if (each := text(file)) is not None]
    types = tuple(dict.fromkeys(name for each in said for name in each.types))
    return Module(
        name=configured.name,
        first=kind.first,
        kinds=kind.kinds,
        functions=tuple(_functions(said, bound, types)),
        types=types,
        third_party=configured.third_party,
    )


def _functions(said: Collection[Exports], bound: list[Binding], types: tuple[str, ...]) -> Iterable[Function]:
    names = dict.fromkeys(name for each in said for name in each.functions)
    there = {*names, *(name for each in said for name in each.entries)}
    for name in dict.fromkeys([*names, *(each.function for each in bound)]):
        if name not in types:
            places = tuple(each.place for each in bound if each.function == name)
            yield Function(name, name in there, places)


def _files(source: str, tree: Tree) -> list[str]:
    """Return a source, or those in the folder that it names."""
    if PurePosixPath(source).suffix or source.partition("/")[0] == "ck":
        return [source]
    return [f"{source}/{name}" for suffix in _SOURCES for name in tree.names(f"{_TREE}:{source}", suffix)]


def _reader(tree: Tree) -> Text:
    """Texts of the tree's C++, without comments, and of its generators as they are."""
    suffixes = (*_SOURCES, ".py")
    names = [
        f"{root}/{name}"
        for root in ("csrc", "gradlib")
        for suffix in suffixes
        for name in tree.names(f"{_TREE}:{root}", suffix)
    ]
    whole = tree.texts(f"{_TREE}:{name}" for name in names)
    kept: dict[str, str] = {}

    def text(name: str) -> str | None:
        said = whole.get(f"{_TREE}:{name}")
        if said is None or name.endswith(".py"):
            return said
        if name not in kept:
            kept[name] = uncommented(said)
        return kept[name]

    return text


def _python(tree: Tree) -> dict[str, str]:
    """Python module -> its text."""
    folder = f"{_TREE}:package"
    names = [name for name in tree.names(folder, ".py") if not _ELSEWHERE.match(name)]
    texts = tree.texts(f"{folder}/{name}" for name in names)
    return {
        ".".join([_TREE, *PurePosixPath(name).with_suffix("").parts]).removesuffix(".__init__"): texts[
            f"{folder}/{name}"
        ]
        for name in names
    }
