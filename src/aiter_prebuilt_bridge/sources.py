"""The stubs of AITER's JIT, read from its sources. Nothing of AITER is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Stub:
    """One function that AITER's JIT would take from a compiled module. ``native``: its name there; ``ctypes``: it has to be C;
    ``varies``: the call decides from which module it is taken.
    """

    module: str
    name: str
    native: str
    ctypes: bool
    varies: bool
    signature: Signature


def by_module(package: Path) -> dict[str, list[Stub]]:
    """Every stub of the JIT in the sources of AITER's package, by module. Nothing of AITER is imported."""
    found: dict[str, list[Stub]] = {}
    for path in sorted((package / "ops").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for stub in _stubs(node):
                    found.setdefault(stub.module, []).append(stub)
    return found


def _stubs(function: ast.FunctionDef) -> Iterator[Stub]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("compile_ops"):
            given = {word.arg: word.value for word in decorator.keywords}
            names = dict(zip(("_md_name", "fc_name"), decorator.args, strict=False)) | given
            module, native = _text(names.get("_md_name")), _text(names.get("fc_name"))
            if module:
                ctypes = _text(given.get("ffi_type")) == "ctypes"
                varies = "gen_func" in given
                yield Stub(
                    module, function.name, native or function.name, ctypes, varies, _signature(function.args)
                )


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _signature(arguments: ast.arguments) -> Signature:
    """Names, order and defaults. A default that is no literal is taken as text: it equals none of ours."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + [*arguments.defaults]
    rows = [
        *(
            (each, value, Parameter.POSITIONAL_OR_KEYWORD)
            for each, value in zip(plain, defaults, strict=True)
        ),
        *(
            (each, value, Parameter.KEYWORD_ONLY)
            for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ),
    ]
    made = [Parameter(each.arg, kind, default=_value(value)) for each, value, kind in rows]
    return Signature(made)


def _value(node: ast.expr | None) -> Any:
    if node is None:
        return Parameter.empty
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
