"""Check the names of operators, parameters and families.

Each is a name in generated Python, beside names that are there.

The package is read as text, never imported: a module or helper that is added to it is taken from then on.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from aiter_prebuilt.contract import products, version
from aiter_prebuilt.contract.error_text import did_you_mean
from build_tools.errors import UnknownTargetError, UsageError
from build_tools.manifest.problems import suggestion

_PACKAGE: Final = Path(version.__file__).parents[1]
#: AITER has capitals inside (``gemm_a8w8_ASM``), or nothing but them (``LLMM1``), never as classes have theirs.
_NAME: Final = re.compile(r"[a-z][A-Za-z0-9_]*|[A-Z]{2}[A-Z0-9]*")
_PARAMETER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORD: Final = "it is a word of Python's grammar"
#: What all generated modules import, beside the helpers of ``ops/_common.py``.
_IMPORTED: Final = frozenset(("operator", "torch", "traced", "annotations"))
#: What every ``reference.py`` imports, and what the namespace of ``torch.ops`` has for itself.
_ELSEWHERE: Final = frozenset(("np", "near", "name"))
#: What a reference may ask for beside the parameters, and what a generated function calls the error that it catches.
_BESIDE_PARAMETERS: Final = frozenset(("kinds", "sizes", "error"))


def operator_problem(name: str) -> str | None:
    """Why no operator can be called ``name``, or None."""
    if name in _modules(_PACKAGE) | _modules(_PACKAGE / "ops") | _bound("__init__.py") | _composed():
        why: str | None = "aiter_prebuilt has something of that name"
    elif name in _ELSEWHERE:
        why = "references, or torch.ops, have something of that name"
    elif keyword.issoftkeyword(name):
        why = _WORD
    elif hasattr(builtins, name) and not keyword.iskeyword(name):
        why = "Python has one of that name"
    elif name.startswith(("draw_", "refuse_")):
        why = "references call their draws draw_NAME, and refuse_NAME is generated"
    else:
        why = _problem(
            name,
            _NAME,
            "it starts with a small letter, and has letters, digits and _; or it is capitals and digits",
        )
    return why and f"{name!r} is no name of a function here: {why}"


def parameter_problem(name: str) -> str | None:
    """Why no parameter can be called ``name``, or None. To hide a builtin (``input``) is AITER's way, and harmless."""
    why = _problem(name, _PARAMETER, "it starts with a letter, and has letters, digits and _")
    if name in _BESIDE_PARAMETERS:
        why = "references, or generated functions, use it themselves"
    return why and f"{name!r} is no name of a parameter here: {why}"


def family_problem(name: str) -> str | None:
    """Why no family can be called ``name``, or None: it is a module in a package of its own, so only grammar matters."""
    grammar = _NAME.fullmatch(name) is not None and not keyword.iskeyword(name)
    return None if grammar else f"{name!r} is no name of a family: its folder becomes a Python module"


def _problem(name: str, pattern: re.Pattern[str], form: str) -> str | None:
    if keyword.iskeyword(name):
        return _WORD
    if pattern.fullmatch(name) is None:
        return form
    return "generated functions use it themselves" if name in _IMPORTED | _bound("ops/_common.py") else None


@cache
def _modules(folder: Path) -> frozenset[str]:
    """Modules and packages of a folder."""
    return frozenset(
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    )


@cache
def _bound(file: str) -> frozenset[str]:
    """List the names that a file of the package defines or imports.

    At its top, under ``if TYPE_CHECKING`` too; generated names are left out.
    """
    names: set[str] = set()
    todo: list[ast.stmt] = ast.parse((_PACKAGE / file).read_text(encoding="utf-8")).body[:]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If):
            todo += node.body
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


@cache
def _composed() -> frozenset[str]:
    """List the public functions that are no operator, as ``ops/__init__.py`` has them."""
    tree = ast.parse((_PACKAGE / "ops" / "__init__.py").read_text(encoding="utf-8"))
    tables = [node for node in tree.body if isinstance(node, ast.AnnAssign) and node.value is not None]
    return frozenset(
        str(name)
        for node in tables
        if isinstance(node.target, ast.Name) and node.target.id == "COMPOSED" and node.value is not None
        for name in ast.literal_eval(node.value)
    )


def refuse_unknown(asked: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise UsageError for the first of ``names`` that no operator has; ``asked``: what was to be done with them."""
    for name in names:
        if name not in known:
            found = f"no operator is called {name!r}{suggestion(name, known)}"
            raise UsageError(asked, found, "Name an operator of manifests/*/operators.toml")


def unknown_target(name: str, known: Iterable[str]) -> UnknownTargetError:
    """Build the error for a target that people typed and that is not among ``known``.

    It names the target that was perhaps meant, but no other generation of GPU: gfx90a is no misspelt gfx950.
    """
    known = tuple(known)
    choice = f"The targets are {', '.join(known)}"
    if products.unsupported_generation(name):
        return UnknownTargetError("", products.unsupported(name), choice)
    words = [*known, *(product for product, target in products.PRODUCTS.items() if target in known)]
    return UnknownTargetError("", f"No target {name!r}", did_you_mean(name.lower(), words) + choice)
