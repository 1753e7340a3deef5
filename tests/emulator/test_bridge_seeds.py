"""Triton kernels inside stock AITER, found compiled in the bridge's data wheel: Triton's own driver launches them on the embedded
device, and a compile, like a start of any compiler, fails the test. Trees and surroundings are those of test_bridge.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from emulator import test_bridge
from emulator.test_bridge import World, kind_of
from support import repository
from support.emulator import library_path

from aiter_prebuilt.contract.kernel_cache import INDEX, folder_of
from aiter_prebuilt_bridge import cache_data
from build_tools.pack.cache_wheel import write_cache_wheel
from build_tools.seed.fill import filled
from build_tools.seed.triton import Target
from build_tools.tools.toolchain import find

#: Fixtures.
tree, world = test_bridge.tree, test_bridge.world
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("seeded_program.py")
#: Function -> the kernels that it launches, and the trees whose function it is: in the other one it is ours.
CALLS = {
    "rope_cat": {"_qk_rope_cat_kernel"},
    "rope_in_place": {"_rope_kernel_cached_thd_2c_gqa_onehead_fwd"},
    "decode": {"kernel_unified_attention_3d", "reduce_segments"},
}
CALLS_OF = {"wheel": ("rope_cat", "rope_in_place", "decode"), "checkout": ("rope_cat", "rope_in_place")}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("torch", "triton", "pandas", "einops", "psutil")),
        reason="AITER imports torch, Triton, pandas, einops and psutil: pip install the groups torch and aiter of pyproject.toml",
    ),
]


@pytest.fixture(scope="module", params=["gfx942", "gfx950"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A target, and the folder of its data wheel, installed."""
    name: str = request.param
    row, said = repository.manifest().targets[name], list[str]()
    target = Target(name, row.fp8, row.cus[0])
    found = filled(ROOT, [target], find("hermetic", ROOT), ROOT / "build" / "store", said.append)
    assert not [line for line in said if "left out" in line], said
    place = tmp_path_factory.mktemp(name)
    with ZipFile(write_cache_wheel(ROOT, place, name, found[name])) as archive:
        archive.extractall(place / "site")
    return name, place / "site" / folder_of(name)


def start(tree: Path, world: World, target: str, *words: str, **more: str) -> tuple[Any, str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tree), str(world.site), target, *words],
        env=world.environment | {"SEEDED_TOLD": str(world.told), "AITER_PREBUILT_BUNDLES": ""} | more,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])["report"], done.stderr


@pytest.fixture(scope="module")
def host_part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Triton cache with the host part of its driver, which is the same for every target and tree. Triton compiles it with the
    system's compiler.
    """
    library_path()
    folder = tmp_path_factory.mktemp("host")
    made = World(folder)
    start(folder, made, "gfx942", "ready", PATH=os.environ["PATH"], **_with_tests(made))
    assert not made.told.exists()
    return Path(made.environment["TRITON_CACHE_DIR"])


@pytest.fixture
def ready(world: World, host_part: Path) -> World:
    """Surroundings in which Triton's driver has its host part."""
    shutil.copytree(host_part, world.environment["TRITON_CACHE_DIR"])
    world.environment |= _with_tests(world)
    return world


def _with_tests(world: World) -> dict[str, str]:
    return {"PYTHONPATH": f"{world.environment['PYTHONPATH']}{os.pathsep}{ROOT / 'tests'}"}


def kernels(found: dict[str, int]) -> set[str]:
    return {name.rpartition(".")[2] for name in found}


def test_kernels_of_the_wheel_are_found_and_right(tree: Path, ready: World, wheel: tuple[str, Path]) -> None:
    target, folder = wheel
    names = CALLS_OF[kind_of(tree)]
    settings = {cache_data.VARIABLE: str(folder), "AITER_PREBUILT_BRIDGE": "strict"}
    report, errors = start(tree, ready, target, "call", *names, **settings)
    assert not ready.told.exists(), ready.told.read_text()
    assert report["calls"] == {name: [] for name in names}, errors[-2000:]
    assert kernels(report["hits"]) == set().union(*(CALLS[name] for name in names))
    assert report["active"] and not report["misses"]


def test_without_the_wheel_strict_names_the_kernel(tree: Path, ready: World, wheel: tuple[str, Path]) -> None:
    report, _ = start(tree, ready, wheel[0], "call", "rope_cat", AITER_PREBUILT_BRIDGE="strict")
    (said,) = report["calls"]["rope_cat"]
    assert (
        said.startswith("CompileRefusedError: Cannot launch aiter.ops.triton.")
        and "_qk_rope_cat_kernel: Triton would" in said
    )
    assert "no data wheel with kernels of Triton's is installed" in said
    assert not ready.told.exists()


def test_by_default_triton_compiles_and_the_reason_is_said(
    tree: Path, ready: World, wheel: tuple[str, Path]
) -> None:
    """A user's variable makes another kernel of it; that Triton compiled is what the program tells."""
    target, folder = wheel
    settings = {cache_data.VARIABLE: str(folder), "TRITON_DEFAULT_FP_FUSION": "0"}
    _, errors = start(tree, ready, target, "call", "rope_cat", **settings)
    assert ready.told.read_text() == "triton _qk_rope_cat_kernel\n"
    assert errors.count("_qk_rope_cat_kernel: Triton compiles it, because of ") == 1
    assert "options enable_fp_fusion: False, there True" in errors


def test_a_variable_that_says_the_default_changes_nothing(
    tree: Path, ready: World, wheel: tuple[str, Path]
) -> None:
    target, folder = wheel
    settings = {cache_data.VARIABLE: str(folder), "TRITON_DEFAULT_FP_FUSION": "1"}
    report, _ = start(tree, ready, target, "call", "rope_cat", AITER_PREBUILT_BRIDGE="strict", **settings)
    assert report["calls"] == {"rope_cat": []} and kernels(report["hits"]) == {"_qk_rope_cat_kernel"}


def test_a_flipped_bit_is_an_error_and_no_launch(
    tree: Path,
    ready: World,
    wheel: tuple[str, Path],
    tmp_path: Path,
) -> None:
    target, folder = wheel
    copy = tmp_path / folder.name
    copy.mkdir()
    for path in (*folder.rglob("*.hsaco"), *folder.rglob("*.json")):
        (copy / path.relative_to(folder)).parent.mkdir(exist_ok=True)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= path.suffix == ".hsaco"
        (copy / path.relative_to(folder)).write_bytes(data)
    assert (copy / INDEX).read_bytes() == (folder / INDEX).read_bytes()
    report, _ = start(tree, ready, target, "call", "rope_cat", **{cache_data.VARIABLE: str(copy)})
    (said,) = report["calls"]["rope_cat"]
    assert (
        said.startswith("CacheDamagedError: Cannot read ")
        and "another SHA-256" in said
        and not report["hits"]
    )
    assert not ready.told.exists()
