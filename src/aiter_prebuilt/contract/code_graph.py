"""Digest of a function and of everything that it calls, by meaning (``code_text.py``).

The graph follows names from definition to definition through the modules of some packages. Definitions count in the order in
which they are met, so neither a rename nor a move to another file changes the digest. Annotations are not followed.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aiter_prebuilt.contract.code_text import Definition, Part, bound_names, imported_names, statement_parts

#: Hexadecimal digits: enough to tell the states of one program apart.
_DIGITS = 16
#: The name under which a module's statements that define nothing are known.
ALWAYS = "(always)"
#: Statements that only bind names: who uses none of them does not see the statement.
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign)


@dataclass(frozen=True, slots=True)
class Module:
    """One file.

    Args:
        binds: name -> the statements that give it a value, in order.
        always: statements that may change what any definition sees.
        imports: name -> target.
    """

    binds: Mapping[str, tuple[ast.stmt, ...]]
    always: tuple[ast.stmt, ...]
    imports: Mapping[str, Definition]


@dataclass(slots=True)
class CodeGraph:
    """Definitions of some packages.

    Args:
        folders: package -> its folder. Everything else is known by name alone.
        without: modules that are not followed either; ``PACKAGE.*`` is all that lies in a package.
        cut: definitions that are not followed.
    """

    folders: Mapping[str, Path]
    without: Collection[str] = ()
    cut: Collection[Definition] = ()
    _modules: dict[str, Module | None] = field(default_factory=dict)
    _parts: dict[Definition, tuple[Part, ...]] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add a module that lies in no package.

        Raises:
            SyntaxError, ValueError: the text is no Python.
        """
        self._modules[name] = _module(ast.parse(text))
        self._parts = {where: parts for where, parts in self._parts.items() if where[0] != name}

    def digest(self, roots: Iterable[Definition]) -> str:
        """Hash the definitions that are reached from ``roots``.

        Raises:
            LookupError: a root is not there.
            OSError, SyntaxError: a module cannot be read.
        """
        state = hashlib.sha256()
        for part in self._written([*roots]):
            state.update(part.encode())
        return state.hexdigest()[:_DIGITS]

    def reachable(self, roots: Iterable[Definition]) -> tuple[Definition, ...]:
        """List the definitions that are reached from ``roots``, in order."""
        found = dict.fromkeys(self._root(root) for root in roots)
        left = list(found)
        while left:
            where = left.pop(0)
            new = dict.fromkeys(
                part for part in self.parts(where) if isinstance(part, tuple) and part not in found
            )
            found |= new
            left += new
        return tuple(found)

    def names(self, module: str) -> tuple[str, ...]:
        """List what a module defines."""
        known = self._module(module)
        return tuple(known.binds) if known else ()

    def imports(self, module: str) -> Mapping[str, Definition]:
        """Name -> what a module imports under it."""
        known = self._module(module)
        return known.imports if known else {}

    def _written(self, roots: list[Definition]) -> Iterable[str]:
        numbers = {where: place for place, where in enumerate(map(self._root, roots))}
        left = list(numbers)
        for where in left:  # grows
            yield "\n"
            for part in self.parts(where):
                if isinstance(part, tuple):
                    if part not in numbers:
                        numbers[part] = len(numbers)
                        left.append(part)
                    yield f"#{numbers[part]}"
                else:
                    yield part

    def _root(self, where: Definition) -> Definition:
        found = self.resolve(*where)
        if not isinstance(found, tuple):
            raise LookupError(f"{where[0]} has no {where[1]}")  # noqa: TRY004  # a name, not a type, is wrong
        return found

    def parts(self, where: Definition) -> tuple[Part, ...]:
        """Write the statements that bind a name; a whole module is all of its names."""
        known = self._parts.get(where)
        if known is None:
            module_name, name = where
            module = self._module(module_name)
            assert module is not None
            parts: list[Part] = []
            if not name:  # a module that is handed on: anything of it may be used
                parts += [(module_name, each) for each in module.binds]
            elif name == ALWAYS:
                for statement in module.always:
                    parts += self._statement(statement, module_name)
            else:
                for statement in module.binds[name]:
                    parts += self._statement(statement, module_name)
            if name != ALWAYS and module.always:
                parts.append((module_name, ALWAYS))
            known = self._parts[where] = tuple(parts)
        return known

    def _statement(self, statement: ast.stmt, module: str) -> tuple[Part, ...]:
        return statement_parts(statement, lambda name, attribute: self._name(module, name, attribute))

    def _name(self, module: str, name: str, attribute: str) -> Part | None:
        """Resolve a name of a module, or an attribute of a module that it imports; None: no definition is known."""
        if name.startswith("import "):
            return self.resolve(name.removeprefix("import "), attribute)
        known = self._module(module)
        assert known is not None
        if name in known.binds:
            return None if attribute else self.resolve(module, name)
        if name not in known.imports:
            return None
        target = self._target(*known.imports[name])
        if not attribute:
            return self.resolve(*target)
        owner = self.resolve(*target)
        if isinstance(owner, tuple):
            return self.resolve(owner[0], attribute) if not owner[1] else None
        return f"{owner}.{attribute}"

    def _target(self, module: str, name: str) -> Definition:
        """Tell a module of a package from a name of the package."""
        inside = f"{module}.{name}" if name else module
        return (inside, "") if name and self._path(inside) is not None else (module, name)

    def resolve(self, module: str, name: str) -> Part:
        """Find the definition behind a name of a module, through modules that import it; text where it is not followed."""
        module, name = self._target(module, name)
        # A module of the packages is known by its own name: it may move, too.
        called = module.rpartition(".")[2] if self._path(module) is not None else module
        outside = f"@{called}.{name}" if name else f"@{called}"
        if self._beyond(module) or (module, name) in self.cut:
            return outside
        known = self._module(module)
        if known is None:
            return outside
        if not name or name in known.binds:
            return (module, name)
        if name in known.imports:
            return self.resolve(*known.imports[name])
        return outside

    def _beyond(self, module: str) -> bool:
        parents = module.split(".")[:-1]
        packages = (".".join(parents[: count + 1]) for count in range(len(parents)))
        return module in self.without or any(f"{each}.*" in self.without for each in packages)

    def _module(self, name: str) -> Module | None:
        if name not in self._modules:
            path = self._path(name)
            text = path.read_text(encoding="utf-8") if path is not None else None
            self._modules[name] = None if text is None else _module(ast.parse(text))
        return self._modules[name]

    def _path(self, module: str) -> Path | None:
        for package, folder in self.folders.items():
            if module == package or module.startswith(f"{package}."):
                place = folder.joinpath(*module.removeprefix(package).split(".")[1:])
                for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                    if path.is_file():
                        return path
        return None


def _module(tree: ast.Module) -> Module:
    binds: dict[str, tuple[ast.stmt, ...]] = {}
    always: list[ast.stmt] = []
    imports: dict[str, Definition] = {}
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports.update(imported_names(statement))
            continue
        if isinstance(statement, (ast.If, ast.Try)):
            for node in ast.walk(statement):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    imports.update(imported_names(node))
        if isinstance(statement, ast.If) and _of_types(statement):
            continue
        names = dict.fromkeys(bound_names([statement]))
        for name in names:
            binds[name] = (*binds.get(name, ()), statement)
        if not (names and isinstance(statement, _DEFINES)) and not _is_text(statement):
            always.append(statement)  # QMAX["i8"] = 1: whoever reads QMAX sees it
    return Module(binds, tuple(always), imports)


def _of_types(statement: ast.If) -> bool:
    """Is this ``if TYPE_CHECKING:``?"""
    return (
        isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING" and not statement.orelse
    )


def _is_text(statement: ast.stmt) -> bool:
    """Is this a docstring?"""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
