"""Errors are sentences: a failed action, or the function that the user called; what was found; what to do."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from aiter_prebuilt import errors
from aiter_prebuilt.bundles import locate
from aiter_prebuilt.contract.error_text import describe
from aiter_prebuilt.launch import dispatch
from aiter_prebuilt.ops._named_errors import guarded

ROOT = Path(__file__).resolve().parents[2]


SENTENCES = {
    "Cannot open the bundle X: it is empty. Install it again: pip install X":
        ("open the bundle X", "it is empty", "install it again: pip install X"),
    "rms_norm: epsilon must be a float, got 'a'.": ("rms_norm", "epsilon must be a float, got 'a'", ""),
    "f(bias=...): no kernel supports it. Use bias=None.": ("f(bias=...)", "no kernel supports it", "Use bias=None"),
    "CHECK=2: the value must be 0 or 1. Unset it.": ("CHECK=2", "the value must be 0 or 1", "Unset it."),
    "Cannot compile a: exit status 1\nerror: no\nMend it.": ("compile a", "exit status 1\nerror: no\n", "mend it"),
    "The host has no memory. AITER_DIR must be unset.": ("", "the host has no memory", "AITER_DIR must be unset"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), SENTENCES.items())
def test_sentences(text: str, parts: tuple[str, str, str]) -> None:
    assert describe(*parts) == str(errors.AiterPrebuiltError(*parts)) == text


def test_reasons_follow_a_colon() -> None:
    error = errors.NoKernelError(
        "f", "no kernel takes this call", "Change one of these", ["k[v]: needs N > 0"]
    )
    assert str(error) == "f: no kernel takes this call. Change one of these:\n  k[v]: needs N > 0"


def raised(folder: str) -> Iterator[tuple[str, ast.Call]]:
    """Every error that is made with its three parts."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "func", None)
            word = getattr(name, "id", getattr(name, "attr", ""))
            if isinstance(node, ast.Call) and word.endswith("Error") and len(node.args) >= 3:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def first_word(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    text = str(node.value) if isinstance(node, ast.Constant) else ""
    return text.partition(" ")[0] if " " in text else ""


@pytest.mark.parametrize("folder", ["src", "build_tools"])
def test_a_failed_action_is_an_infinitive(folder: str) -> None:
    """ "Cannot opening the bundle" is no sentence."""
    odd = [place for place, call in raised(folder) if first_word(call.args[0]).endswith("ing")]
    assert odd == []


def test_native_actions_are_infinitives() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "csrc/runtime").rglob("*.cpp"))
    for word in (
        "loading",
        "launching",
        "opening",
        "reading",
        "using",
        "asking",
        "preloading",
        "starting",
        "calling",
    ):
        assert f'cat("{word} ' not in text, word


def call(operator: str, found: str) -> Any:
    def outer(x: int, weight: int) -> None:
        raise errors.ArgumentShapeError(operator, found, "")

    return guarded(outer)  # type: ignore[arg-type]  # a FunctionType


def test_the_function_that_was_called_is_named() -> None:
    with pytest.raises(errors.ArgumentShapeError, match=r"^outer: weight must be \[4\], got \[3\]\.$"):
        call("inner", "weight must be [4], got [3]")(1, 2)
    with pytest.raises(
        errors.ArgumentShapeError, match=r"^outer \(operator inner\): q must be \[4\], got \[3\]\.$"
    ):
        call("inner", "q must be [4], got [3]")(1, 2)
    with pytest.raises(errors.ArgumentShapeError, match=r"^Cannot read a file: it is cut\.$"):
        call("read a file", "it is cut")(1, 2)
    with pytest.raises(errors.ArgumentShapeError, match=r"^outer: q must be"):
        call("outer", "q must be [4]")(1, 2)


def test_a_bundle_of_ones_own_hides_the_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locate.VARIABLE, "/own")
    error = dispatch.absent("call silu_and_mul", "silu_and_mul", "gfx950", {"ck-free"})
    assert (
        locate.VARIABLE in str(error)
        and "hide the installed ones" in str(error)
        and "pip install" not in str(error)
    )


def test_a_traceback_shows_no_line_of_another_file() -> None:
    """The wrapper's own frame has no source: Python would print a line of the file that wrote it."""

    def function(x: int) -> None:
        raise ValueError(x)

    assert isinstance(function, FunctionType)
    try:
        guarded(function)(1)
    except errors.ArgumentError as error:
        frames = traceback.extract_tb(error.__traceback__)
    (wrapper,) = [frame for frame in frames if frame.filename == "<arguments of function>"]
    assert wrapper.name == "function" and not wrapper.line
