"""AITER's Python side, read and never imported: which of its functions stands for which function of which module, and which
others come to call those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

#: The decorator that names a module and a function in it: ``@compile_ops("module_x", fc_name="f")``.
DECORATOR: Final = "compile_ops"
#: How AITER's files call the package itself.
_PACKAGE: Final = ("aiter", "torch.ops.aiter")
_STAR: Final = "*"


@dataclass(frozen=True, slots=True)
class Place:
    """A Python function: its module (``aiter.ops.norm``), its name, the names of its parameters."""

    file: str
    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """``place`` stands for ``function`` of the JIT module ``module``."""

    place: Place
    module: str
    function: str


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function; or a class, whose methods a caller of it may come to."""

    place: Place
    called: bool
    binds: tuple[str, str] | None
    uses: frozenset[str]


class PythonSide:
    """All files together. ``texts``: Python module -> its text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._known: dict[str, list[_Definition]] = {}
        self._reached: dict[str, frozenset[tuple[str, str]]] = {}
        for file, text in texts.items():
            for found in _definitions(file, ast.parse(text)):
                self._known.setdefault(found.place.name, []).append(found)

    def bindings(self) -> Iterator[Binding]:
        """Every function that stands for one of a JIT module."""
        for found in self._all():
            if found.binds is not None:
                yield Binding(found.place, *found.binds)

    def named(self, name: str) -> tuple[Place, ...]:
        """Return the functions of that name."""
        return tuple(found.place for found in self._known.get(name, ()) if found.called)

    def functions_reached_by(self, name: str) -> frozenset[tuple[str, str]]:
        """(JIT module, function in it) of all that a call of ``name`` may come to, however far away."""
        if name not in self._reached:
            self._reached[name] = self._walk(name)
        return self._reached[name]

    def _walk(self, name: str) -> frozenset[tuple[str, str]]:
        seen = {name}
        todo = [name]
        bound: set[tuple[str, str]] = set()
        while todo:
            for found in self._known.get(todo.pop(), ()):
                if found.binds is not None:
                    bound.add(found.binds)
                    continue  # its body is never executed
                fresh = found.uses - seen
                seen |= fresh
                todo += fresh
        return frozenset(bound)

    def _all(self) -> Iterator[_Definition]:
        for several in self._known.values():
            yield from several


def _definitions(file: str, tree: ast.Module) -> Iterator[_Definition]:
    imported, packages = _imported(tree)
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    texts: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            # a later assignment holds for later functions: several modules of AITER name theirs so
            texts |= {to.id: str(node.value.value) for to in node.targets if isinstance(to, ast.Name)}
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            place = Place(file, node.name, tuple(each.arg for each in every))
            uses = frozenset(_used(node, own, imported, packages))
            yield _Definition(place, True, _bound(node, texts), uses)
        elif isinstance(node, ast.ClassDef):
            uses = frozenset(_used(node, own, imported, packages))
            yield _Definition(Place(file, node.name, ()), False, None, uses)


def _bound(node: ast.FunctionDef, texts: Mapping[str, str]) -> tuple[str, str] | None:
    """Read the JIT module and its function from a decorator."""
    for each in node.decorator_list:
        if not isinstance(each, ast.Call) or ast.unparse(each.func).rpartition(".")[2] != DECORATOR:
            continue
        keywords = {keyword.arg: keyword.value for keyword in each.keywords}
        named = [*each.args, *([keywords["_md_name"]] if "_md_name" in keywords else [])]
        module = _text(named[0], texts) if named else None
        other = named[1] if len(named) > 1 else keywords.get("fc_name")
        if module is not None:
            return module, (_text(other, texts) if other is not None else None) or node.name
    return None


def _text(node: ast.expr, texts: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id) if isinstance(node, ast.Name) else None


def _imported(tree: ast.Module) -> tuple[dict[str, str], set[str]]:
    """Name here -> name there, of what is imported from AITER, wherever in the file; and names of its modules here."""
    names: dict[str, str] = {}
    packages = set(_PACKAGE)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "aiter"):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
            packages |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            packages |= {
                alias.asname or alias.name for alias in node.names if alias.name.split(".")[0] == "aiter"
            }
    return names, packages


def _used(
    node: ast.FunctionDef | ast.ClassDef,
    own: Iterable[str],
    imported: Mapping[str, str],
    packages: Iterable[str],
) -> Iterator[str]:
    """Names of AITER's functions that the body may call: its file's own, imported ones, and attributes of its modules."""
    here, modules = set(own), set(packages)
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id != node.name:
            if each.id in here or _STAR in imported:
                yield each.id
            elif each.id in imported:
                yield imported[each.id]
        elif isinstance(each, ast.Attribute) and ast.unparse(each.value) in modules:
            yield each.attr
