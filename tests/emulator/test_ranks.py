"""``CustomAllreduce`` on several embedded devices: ranks as threads of a process, as processes, and met through torch's gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.emulator import bundles, library_path

ROOT = Path(__file__).resolve().parents[2]


def environment(target: str, world: int) -> dict[str, str]:
    """Of a process that sees ``world`` devices."""
    (path,) = bundles(target, "ck-free")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)]),
        "AITER_PREBUILT_HIP": str(library_path()),
        "AITER_PREBUILT_EMULATOR": ",".join([target] * world),
        "AITER_PREBUILT_EMULATOR_CHECKS": "all",
        "AITER_PREBUILT_BUNDLES": str(path),
    }


def finish(children: list[subprocess.Popen[str]], wanted: str) -> None:
    """All say ``wanted`` and nothing else; the first that fails ends the others, which would wait for it for ever."""
    try:
        for child in children:
            said, complained = child.communicate(timeout=300)
            assert child.returncode == 0 and said == wanted, said + complained[-4000:]
    finally:
        for child in children:
            child.kill()
            child.wait()


def start(target: str, world: int, *words: str, program: str = "ranks_program") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"emulator.{program}", str(world), *words]
    return subprocess.Popen(
        command, env=environment(target, world), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("target", "world"), [("gfx942", 2), ("gfx950", 4)])
def test_ranks_that_are_threads_of_one_process(target: str, world: int, tmp_path: Path) -> None:
    """Peer access; a launch lets other Python threads run while its kernel waits for theirs."""
    finish([start(target, world, str(tmp_path), "5", "threads")], "done\n")


@pytest.mark.parametrize(("target", "world"), [("gfx950", 2), ("gfx942", 6), ("gfx942", 8)])
def test_ranks_that_are_processes(target: str, world: int, tmp_path: Path) -> None:
    """Handles of memory, as on a host with as many GPUs."""
    finish([start(target, world, str(tmp_path), "7", str(rank)) for rank in range(world)], "done\n")


def test_ranks_of_a_process_group(tmp_path: Path) -> None:
    """torch.distributed's gloo carries what ranks say of themselves, in inference mode, too."""
    finish([start("gfx950", 2, str(tmp_path), "9", str(rank), "gloo") for rank in range(2)], "done\n")


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_whose_tensors_are_torchs(world: int, tmp_path: Path) -> None:
    """MXFP4, whose codes torch allocates."""
    pytest.importorskip("torch")
    words = (str(tmp_path), "3")
    children = [
        start("gfx950", world, *words, str(rank), program="torch_ranks_program") for rank in range(world)
    ]
    finish(children, "done\n")


def test_ranks_that_do_not_fit(tmp_path: Path) -> None:
    """Another max_size, another host, a world of three, and NCCL: refused by name, or off, and nobody hangs."""
    for what, wanted in (
        ("sizes", "UnsupportedError\n"),
        ("one off", "UnsupportedError\n"),
        ("hosts", "disabled\n"),
        ("off", "disabled\n"),
    ):
        folder = tmp_path / what
        folder.mkdir()
        finish([start("gfx950", 2, str(folder), "1", str(rank), what) for rank in range(2)], wanted)
    folder = tmp_path / "three"
    folder.mkdir()
    finish([start("gfx950", 3, str(folder), "1", str(rank), "three") for rank in range(3)], "disabled\n")
