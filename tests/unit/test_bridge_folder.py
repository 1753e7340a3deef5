"""Modules for ``AITER_JIT_DIR``: whole or not written, never over somebody else's file, and told from those of another AITER."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from aiter_prebuilt.errors import ArgumentError
from aiter_prebuilt_bridge import folder, installed, lookup_log
from aiter_prebuilt_bridge.errors import ForeignFileError
from aiter_prebuilt_bridge.folder import Choice

STUBS = """
from ..jit.core import compile_ops
MD = "module_other"

@compile_ops("module_activation", develop=True)
def silu_and_mul(out: Tensor, input: Tensor, limit: float = 0.0) -> None: ...

@compile_ops("module_norm", fc_name="x")
def nothing_of_ours(out: Tensor) -> None: ...

@compile_ops("module_asm", ffi_type="ctypes")
def topk_softmax_asm(weights, indices): ...

@compile_ops("module_mha", gen_func=lambda: {})
def mha_fwd(q): ...

@compile_ops("module_aiter_core", "ActivationType")
def _ActivationType(dummy): ...
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """AITER's sources, of five modules."""
    made = tmp_path / "aiter"
    (made / "ops").mkdir(parents=True)
    (made / "ops" / "all.py").write_text(STUBS)
    return made


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The AITER that is here: a test may name another."""
    told = ["1.2"]
    monkeypatch.setattr(installed, "description", lambda: told[0])
    folder._here.cache_clear()
    return told


def test_modules_are_whole_or_not_written(package: Path, tmp_path: Path, version: list[str]) -> None:
    del version
    plan = folder.plan(package, Choice())
    folder.write(plan, tmp_path / "jit")
    assert sorted(plan.texts) == ["module_activation", "module_aiter_core"]
    assert sorted(path.stem for path in (tmp_path / "jit").glob("*.py")) == sorted(plan.texts)
    assert plan.left == {
        "module_norm": "nothing_of_ours: there is no function of ours with this name",
        "module_asm": "topk_softmax_asm is called through ctypes, which takes no Python",
        "module_mha": "AITER names another module for each kind of call of mha_fwd",
    }
    text = (tmp_path / "jit" / "module_activation.py").read_text()
    assert "For AITER 1.2, by aiter-prebuilt" in text
    names: dict[str, Any] = {"__name__": "module_activation"}
    exec(text, names)
    first = names["silu_and_mul"].__doc__.splitlines()[0]
    assert first == "silu_and_mul(out: torch.Tensor, input: torch.Tensor, limit: float = 0.0) -> None"
    assert callable(names["_set_current_hip_stream"]) and (tmp_path / "jit" / "build").is_dir()


@pytest.mark.parametrize(
    ("choice", "written", "left"),
    [
        (Choice(modules=("module_activation",)), ["module_activation", "module_aiter_core"], []),
        (Choice(operators=("silu_and_mul",)), ["module_activation", "module_aiter_core"], []),
        (Choice(modules=("module_norm",)), ["module_aiter_core"], ["module_norm"]),
        (Choice(operators=("topk_softmax_asm",)), ["module_aiter_core"], ["module_asm"]),
    ],
)
def test_a_choice_of_modules_or_operators(
    package: Path, version: list[str], choice: Choice, written: list[str], left: list[str]
) -> None:
    """AITER's first module is always written: its import asks for it."""
    del version
    plan = folder.plan(package, choice)
    assert (sorted(plan.texts), sorted(plan.left)) == (written, left)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice(modules=("module_x",)), "--module module_x: AITER's JIT has no such module. Its modules are"),
        (Choice(operators=("nowhere",)), "--operator nowhere: no module of AITER's JIT has such a function"),
    ],
)
def test_a_choice_that_is_not_there(package: Path, choice: Choice, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        folder.plan(package, choice)


@pytest.mark.parametrize(
    "name", ["module_activation.py", "module_activation.so", "module_aiter_core.cpython-311.so"]
)
def test_a_file_of_somebody_else_stays(package: Path, tmp_path: Path, version: list[str], name: str) -> None:
    """Python takes a compiled module before ours, so that one is in the way, too. Nothing is written then."""
    del version
    jit = tmp_path / "jit"
    jit.mkdir()
    (jit / name).write_text("somebody's")
    plan = folder.plan(package, Choice())
    with pytest.raises(ForeignFileError, match=f"{name} is there, and aiter-prebuilt did not write it"):
        folder.write(plan, jit)
    assert [path.name for path in jit.iterdir()] == [name] and (jit / name).read_text() == "somebody's"
    assert f"{name} is there, and aiter-prebuilt did not write it" in folder.problems(plan, jit)


def test_what_another_aiter_was_given_is_found_and_written_again(
    package: Path, tmp_path: Path, version: list[str]
) -> None:
    jit = tmp_path / "jit"
    plan = folder.plan(package, Choice())
    assert folder.problems(plan, jit) == [
        "module_activation.py is not there",
        "module_aiter_core.py is not there",
    ]
    folder.write(plan, jit)
    assert not folder.problems(plan, jit)
    version[0] = "1.3"
    (package / "ops" / "all.py").write_text(STUBS.replace("def silu_and_mul", "def no_longer_ours"))
    plan = folder.plan(package, Choice())
    assert folder.problems(plan, jit) == [
        "module_activation.py is of a module that cannot be served now",
        "module_aiter_core.py was written for another AITER, or by another aiter-prebuilt",
    ]
    folder.write(plan, jit)
    assert not folder.problems(plan, jit) and not (jit / "module_activation.py").exists()


def test_a_part_leaves_the_rest_of_the_folder(package: Path, tmp_path: Path, version: list[str]) -> None:
    del version
    jit = tmp_path / "jit"
    folder.write(folder.plan(package, Choice()), jit)
    part = folder.plan(package, Choice(modules=("module_norm",)))
    folder.write(part, jit)
    assert (jit / "module_activation.py").exists() and not folder.problems(part, jit)


def test_a_module_for_another_aiter_says_so_when_it_is_imported(
    version: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_log, "_LOGGED", set())
    version[0] = "1.3"
    with caplog.at_level(logging.WARNING):
        folder.fill({"__name__": "module_activation"}, {"silu_and_mul": "silu_and_mul"}, "1.2")
        folder.fill({"__name__": "module_activation"}, {"silu_and_mul": "silu_and_mul"}, "1.2")
    (told,) = [each.getMessage() for each in caplog.records]
    assert told == (
        "AITER_JIT_DIR: its modules were written for AITER 1.2, and AITER 1.3 is here: "
        "aiter-prebuilt bridge folder writes them again"
    )
    caplog.clear()
    folder.fill({"__name__": "module_activation"}, {"silu_and_mul": "silu_and_mul"}, "1.3")
    assert not caplog.records
