"""What is asked of an operator, by content: its formula, what judges results, its calls, a function that is written by hand.

A receipt names it: when any of these changes, what was right before has to be executed again. Of ``reference.py`` it is the text
of the operator's function, of the family's draws and of all that they use there; a statement of the module that is no
definition may change what any function sees, and counts for all. A call that is made on other targets alone is not asked here.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiter_prebuilt.contract.judging import judging

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The files of a family.
REFERENCE: Final = "reference.py"
CASES: Final = "cases.toml"
_OPERATORS: Final = "operators.toml"
_TARGETS: Final = "targets.toml"
#: Where functions that are written by hand lie, below the folder that holds the manifests.
_FUNCTIONS: Final = "src/aiter_prebuilt/ops"
#: What executes calls, and compares their results.
PACKAGE: Final = Path(__file__).resolve().parents[2] / "src" / "aiter_prebuilt"
#: What a reference imports beside the judges is part of its text, and so are the helpers of a function that is written by hand.
_SHARED: Final = "build_tools.cases"
_HELPERS: Final = "aiter_prebuilt.ops"
#: All functions have these: they turn arguments and refuse, and work nothing out.
_COMMON: Final = ("_common.py", "_traced.py")
#: Beside this file: what makes inputs, and the intervals that results must lie in.
_JUDGES: Final = ("draw.py", "interval.py", "near.py", "numbers.py")
#: Hexadecimal digits: enough to tell the states of one operator apart.
_DIGITS: Final = 16
#: How a call says on which targets it is made (``words.py``).
_ONLY: Final = "targets="
#: A family, one of its operators, a target.
State: TypeAlias = tuple[str, str, str]


def meanings(folder: Path) -> dict[State, str]:
    """The digest of each state; ``folder`` is ``manifests``. What cannot be read has none: lint says so."""
    found: dict[State, str] = {}
    try:
        targets = tomllib.loads((folder / _TARGETS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return found
    for path in folder.glob(f"*/{CASES}"):
        try:
            cases, operators = (
                tomllib.loads((path.parent / name).read_text(encoding="utf-8"))
                for name in (CASES, _OPERATORS)
            )
            formulas = of_text((path.parent / REFERENCE).read_text(encoding="utf-8"))
            rows = operators.get("operators", {})
            behind = {
                kernel: row["slack"]
                for kernel, row in operators.get("kernels", {}).items()
                if row.get("slack")
            }
            for name in rows.keys() & formulas.keys() & cases.keys():
                parts = [*_judges()]
                if behind:  # how far kernels may read: with less of it they were not executed
                    parts.append(json.dumps(behind, sort_keys=True))
                if function := _function(rows, name):
                    parts += _by_hand(folder.parent / _FUNCTIONS, f"{function}.py")
                for target in (key for key, facts in targets.items() if isinstance(facts, dict)):
                    found[path.parent.name, name, target] = _named(
                        [formulas[name], json.dumps(_asked(cases[name], target), sort_keys=True), *parts]
                    )
        except (OSError, ValueError, LookupError, AttributeError, TypeError):
            continue
    return found


def _asked(row: Mapping[str, Any], target: str) -> dict[str, Any]:
    """An operator's cases without the calls that are made on other targets alone."""
    always = row.get("default", "").split()
    left_out = set(row.get("except", {}).get(target, ()))
    calls = [
        text
        for text in row["calls"]
        if _made([*text.split(), *always], target) and left_out.isdisjoint(text.split())
    ]
    return {**{key: value for key, value in row.items() if key != "except"}, "calls": calls}


def _made(words: Iterable[str], target: str) -> bool:
    """Is a call of these words made on ``target``? The first that says where counts."""
    said = next((word for word in words if word.startswith(_ONLY)), None)
    return said is None or target in said.removeprefix(_ONLY).split(",")


def _function(rows: Mapping[str, Any], name: str) -> str | None:
    """The module of an operator's hand-written function: its own key, or the one that it takes over with ``like``."""
    for _ in rows:  # no chain is longer; the parser refuses a circle
        row = rows.get(name, {})
        if "function" in row or "like" not in row:
            return str(row["function"]) if "function" in row else None
        name = row["like"]
    return None


def of_text(text: str) -> dict[str, str]:
    """Public function of a reference -> the digest of its text and of all that it uses; the draws are in all of them."""
    return dict(_of_text(text))


@cache
def _of_text(text: str) -> tuple[tuple[str, str], ...]:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    binds: dict[str, list[ast.stmt]] = {}
    always: list[ast.stmt] = []
    for place, statement in enumerate(module.body):
        names = list(_bound(statement))
        for name in names:
            binds.setdefault(name, []).append(statement)
        if not names and not (place == 0 and _is_text(statement)):
            always.append(statement)  # QMAX["i8"] = 1: whoever reads QMAX sees it
    draws = [statement for name in binds if name.startswith("draw_") for statement in binds[name]]
    uses = {statement: frozenset(_used(statement)) for statement in module.body}
    imports = {statement: frozenset(_imported(statement, _SHARED)) for statement in module.body}
    return tuple(
        (name, _digest(text, _reached([*binds[name], *always, *draws], binds, uses), imports))
        for name, statements in binds.items()
        if not name.startswith(("_", "draw_"))
        and any(isinstance(statement, ast.FunctionDef) for statement in statements)
    )


def _reached(
    roots: Iterable[ast.stmt], binds: Mapping[str, list[ast.stmt]], uses: Mapping[ast.stmt, Collection[str]]
) -> list[ast.stmt]:
    """The statements of ``roots`` and of all names that they use, in the order of the file."""
    found: set[ast.stmt] = set()
    left = list(roots)
    while left:
        statement = left.pop()
        if statement not in found:
            found.add(statement)
            left += [other for name in uses[statement] for other in binds.get(name, ())]
    return sorted(found, key=lambda statement: (statement.lineno, statement.col_offset))


def _digest(text: str, needed: Sequence[ast.stmt], imports: Mapping[ast.stmt, Collection[str]]) -> str:
    """The bytes count, not the tree, which another Python may print in another way."""
    lines = text.splitlines()
    folder = Path(__file__).parent
    names = {name for statement in needed for name in imports[statement]}
    return _named(
        [
            *("\n".join(lines[_first(statement) - 1 : statement.end_lineno]) for statement in needed),
            *(_file(folder / name) for name in _with_theirs(folder, names, _SHARED, _JUDGES)),
        ]
    )


def _by_hand(folder: Path, name: str) -> list[str]:
    """The states of a hand-written function's file and of its helpers."""
    own = {each for each in _imported(_parsed(folder / name), _HELPERS) if each.startswith("_")}
    helpers = _with_theirs(folder, own, _HELPERS, _COMMON)
    return [_file(folder / each) for each in (name, *helpers)]


def _with_theirs(folder: Path, names: set[str], package: str, without: Collection[str]) -> list[str]:
    """Those of ``names`` that are files of ``folder``, and what these import in turn, sorted."""
    found: set[str] = set()
    left = names
    while left := {name for name in left - found - {*without} if (folder / name).is_file()}:
        found |= left
        left = {name for each in left for name in _imported(_parsed(folder / each), package)}
    return sorted(found)


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """The files of ``package`` that are imported, in whichever form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (f"{alias.name}.py" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            yield f"{(node.module or '').removeprefix(f'{package}.').partition('.')[0]}.py"
        elif isinstance(node, ast.Import):
            inside = (alias.name for alias in node.names if alias.name.startswith(f"{package}."))
            yield from (f"{name.removeprefix(f'{package}.').partition('.')[0]}.py" for name in inside)


def _named(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


@cache
def _judges() -> tuple[str, ...]:
    return (*(_file(Path(__file__).with_name(name)) for name in _JUDGES), judging(PACKAGE))


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _first(statement: ast.stmt) -> int:
    """Its first line, decorators included."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return min([statement.lineno, *(each.lineno for each in statement.decorator_list)])
    return statement.lineno


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of the module gives a value."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]


def _used(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
