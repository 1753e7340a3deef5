"""Fixtures: a read-only copy of what is installed, processes of their own, the stub driver with a GPU per name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from native.conftest import compile_c, extension_path, native, stub_path
from support.emulator import bundles, library_path

__all__ = ["extension_path", "native", "stub_path"]

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("gfx942", "gfx950")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(*folders: Path, **more: str) -> dict[str, str]:
    """Nothing of the runtime's own variables but ``more``; ``folders`` go before everything on the path."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AITER_PREBUILT")}
    paths = [*folders, ROOT / "tests", ROOT]
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"} | more


def emulated(devices: str, **more: str) -> dict[str, str]:
    """The variables that make the embedded device this process's HIP, with the ck-free bundles of both targets."""
    files = [path for target in TARGETS for path in bundles(target, "ck-free")]
    return {
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": devices,
        "AITER_PREBUILT_BUNDLES": os.pathsep.join(map(str, files)),
    } | more


def python(
    words: Sequence[str], variables: Mapping[str, str], timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of these tests; the caller judges how it ended."""
    return subprocess.run(
        [sys.executable, *words],
        env=dict(variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="session")
def tree(extension_path: Path) -> Iterator[Path]:
    """The installed packages and bundles in a folder that anybody may read and nobody write."""
    # Not pytest's own folder: only its owner may enter that one.
    root = Path(tempfile.mkdtemp(prefix="apb-tree-"))
    for name in ("aiter_prebuilt", "aiter_prebuilt_emulator"):
        shutil.copytree(ROOT / "src" / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(extension_path, root / "aiter_prebuilt" / "_native.abi3.so")
    (root / "aiter_prebuilt_emulator" / "lib").mkdir(exist_ok=True)
    shutil.copy(library_path(), root / "aiter_prebuilt_emulator" / "lib" / "libamdhip64.so")
    (root / "aiter_prebuilt_bundles").mkdir()
    for target in TARGETS:
        for path in dict.fromkeys((*bundles(target, "ck-free"), *bundles(target, "ck-full"))):
            for file in (path, path.with_suffix(".calls")):
                shutil.copy(file, root / "aiter_prebuilt_bundles")
    (root / "home").mkdir()
    places = [root, *root.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    yield root
    for place in places:
        place.chmod(0o755)
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def many_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub driver with one device for each gcnArchName in STUB_ARCHS."""
    folder = tmp_path_factory.mktemp("many")
    return compile_c("../promises/many_gpus.c", folder / "libmany_gpus.so")


@pytest.fixture(scope="session")
def slow_hip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HIP library whose module loads take their time; SLOW_HIP names the one that does the work."""
    return compile_c("../promises/slow_hip.c", tmp_path_factory.mktemp("slow") / "libslow_hip.so", "-ldl")
