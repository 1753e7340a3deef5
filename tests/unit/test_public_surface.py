"""What users import: lazily, with AITER's signatures, documented, and every error class with its three parts."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest

import aiter_prebuilt
from aiter_prebuilt import errors

ROOT = Path(__file__).resolve().parents[2]

#: Clients bind by name and by position: the parameters of our names in AITER, from ``ci/aiter_signatures.py``, by commit.
AITERS: dict[str, dict[str, list[str]]] = json.loads(
    (ROOT / "tests" / "data" / "aiter_signatures.json").read_text(encoding="utf-8")
)["commits"]
FUNCTIONS = sorted(
    name for name in aiter_prebuilt.__all__ if isinstance(getattr(aiter_prebuilt, name), FunctionType)
)


@cache
def _functions() -> dict[str, ast.FunctionDef]:
    found = {}
    for path in sorted((ROOT / "src/aiter_prebuilt/ops").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and (
                node.name in FUNCTIONS or not node.name.startswith("_")
            ):
                found[node.name] = node
    return found


def test_homes_are_what_is_promised() -> None:
    promised = {*aiter_prebuilt._OTHERS, *aiter_prebuilt.ops.HOMES, *aiter_prebuilt.ops.COMPOSED}
    assert promised == set(aiter_prebuilt.__all__) - {"__version__"}
    assert set(FUNCTIONS) - {"preload"} <= set(_functions())
    recorded = {name for names in AITERS.values() for name in names}
    assert len(AITERS) > 1 and recorded <= promised, "a name that was ours, and that AITER has"


@pytest.mark.parametrize("name", sorted({name for names in AITERS.values() for name in names}))
def test_signature_is_aiters(name: str) -> None:
    """The parameters are AITER's of one of its commits, in order; ours may follow. Where the commits disagree about the order,
    ours are given by name.
    """
    node = _functions()[name]
    assert not node.args.vararg and not node.args.kwarg
    places = [arg.arg for arg in node.args.args]
    ours = [*places, *(arg.arg for arg in node.args.kwonlyargs)]
    theirs = [each.split() for names in AITERS.values() for each in names.get(name, ())]
    same = [each for each in theirs if ours[: len(each)] == each]
    by_name = any(places == each[: len(places)] for each in theirs) and any(
        set(each) <= set(ours) for each in theirs
    )
    assert same or (by_name and node.args.kwonlyargs), theirs


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"preload"}))
def test_docstring_says_shapes_errors_and_source(name: str) -> None:
    node = _functions()[name]
    text = ast.get_docstring(node) or ""
    # Without arguments there is nothing to be wrong.
    for word in ("Args:", "Raises:", "Source:") if node.args.args else ("Returns:", "Source:"):
        assert word in text or "Arguments and errors as" in text or text.startswith("As :func:"), (name, word)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_is_typed_and_documented(name: str) -> None:
    """What ``aiter_prebuilt.__all__`` promises is there, has a type at every parameter, and a docstring that says what, with
    which arguments, and which errors; the package ships its types.
    """
    function = getattr(aiter_prebuilt, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
    text = inspect.getdoc(function) or ""
    assert len(text.splitlines()[0]) > 20
    referring = re.search(r"As :func:`(\w+)`|Arguments and errors as :func:`(\w+)`", text)
    if referring:
        other = inspect.getdoc(getattr(aiter_prebuilt, referring[1] or referring[2])) or ""
        text += other
    assert not signature.parameters or ("Raises:" in text and "Error" in text)
    documented = [parameter for parameter in signature.parameters if re.search(rf"\b{parameter}\b", text)]
    starred = [
        parameter
        for parameter in signature.parameters
        if re.search(rf"{parameter.rsplit('_', 1)[0]}_\*", text)
    ]
    assert set(signature.parameters) <= {*documented, *starred}, set(signature.parameters) - {
        *documented,
        *starred,
    }
    assert (ROOT / "src/aiter_prebuilt/py.typed").is_file()


def test_the_stub_names_what_the_extension_has() -> None:
    """``_native.pyi`` and the extension: the same functions, classes and methods, each with a docstring."""
    native = pytest.importorskip("aiter_prebuilt._native")
    tree = ast.parse((ROOT / "src/aiter_prebuilt/_native.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef) and not node.bases}
    public = {name for name in vars(native) if not name.startswith("_")}
    assert public == functions | set(classes)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            assert ast.get_docstring(node), node.name
    for name, node in classes.items():
        stub = {item.name for item in node.body if isinstance(item, ast.FunctionDef) and item.name[0] != "_"}
        assert stub == {item for item in vars(getattr(native, name)) if item[0] != "_"}


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fused_everything'"):
        aiter_prebuilt.fused_everything  # noqa: B018


def test_import_loads_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import aiter_prebuilt; "
        "print(sorted({n.split('.')[0] for n in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    assert done.stdout.strip() == "['aiter_prebuilt']"


def test_every_error_has_three_parts_and_a_text() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
    ]
    assert len(classes) > 20
    for kind in classes:
        assert issubclass(kind, errors.AiterPrebuiltError)
        error = kind("asked", "found", "fix")
        assert (error.asked, error.found, error.fix) == ("asked", "found", "fix")
        assert str(error) == "asked: found. Fix."
        assert kind.__doc__
    reasons = errors.NoKernelError("a", "b", "c", ["row: too long", "loop: misaligned"])
    assert str(reasons).splitlines()[1:] == ["  row: too long", "  loop: misaligned"]


def test_argument_errors_are_the_builtin_ones_too() -> None:
    assert issubclass(errors.ArgumentDTypeError, TypeError) and issubclass(
        errors.ArgumentShapeError, ValueError
    )
    assert issubclass(errors.UnsupportedError, NotImplementedError) and issubclass(
        errors.NativeError, ImportError
    )


@pytest.mark.parametrize("count", [12, 13, 40])
def test_many_refusals_are_told_by_reason(count: int) -> None:
    """Up to a dozen candidates each have a line; of more, every reason has one, in their order. Nothing is lost."""
    lines = [f"row[{place}]: {'too long' if place % 3 else 'misaligned: 3 bytes'}" for place in range(count)]
    error = errors.NoKernelError("op", f"all {count} candidates were refused", "mend it", lines)
    said = str(error).splitlines()[1:]
    assert error.reasons == tuple(lines)
    if count == 12:
        assert said == [f"  {line}" for line in lines]
    else:
        few = len(range(0, count, 3))
        assert said == [
            f"  {few} of {count} candidates (row[0], ...): misaligned: 3 bytes",
            f"  {count - few} of {count} candidates (row[1], ...): too long",
        ]
