"""Canonical text of a Python statement.

Two statements have the same text exactly when they do the same. Comments, layout, docstrings, annotations, the words of errors
and the names of local variables do not show. Names of other definitions are left as references, which the reader of the text
numbers (``code_graph.py``). The text is the same in every supported Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

#: A definition: its module and its name there. An empty name is the whole module.
Definition: TypeAlias = tuple[str, str]
#: Text, or a reference to a definition.
Part: TypeAlias = "str | Definition"
#: Name of a module or of a variable, attribute or "" -> the definition; None for a builtin; text for what is not followed.
Resolve: TypeAlias = Callable[[str, str], "Part | None"]
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)
#: Fields that change nothing a program does. ``type_params`` came with Python 3.12.
_SILENT: Final = frozenset({"annotation", "returns", "type_comment", "type_params", "kind", "ctx", "simple"})


def statement_parts(statement: ast.stmt, resolve: Resolve) -> tuple[Part, ...]:
    """Write a statement of a module.

    Args:
        statement: a statement of the module's own body.
        resolve: finds the definition behind a name that no function of the statement binds.

    Returns:
        Text and references in order.
    """
    writer = _Writer(resolve, top=statement)
    writer.node(statement, ())
    return tuple(_merged(writer.parts))


def _merged(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighbouring texts."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            yield "".join(texts)
        texts = []
        yield part
    if texts:
        yield "".join(texts)


@dataclass(slots=True)
class _Scope:
    """Names that a function, comprehension or class binds; the value is what stands for the name."""

    names: dict[str, Part | None]
    of_class: bool = False


_Scopes: TypeAlias = "tuple[_Scope, ...]"


@dataclass(slots=True)
class _Writer:
    resolve: Resolve
    parts: list[Part] = field(default_factory=list)
    #: The statement itself: its own name is the definition's, and does not show.
    top: ast.stmt | None = None
    locals: int = 0
    #: Inside ``raise``: strings are words for people.
    quiet: bool = False

    def value(self, value: Any, scopes: _Scopes) -> None:
        """Write a field of a node."""
        if isinstance(value, ast.AST):
            self.node(value, scopes)
        elif isinstance(value, list):
            self.parts.append("[")
            for each in value:
                if not _says_nothing(each):
                    self.value(each, scopes)
            self.parts.append("]")
        else:
            self.parts.append(f"{type(value).__name__} {value!r},")

    def node(self, node: ast.AST, scopes: _Scopes) -> None:
        """Write a node and all below it."""
        if isinstance(node, ast.Name):
            self.name(node.id, "", scopes)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            self.attribute(node.value.id, node.attr, scopes)
        elif isinstance(node, ast.Constant):
            silent = self.quiet and isinstance(node.value, str)
            self.parts.append("words()" if silent else f"{type(node.value).__name__} {node.value!r},")
        elif isinstance(node, ast.JoinedStr):
            self.formatted(node, scopes)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            return  # the names that it binds show where they are used
        elif isinstance(node, _SCOPES):
            self.scope(node, scopes)
        elif isinstance(node, ast.Raise):
            before, self.quiet = self.quiet, True
            self.fields("Raise", ast.iter_fields(node), scopes)
            self.quiet = before
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                self.name(name, type(node).__name__, scopes)
        elif isinstance(node, ast.AnnAssign):
            self.annotated(node, scopes)
        else:
            self.fields(type(node).__name__, ast.iter_fields(node), scopes)

    def fields(self, kind: str, fields: Iterable[tuple[str, Any]], scopes: _Scopes) -> None:
        """Write a node by its fields."""
        self.parts.append(f"{kind}(")
        for name, value in fields:
            if name in _SILENT or value is None:
                continue
            self.parts.append(f"{name}=")
            if kind in _BINDING and name in ("name", "rest"):  # a variable as a text
                self.name(value, "", scopes)
            else:
                self.value(value, scopes)
        self.parts.append(")")

    def formatted(self, node: ast.JoinedStr, scopes: _Scopes) -> None:
        """Write an f-string; in an error, only the values in it."""
        values = [*_joined(node.values)]
        if self.quiet:
            values = [value for value in values if not isinstance(value, ast.Constant)]
        self.parts.append("words(" if self.quiet else "JoinedStr(")
        for value in values:
            self.node(value, scopes)
        self.parts.append(")")

    def annotated(self, node: ast.AnnAssign, scopes: _Scopes) -> None:
        """Write an annotated assignment. Only a class reads annotations: they are the fields of a dataclass."""
        in_class = bool(scopes) and scopes[-1].of_class
        if in_class:
            self.parts.append(f"Field({getattr(node.target, 'id', '')}: ")
            _Writer(lambda name, attribute: f"{name}.{attribute}", self.parts).node(node.annotation, ())
            if node.value is not None:
                self.node(node.value, scopes)
            self.parts.append(")")
        elif node.value is not None:  # as one without an annotation
            self.fields("Assign", [("targets", [node.target]), ("value", node.value)], scopes)

    def name(self, name: str, kind: str, scopes: _Scopes) -> None:
        """Write a variable."""
        found = self.found(name, scopes)
        self.parts += [f"{kind}:", found, ","] if kind else [found, ","]

    def attribute(self, owner: str, attribute: str, scopes: _Scopes) -> None:
        """Write ``owner.attribute``: of a module it is a definition."""
        if not any(owner in scope.names for scope in _seen(scopes)):
            found = self.resolve(owner, attribute)
            if found is not None:
                self.parts += [found, ","]
                return
        self.parts.append("Attribute(")
        self.name(owner, "", scopes)
        self.parts.append(f"{attribute})")

    def found(self, name: str, scopes: _Scopes) -> Part:
        """Find what stands for a name: the innermost scope that binds it, the module, else the name."""
        for scope in _seen(scopes):
            if name in scope.names:
                known = scope.names[name]
                if known is None:
                    self.locals += 1
                    known = scope.names[name] = f"%{self.locals}"
                return known
        return self.resolve(name, "") or name

    def scope(self, node: ast.AST, scopes: _Scopes) -> None:
        """Write a function, lambda, comprehension or class."""
        if node is not self.top and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.name(node.name, "", scopes)
        if isinstance(node, ast.ClassDef):
            inner = _Scope({name: name for name in bound_names(node.body)}, of_class=True)
            outside = [
                ("bases", node.bases),
                ("keywords", node.keywords),
                ("decorators", node.decorator_list),
            ]
            self.fields("ClassDef", outside, scopes)
            self.fields("", [("body", node.body)], (*scopes, inner))
            return
        if isinstance(node, _COMPREHENSIONS):
            targets = [each.target for each in node.generators]
            inside = (*scopes, _Scope(dict.fromkeys(bound_names(targets))))
            self.fields(type(node).__name__, ast.iter_fields(node), inside)
            return
        assert isinstance(node, _FUNCTIONS)
        body = node.body if isinstance(node.body, list) else [node.body]
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
        mine = list(_own(body))
        names: dict[str, Part | None] = dict.fromkeys(_bound(mine))
        for node_of_import in mine:
            if isinstance(node_of_import, (ast.Import, ast.ImportFrom)):
                for name, target in imported_names(node_of_import).items():
                    names[name] = self.imported(*target)
        names |= {each.arg: each.arg for each in every}  # callers name them
        decorators = getattr(node, "decorator_list", [])
        outside = [("decorators", decorators), ("defaults", [*arguments.defaults, *arguments.kw_defaults])]
        self.fields(type(node).__name__, outside, scopes)
        shape = (len(arguments.posonlyargs), len(arguments.args), arguments.vararg is not None)
        self.parts.append(f"{shape} {[each.arg for each in every]!r}")
        self.fields("", [("body", body)], (*scopes, _Scope(names)))

    def imported(self, module: str, name: str) -> Part:
        """Find what a function imports by itself."""
        return self.resolve(f"import {module}", name) or f"@{module}.{name}"


#: Nodes whose ``name`` is a variable that they bind.
_NAMED: Final = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar,
)  # fmt: skip
#: Nodes that bind a variable which they hold as a text.
_BINDING: Final = frozenset({"ExceptHandler", "MatchAs", "MatchStar", "MatchMapping"})


def _seen(scopes: _Scopes) -> Iterator[_Scope]:
    """Scopes from the inside out. A function does not see the names of a class around it."""
    for place, scope in enumerate(reversed(scopes)):
        if not scope.of_class or place == 0:
            yield scope


def _says_nothing(value: Any) -> bool:
    """Is this a docstring, ``...`` or ``pass``?"""
    return isinstance(value, ast.Pass) or (
        isinstance(value, ast.Expr) and isinstance(value.value, ast.Constant)
    )


def _joined(values: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """Merge neighbouring texts of an f-string: Python 3.12 splits them in another way."""
    text = ""
    for value in values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        yield value
    if text:
        yield ast.Constant(text)


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes that belong to one scope; of an inner one its name, and the names that ``:=`` binds out of comprehensions."""
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        if isinstance(node, _COMPREHENSIONS):
            yield from (each.target for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        elif not isinstance(node, _SCOPES):
            left += ast.iter_child_nodes(node)


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """List the names that statements of one scope give a value, imports aside."""
    return _bound(list(_own(nodes)))


def _bound(mine: Sequence[ast.AST]) -> Iterator[str]:
    others = {name for node in mine if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    for node in mine:
        names: list[str | None] = []
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names = [node.id]
        elif isinstance(node, _NAMED):
            names = [node.name]
        elif isinstance(node, ast.MatchMapping):
            names = [node.rest]
        yield from (name for name in names if name is not None and name not in others)


def imported_names(node: ast.Import | ast.ImportFrom) -> Mapping[str, Definition]:
    """Name the targets of an import statement.

    Returns:
        Name that the statement binds -> (module, name in it or "").
    """
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    return {
        alias.asname or alias.name.partition(".")[0]: (
            alias.name if alias.asname else alias.name.partition(".")[0],
            "",
        )
        for alias in node.names
    }
