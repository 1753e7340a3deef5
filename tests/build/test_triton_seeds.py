"""Kernels of AITER's own Triton functions, compiled ahead of time from a file of calls: the same bytes each time, once only."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from build_tools.errors import ToolchainError
from build_tools.seed import triton, triton_calls
from build_tools.seed.fill import filled
from build_tools.seed.triton import Seeded, Target
from build_tools.tools.toolchain import find

ROOT = Path(__file__).resolve().parents[2]
TARGET = Target("gfx942", "e4m3fnuz", 304)
ROPE = (
    "fused_qk_rope_cat(bf16[M, 16, 512], bf16[M, 16, 64], bf16[M, 1, 512], bf16[M, 1, 64], i64[M], bf16[256, 1, 1, 32], "
    "bf16[256, 1, 1, 32], False)"
)
CALLS = f"""
edition = 1
versions = ["3.9.0"]
environments = [{{ TRITON_DEFAULT_FP_FUSION = "true" }}]
[tokens]
decode = [8, 64]
[calls.rope]
client = "a test"
modules = ["aiter.ops.triton.not_there", "aiter.ops.triton.fused_qk_concat"]
models = ["DeepSeek-V3"]
call = "{ROPE}"
[calls.wrong]
client = "a test"
modules = ["aiter.ops.triton.fused_qk_concat"]
models = ["DeepSeek-V3"]
call = "fused_qk_rope_cat(bf16[M, 16, 512])"
[calls.elsewhere]
client = "a test"
modules = ["aiter.ops.triton.not_there"]
models = ["DeepSeek-V3"]
call = "f(bf16[M, 16, 512])"
"""

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="AITER's functions are called with torch's tensors"
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose file has three calls: one that works, one with too few arguments, one of no tree."""
    monkeypatch.delenv("AITER_DIR", raising=False)
    folder = tmp_path / "repository"
    (folder / "manifests" / "bridge").mkdir(parents=True)
    for name in ("models.toml", "toolchains.toml"):
        shutil.copy(ROOT / "manifests" / name, folder / "manifests" / name)
    (folder / triton_calls.FILE).write_text(CALLS)
    return folder


def seeds(root: Path, store: Path) -> Seeded:
    return triton.seeds(root, TARGET, find("hermetic", ROOT), store)


def test_a_call_is_compiled_once_and_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    first = seeds(root, tmp_path / "a")
    (seed,) = first.seeds.seeds
    assert seed.name.endswith("._qk_rope_cat_kernel") and first.compiled == 1 and len(seed.aliases) == 1
    assert seed.parts["constexprs"]["BLOCK_D_nope"] == "512" and not seed.parts["environment"]
    again = seeds(root, tmp_path / "a")
    assert again.compiled == 0 and again.seeds == first.seeds
    assert seeds(root, tmp_path / "b").seeds == first.seeds
    code, told = seed.files["_qk_rope_cat_kernel.hsaco"], seed.files["_qk_rope_cat_kernel.json"]
    assert code.startswith(b"\x7fELF") and b".debug_line" not in code
    for text in (code, told, json.dumps(seed.parts).encode()):
        assert str(tmp_path).encode() not in text and b"site-packages" not in text
    assert json.loads(told)["target"]["arch"] == "gfx942" and json.loads(told)["hash"] == seed.key
    (build,) = first.seeds.builds
    assert build["version"] == "3.9.0" and build["key"] == seed.parts["triton"]


def test_builds_that_compile_the_same_find_it_by_their_own_keys(root: Path, tmp_path: Path) -> None:
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    library = hashlib.sha256((Path(spec.origin).parent / "_C" / "libtriton.so").read_bytes()).hexdigest()
    plain = seeds(root, tmp_path / "store").seeds
    told = f'[[same]]\nversion = "3.9.0"\nlibraries = ["{"0" * 64}", "{library}"]\n[tokens]'
    (root / triton_calls.FILE).write_text(CALLS.replace("[tokens]", told))
    found = seeds(root, tmp_path / "store").seeds
    assert len(found.builds) == 2 and {*map(str, plain.builds)} < {*map(str, found.builds)}
    (before,), (after,) = plain.seeds, found.seeds
    assert (after.key, after.files) == (before.key, before.files)
    assert len({after.key, *after.aliases}) == 4 and set(before.aliases) < set(after.aliases)


def test_a_call_that_cannot_be_made_is_told_and_ends_nothing(root: Path, tmp_path: Path) -> None:
    (problem,) = seeds(root, tmp_path / "store").problems
    assert problem.startswith("wrong: TypeError: ") and "missing 7 required" in problem
    said: list[str] = []
    found = filled(root, [TARGET], find("hermetic", ROOT), tmp_path / "store", said.append)
    assert [len(each.seeds) for each in found["gfx942"]] == [1]
    assert said[0] == "gfx942: 1 kernels of AITER for Triton's cache, 0 compiled in 0 s"
    assert said[1].startswith("gfx942: left out: wrong: TypeError")


def test_without_torch_there_are_no_data_wheels_and_that_is_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton, "NEEDS", ("no_such_package",))
    said: list[str] = []
    assert filled(root, [TARGET], find("hermetic", ROOT), tmp_path, said.append) == {}
    assert said == [
        "no data wheels of the bridge: AITER's functions are called with no_such_package, which is not installed"
    ]


def test_a_triton_that_nobody_asks_for_is_refused(root: Path, tmp_path: Path) -> None:
    (root / triton_calls.FILE).write_text('edition = 1\nversions = ["2.0.0"]\n')
    with pytest.raises(ToolchainError, match=r"this is Triton 3\.9\.0, .* asks for 2\.0\.0"):
        seeds(root, tmp_path / "store")


def test_another_build_is_a_folder_of_packages_or_a_python(tmp_path: Path) -> None:
    toolchain = find("hermetic", ROOT)
    with pytest.raises(ToolchainError, match="no Python, and no folder with a package triton"):
        triton.compiler_of(tmp_path, toolchain)
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").touch()
    assert triton.compiler_of(tmp_path, toolchain) == triton.Compiler(toolchain.python, str(tmp_path))
    (tmp_path / "python").touch()
    assert triton.compiler_of(tmp_path / "python", toolchain).python == str(tmp_path / "python")
