"""Modules for ``AITER_JIT_DIR``: where no ``.pth`` may run, AITER's JIT itself finds plain Python modules in the folder that this
variable names, and calls their functions through its own wrapper.

Such a module is all or nothing: a function that it lacks is an error of AITER's, and no compile. So one is written only if ours
cover every stub that AITER's sources have of it. What cannot be written stays as it is: AITER compiles it, into that folder.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Final

from aiter_prebuilt_bridge import drifts, serving
from aiter_prebuilt_bridge.loader import CORE_MODULES

_TEXT: Final = '''"""A module of AITER's JIT with functions of aiter-prebuilt; `aiter-prebuilt bridge folder` wrote this."""

from aiter_prebuilt_bridge.{home} import fill

fill(globals(){names})
'''


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


def write(package: Path, place: Path) -> tuple[list[str], dict[str, str]]:
    """Write what the AITER in ``package`` can be given into ``place``: names of the modules, and why others were not written."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "build").mkdir(exist_ok=True)  # AITER makes it otherwise
    written, left = [], {}
    for name, stubs in sorted(by_module(package).items()):
        why = next((why for why in (_why(stub, package) for stub in stubs) if why), "")
        if name in CORE_MODULES:
            text = _TEXT.format(home="core", names="")
        elif why:
            left[name] = why
            continue
        else:
            names = {stub.native: stub.name for stub in stubs}
            text = _TEXT.format(home="folder", names=f", {names!r}")
        (place / f"{name}.py").write_text(text, encoding="utf-8")
        written.append(name)
    return written, left


def _why(stub: Stub, package: Path) -> str:
    if stub.ctypes:
        return f"{stub.name} is called through ctypes, which takes no Python"
    if stub.varies:
        return f"AITER names another module for each kind of call of {stub.name}"
    other = drifts.other(stub.name, package)
    if other:
        return f"{stub.name}: {other}"
    mine, cover = serving.decide("", (stub.name,), stub.signature)
    if mine is None:
        return f"{stub.name}: {cover.why}"
    if cover.omitted:
        # AITER's wrapper hands on what its caller gave.
        return f"{stub.name}: {cover.omitted[0].name} means something else in ours when it is left out"
    return ""


def fill(names: dict[str, Any], functions: dict[str, str]) -> None:
    """Put ``functions`` (AITER's name in the module -> ours) into a module, with the first line that AITER reads of each."""
    for native, name in functions.items():
        function, why = serving.ours(name)
        if function is None:
            raise ImportError(f"{names['__name__']}: {name}: {why}")
        names[native] = _described(native, function)
    names["_set_current_hip_stream"] = lambda stream: None  # noqa: ARG005  # torch is asked, call by call


def _described(native: str, function: Any) -> Any:
    def described(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    words = []
    for each in inspect.signature(function).parameters.values():
        said = str(each.annotation).replace(" | None", "")
        optional = f"typing.Optional[{said}]" if said != str(each.annotation) else said
        kind = "object" if optional.startswith(("Any", "typing.Optional[Any")) else optional
        given = "" if each.default is Parameter.empty else f" = {each.default!r}"
        words.append(f"{each.name}: {kind}{given}")
    returns = inspect.signature(function).return_annotation
    described.__name__ = native
    described.__doc__ = f"{native}({', '.join(words)}) -> {returns}"
    return described


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
