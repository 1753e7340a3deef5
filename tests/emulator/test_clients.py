"""Programs that know nothing of this project, unmodified from PyPI, on the embedded device."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.assembly import code_object
from support.emulator import library_path

CLIENTS = Path(__file__).parent / "clients"
ADD_ONE = """
  s_load_dwordx2 s[2:3], s[0:1], 0x0
  v_lshlrev_b32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v1, v0, s[2:3]
  s_waitcnt vmcnt(0)
  v_add_u32 v1, 1, v1
  global_store_dword v0, v1, s[2:3]
  s_endpgm
"""


def run(words: list[str], target: str, tmp_path: Path) -> str:
    """A client in a process of its own, which finds the library as it would find ROCm's; what it printed."""
    library = library_path()
    names = tmp_path / "lib"
    names.mkdir()
    for name in ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"):
        (names / name).symlink_to(library)
    # FlyDSL links with ROCm's lld; the pinned compiler has the same one under another name.
    linker = tmp_path / "rocm" / "llvm" / "bin" / "ld.lld"
    linker.parent.mkdir(parents=True)
    linker.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang ld.lld "$@"\n')
    linker.chmod(0o755)
    environment = os.environ | {
        "ROCM_PATH": str(tmp_path / "rocm"),
        "AITER_PREBUILT_EMULATOR": target,
        "TRITON_LIBHIP_PATH": str(library),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "LD_LIBRARY_PATH": str(names),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_tritons_own_driver(target: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    printed = run([str(CLIENTS / "triton_client.py")], target, tmp_path)
    assert printed.split() == ["target", target, "right"]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("module", ["rocm.bindings.hip", "hip.hip"])
def test_amds_python_bindings(module: str, target: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(module.split(".")[0]) is None:
        pytest.skip(f"{module} is not installed: pip install -r build_tools/locks/clients.txt")
    image = tmp_path / "add.co"
    image.write_bytes(code_object(target, ADD_ONE))
    printed = run([str(CLIENTS / "bindings_client.py"), module, str(image)], target, tmp_path)
    assert f"{target}:sramecc+:xnack-" in printed
    assert printed.split()[-1] == "right"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_flydsls_own_launcher(target: str, tmp_path: Path) -> None:
    pytest.importorskip("flydsl")
    source = Path(__file__).resolve().parents[2] / "csrc" / "kernels" / "flydsl" / "softmax.py"
    printed = run([str(CLIENTS / "flydsl_client.py"), str(source), target], target, tmp_path)
    assert printed.split()[-1] == "right"
