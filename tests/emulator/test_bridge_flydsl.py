"""FlyDSL kernels inside AITER, found in a data wheel of the bridge and executed on the embedded device: nothing is compiled, no
program is started, nothing is written. AITER's own need ``AITER_DIR`` (a checkout with ``csrc/opus_moe``) and the FlyDSL that its
requirements.txt names; the pinned tree has none, so there a kernel of ours goes under a name of AITER's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support import bytecode, repository
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.kernel_cache import folder_of
from build_tools.pack.bridge_wheel import HOOK, PACKAGE
from build_tools.pack.cache_wheel import contents
from build_tools.seed import flydsl
from build_tools.seed.triton import Compiler, Target
from build_tools.tools import pins
from build_tools.tools.fetch import cache_folder
from build_tools.tools.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("flydsl_program.py")
SOFTMAX = ROOT / "csrc" / "kernels" / "flydsl" / "softmax.py"
FORBIDDEN = (
    "hipcc", "hipconfig", "rocminfo", "rocm_agent_enumerator", "amdgpu-arch", "amdclang", "clang", "gcc", "cc", "ninja", "make",
    "ld.lld", "zig",
)  # fmt: skip
#: What is found, by the kernel's name.
OURS = "aiter.ops.softmax_of_tests.launch"
SCORES = "aiter.ops.flydsl.kernels.mqa_logits.fp8_mqa_logits.launch_fp8_mqa_logits_mfma_r_w"

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "triton", "flydsl", "pandas", "einops", "psutil")),
    reason="AITER imports torch, Triton, pandas, einops and psutil, its kernels FlyDSL",
)


class World:
    """A process's surroundings: a home that nobody can write, forbidden programs first on the path, HIP by its names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, folder / "told"
        for name in ("site", "bin", "lib"):
            (folder / name).mkdir()
        (folder / "site" / f"{PACKAGE}.pth").write_text(HOOK)
        for name in FORBIDDEN:
            path = folder / "bin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.told}\nexit 97\n')
            path.chmod(0o755)
        for name in ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"):
            (folder / "lib" / name).symlink_to(library_path())

    def run(self, tree: Path, target: str, *words: str, **more: str) -> dict[str, Any]:
        """What the program reports. Nothing forbidden was started."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AITER_", "GPU_", "CU_", "FLYDSL_"))
        }
        path = [
            str(ROOT / "src"),
            str(ROOT / "examples"),
            str(ROOT / "tests"),
            str(ROOT),
            os.environ.get("PYTHONPATH", ""),
        ]
        files = ":".join(str(each) for each in bundles(target, "ck-full"))
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(tree), str(self.folder / "site"), target, *words],
            env=bytecode.kept(kept) | {
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": os.pathsep.join(path),
                "LD_LIBRARY_PATH": str(self.folder / "lib"),
                "HOME": "/proc/none",
                "ROCM_PATH": "/proc/none",
                "AITER_PREBUILT_BUNDLES": files,
            } | more,
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        assert not self.told.exists(), self.told.read_text()
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told | {"errors": done.stderr}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree that the pipeline pins."""
    folder = tmp_path_factory.mktemp("wheel")
    pin = pins.load(ROOT).trees["aiter"]
    with zipfile.ZipFile(Tree(pin, cache_folder(), None).fetched() / pin.file) as archive:
        wanted = ("aiter/", "aiter_meta/csrc/include/", "aiter_meta/csrc/cpp_itfs/", "amd_aiter")
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(wanted)])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_kernel_of_a_data_wheel_runs_without_a_compile(
    pinned: Path, world: World, target: str, tmp_path: Path
) -> None:
    place = tmp_path / "data"
    place.mkdir()
    filled = world.run(pinned, target, "fill", str(SOFTMAX), str(place))
    assert filled["said"] == "kept 1", filled
    data = place / folder_of(target)
    strict = {"AITER_PREBUILT_BRIDGE": "strict", "AITER_PREBUILT_BRIDGE_CACHE": str(data)}
    found = world.run(pinned, target, "softmax", str(SOFTMAX), "1000", **strict)
    assert (found["said"], found["hits"], found["misses"]) == ("right", {OURS: 1}, {}), found
    # One bit of the kernel: it is not executed, and not compiled instead.
    (text,) = (data / "flydsl").iterdir()
    changed = bytearray(text.read_bytes())
    changed[len(changed) // 2] ^= 4
    text.write_bytes(changed)
    refused = world.run(
        pinned, target, "softmax", str(SOFTMAX), "1000", AITER_PREBUILT_BRIDGE_CACHE=str(data)
    )
    assert (
        refused["said"].startswith("CacheDamagedError: Cannot read ") and "another SHA-256" in refused["said"]
    )


@pytest.mark.slow
def test_strict_starts_no_compiler_with_an_empty_cache(pinned: Path, world: World) -> None:
    said = world.run(pinned, "gfx942", "softmax", str(SOFTMAX), "1000", AITER_PREBUILT_BRIDGE="strict")[
        "said"
    ]
    assert said.startswith(
        f"CompileRefusedError: Cannot launch {OURS}: FlyDSL would compile it now, because no data wheel"
    )


@pytest.mark.slow
def test_by_default_flydsl_compiles_what_is_not_there_and_that_is_logged(
    pinned: Path, world: World, tmp_path: Path
) -> None:
    """Into the user's own cache, which the next process reads as ever."""
    linker = tmp_path / "rocm" / "llvm" / "bin" / "ld.lld"
    linker.parent.mkdir(parents=True)
    linker.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang ld.lld "$@"\n')
    linker.chmod(0o755)
    own = {
        "ROCM_PATH": str(tmp_path / "rocm"),
        "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "own"),
        "HOME": str(tmp_path),
    }
    first = world.run(pinned, "gfx942", "softmax", str(SOFTMAX), "1000", **own)
    assert (first["said"], first["misses"]) == ("right", {OURS: 1})
    assert first["errors"].count(f"{OURS}: FlyDSL compiles it, because no data wheel") == 1
    strict = {"AITER_PREBUILT_BRIDGE": "strict"}
    again = world.run(pinned, "gfx942", "softmax", str(SOFTMAX), "1000", **(own | strict))
    assert (again["said"], again["hits"], again["misses"]) == ("right", {}, {})


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_aiters_own_kernel_runs_without_a_compile(world: World, target: str, tmp_path: Path) -> None:
    checkout = os.environ.get("AITER_DIR")
    if not checkout:
        pytest.skip("AITER_DIR names no checkout")
    wants = [
        line
        for line in (Path(checkout) / "requirements.txt").read_text().split()
        if line.startswith("flydsl==")
    ]
    if wants != [f"flydsl=={_version()}"]:
        pytest.skip(f"this checkout's kernels are for {wants}, here is {_version()}")
    wanted = repository.manifest().targets[target]
    work = flydsl.Work(
        ROOT, Target(target, wanted.fp8, wanted.cus[0]), Path(checkout), "checkout",
        Compiler(sys.executable, os.environ.get("PYTHONPATH", "")), (sys.executable, "-m", "ziglang", "ld.lld"), "tests",
    )  # fmt: skip
    made = flydsl.make(work, tmp_path / "store", ["index_scores_few", "index_scores_many"])
    assert made.compiled == len(made.seeds.seeds) == 2 and not made.failed
    assert [row["error"] for row in made.rows] == ["", ""]
    for name, data in contents(target, [made.seeds]).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    strict = {
        "AITER_PREBUILT_BRIDGE": "strict",
        "AITER_PREBUILT_BRIDGE_CACHE": str(tmp_path / folder_of(target)),
    }
    found = world.run(Path(checkout), target, "scores", "34", "301", **strict)
    assert (found["said"], found["hits"], found["misses"]) == ("right", {SCORES: 1}, {}), found


def _version() -> str:
    import flydsl as installed

    return str(installed.__version__)
