"""The heap of the Triton children: the same addresses in every process, whatever was allocated before a fork."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from build_tools.compile.backends.heap import steady
from build_tools.files.run import run
from build_tools.tools.toolchain import find

pytest.importorskip("ziglang")

# The parent allocates as many blocks as it is told; the addresses that its fork gets, of small, large and aligned blocks.
_CHILD = """
import ctypes, os, sys
c = ctypes.CDLL(None)
for name in ("malloc", "aligned_alloc", "realloc", "calloc"):
    getattr(c, name).restype = ctypes.c_void_p
kept = [c.malloc(ctypes.c_size_t(24 + n % 3000)) for n in range(int(sys.argv[1]))]
for block in kept[::2]:
    c.free(ctypes.c_void_p(block))
if os.fork() == 0:
    c.free(ctypes.c_void_p(kept[1]))
    blocks = [c.malloc(ctypes.c_size_t(size)) for size in (24, 24, 1 << 10, 100 << 20, 24)]
    assert sorted(blocks) == blocks
    c.free(ctypes.c_void_p(blocks[1]))
    assert c.malloc(ctypes.c_size_t(20)) == blocks[1]
    aligned = c.aligned_alloc(ctypes.c_size_t(4096), ctypes.c_size_t(8192))
    assert aligned % 4096 == 0
    ctypes.memset(aligned, 7, 8192)
    grown = c.realloc(ctypes.c_void_p(aligned), ctypes.c_size_t(1 << 16))
    assert ctypes.string_at(grown, 8192) == b"\\7" * 8192
    reused = c.calloc(ctypes.c_size_t(1), ctypes.c_size_t(8192))
    assert ctypes.string_at(reused, 8192) == bytes(8192)
    print([block - blocks[0] for block in blocks], hex(blocks[0] >> 40), flush=True)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def _addresses(before: int, **more: str) -> str:
    root = Path(__file__).resolve().parents[2]
    environment = steady(find("hermetic", root)) | more
    outcome = run([sys.executable, "-c", _CHILD, str(before)], env=environment)
    assert outcome.ok, outcome.output
    return outcome.output


def test_a_fork_has_the_same_addresses_whatever_its_parent_did() -> None:
    first = _addresses(10)
    assert first == _addresses(5000, AITER_PREBUILT_LONG="x" * 5000)
    assert "0x11" in first
