"""HIP text as a code object, by the compiler and the device libraries that the pipeline pins."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
#: ``__oclc_ISA_version`` of each target.
_ISA: Final = {"gfx942": 9402, "gfx950": 9500}
#: What HIP's own headers say. Reading those takes ten times as long as compiling a small kernel.
_HEAD: Final = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
typedef unsigned u32;
"""


@cache
def hip_object(target: str, text: str, *extra: str) -> bytes:
    """The code object of ``text`` for ``target``, ockl and ocml linked in. ``extra``: flags of clang, the last ones win."""
    for package in ("ziglang", "clang_tidy", "triton"):
        pytest.importorskip(package)
    from build_tools.files.filehash import FileHashes
    from build_tools.files.run import run
    from build_tools.tools import hermetic, pins
    from build_tools.tools.clang import DEVICE_FLAGS
    from build_tools.tools.fetch import cache_folder

    store = cache_folder()
    clang = hermetic.find(pins.load(ROOT), store, FileHashes(store / "hashes.json"))
    facts: Any = SimpleNamespace(name=target, wave=64, isa_version=_ISA[target])
    libraries = [*clang.libraries, hermetic.control_constants(clang, facts, store)]
    linked = [
        word for path in libraries for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.hip").write_text(_HEAD + text, encoding="utf-8")
        words = [*clang.driver, *DEVICE_FLAGS, f"--offload-arch={target}", *clang.hip_flags, *linked, *extra]
        outcome = run([*words, "in.hip", "-o", "out.co"], cwd=folder, env=clang.env)
        assert outcome.ok, outcome.output
        return (folder / "out.co").read_bytes()
