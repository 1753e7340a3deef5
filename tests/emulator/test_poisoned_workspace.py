"""Workspaces hold NaN before a call. The embedded device gives out pages of zeros, which would hide what a kernel reads and
nobody wrote; a library in between fills what the runtime allocates.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import proof
from support.assembly import _run, _zig
from support.emulator import bundles, library_path

from aiter_prebuilt.contract.calls import pack, read

#: Everything but this one function is found in the library that it is linked with.
BETWEEN = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
int hipMemsetAsync(void *, int, size_t, void *);
int hipMallocAsync(void **out, size_t bytes, void *stream) {
  int (*real)(void **, size_t, void *) = dlsym(RTLD_NEXT, "hipMallocAsync");
  const int status = real(out, bytes, stream);
  fprintf(stderr, "filled\n");
  return status ? status : hipMemsetAsync(*out, 0xFF, bytes, stream);
}
"""


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("between")
    (folder / "libamdhip64.so.7").symlink_to(library_path())
    (folder / "between.c").write_text(BETWEEN, encoding="utf-8")
    made = folder / "libbetween.so"
    linked = [folder / "libamdhip64.so.7", f"-Wl,-rpath,{folder}", "-ldl"]
    # As the wheels' parts are compiled: with other flags zig makes libraries of its own first, for half a minute.
    flags = ["-target", "x86_64-linux-gnu.2.28", "-s", "-O2", "-shared", "-fPIC"]
    _run([_zig(), "cc", *flags, folder / "between.c", *linked, "-o", made])
    return made


def executed(between: Path, stream: Path, target: str, profile: str) -> tuple[list[dict[str, Any]], int]:
    """(A line a call; how many workspaces were filled)."""
    command = [sys.executable, "-m", "aiter_prebuilt.execute", str(stream)]
    environment = proof.surroundings(between, bundles(target, profile), target)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(proof.labels(stream)), done.stderr[-3000:]
    return lines, done.stderr.count("filled\n")


def wrong(lines: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(line) for line in lines if line["problems"])


@pytest.mark.slow
@pytest.mark.parametrize("target", proof.TARGETS)
def test_a_call_of_each_operator(between: Path, target: str) -> None:
    stream, operators = proof.golden(bundles(target, "ck-free")[0])
    lines, filled = executed(between, stream, target, "ck-free")
    assert not wrong(lines) and len(lines) >= operators and filled >= 5


@pytest.mark.slow
@pytest.mark.parametrize("target", proof.TARGETS)
def test_what_is_added_up_for_keys_without_queries(between: Path, target: str, tmp_path: Path) -> None:
    """Heads that share keys: their gradients meet in the workspace, into which nobody writes for keys that no query sees."""
    with proof.calls(target, operator="fmha_v3_varlen_bwd").open("rb") as source:
        chosen = [
            call
            for call in read(source)
            if "cu_seqlens_q~" in call.label and "T=bf16" in call.label and _shared(call.label)
        ]
    assert len(chosen) >= 8
    stream = tmp_path / "chosen.calls"
    stream.write_bytes(b"".join(map(pack, chosen)))
    lines, filled = executed(between, stream, target, "ck-free")
    assert not wrong(lines) and filled == len(lines)


def _shared(label: str) -> bool:
    sizes = dict(word.split("=", 1) for word in label.split() if "=" in word)
    return sizes["HQ"] != sizes["HK"]
