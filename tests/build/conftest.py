"""Jobs for the build tests: one tiny source per backend, in a repository of its own, compiled with the real toolchain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import repository

from build_tools.compile.backends.table import BACKENDS
from build_tools.compile.store import Store
from build_tools.errors import ToolchainError
from build_tools.plan.plan import target_facts
from build_tools.records import Backend, CompileJob, Constant, KernelArg, TargetFacts
from build_tools.tools.toolchain import Toolchain, find

ROOT = Path(__file__).resolve().parents[2]
MakeJob = Callable[..., CompileJob]
#: Source, symbol, constants, and arguments as (kind, name, element type).
Kind = tuple[str, str, dict[str, Constant], tuple[tuple[str, str, str], ...]]

HIP = """\
#include "scale.hpp"
extern "C" __attribute__((global, amdgpu_flat_work_group_size(BLOCK, BLOCK)))
void scale(T* out, const T* x, int n, float factor) {
  int i = __builtin_amdgcn_workgroup_id_x() * BLOCK + __builtin_amdgcn_workitem_id_x();
  if (i < n) out[i] = scaled(x[i], factor);
}
"""
HIP_HEADER = """\
#pragma once
static __attribute__((device)) inline float scaled(float x, float factor) {
#if DOUBLED
  factor *= 2.0f;
#endif
  return x * factor;
}
"""
TRITON = """\
import triton
import triton.language as tl
from shared import twice


@triton.jit
def add(out, x, y, n, BLOCK: tl.constexpr, SUM: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = twice(tl.load(x + i, mask=i < n)) + tl.load(y + i, mask=i < n)
    if SUM:
        value = value + tl.sum(value, axis=0)
    tl.store(out + i, value, mask=i < n)
"""
TRITON_SHARED = """\
import triton


@triton.jit
def twice(x):
    return x * 2
"""
# Stores `VALUE` at the address in its first argument.
ASM = """\
.include "head.inc"
.text
.globl put
.p2align 8
.type put,@function
put:
  s_load_dwordx2 s[0:1], s[0:1], 0x0
  v_mov_b32_e32 v0, 0
  v_mov_b32_e32 v1, VALUE
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[0:1]
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel put
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 2
  .amdhsa_next_free_sgpr 2
  .amdhsa_accum_offset 4
  .amdhsa_kernarg_size 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: put
    .symbol: put.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 2
    .vgpr_count: 2
    .max_flat_workgroup_size: 64
    .args:
      - {.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""
ASM_HEAD = '.ifndef VALUE\n.error "VALUE is not set"\n.endif\n'


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    try:
        return find("hermetic", ROOT)
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def targets() -> dict[str, TargetFacts]:
    return target_facts(repository.manifest())


def write_sources(folder: Path) -> Path:
    files = {
        "k/scale.hip": HIP, "k/scale.hpp": HIP_HEADER, "k/add.py": TRITON, "k/shared.py": TRITON_SHARED, "k/put.s": ASM,
        "k/head.inc": ASM_HEAD,
    }  # fmt: skip
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_sources(tmp_path / "repository")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def layout(*args: tuple[str, str, str]) -> tuple[tuple[KernelArg, ...], int]:
    """Kernel arguments (kind, name, element type) at their natural offsets, and the bytes they take."""
    result, end = [], 0
    for kind, name, dtype in args:
        size = 8 if kind in ("ptr", "i64") else 4
        offset = end + -end % size
        result.append(KernelArg(kind, name, offset, size, dtype))
        end = offset + size
    return tuple(result), end


_POINTERS = (("ptr", "out", "f32"), ("ptr", "x", "f32"))
_HIDDEN = (("ptr", "null", ""), ("ptr", "null", ""))
_N = ("i32", "n", "")
_CK_ARGS = (
    *(("ptr", name, "") for name in ("out", "input", "x_scale", "y_scale")),
    *(("i32", name, "") for name in ("M", "N", "out_row", "in_row")),
)
_CK_INSTANCE: dict[str, Constant] = {
    "op": "smoothquant",
    "instance": "w512",
    "ROWS": 4,
    "COLUMNS": 512,
    "VECTOR": 8,
    "THREADS": 256,
}
_ROWS = (("ptr", "out", "bf16"), ("ptr", "x", "bf16"), _N, ("i64", "out_stride", ""), ("i64", "x_stride", ""))
_CK = "csrc/kernels/ck/gen_instances.py"
_FLYDSL = "csrc/kernels/flydsl/softmax.py"
KINDS: dict[Backend, Kind] = {
    "hip": (
        "k/scale.hip",
        "scale",
        {"T": "float", "BLOCK": 64, "DOUBLED": False},
        (*_POINTERS, _N, ("f32", "factor", "")),
    ),
    "asm": ("k/put.s", "put", {"VALUE": 7}, (("ptr", "out", "f32"),)),
    "triton": (
        "k/add.py",
        "add",
        {"BLOCK": 256, "SUM": True, "num_warps": 2},
        (*_POINTERS, ("ptr", "y", "f32"), _N, *_HIDDEN),
    ),
    "ck": (_CK, "ck_tile_smoothquant_fwd", {**_CK_INSTANCE, "T": "bf16", "Q": "i8"}, _CK_ARGS),
    "flydsl": (
        _FLYDSL,
        "softmax_rows",
        {"T": "bf16", "BLOCK": 64, "VEC": 8, "TILES": 1, "CACHED": 1, "WIDE": 0},
        _ROWS,
    ),
}


@pytest.fixture
def make_job(root: Path, targets: dict[str, TargetFacts]) -> MakeJob:
    """``make_job(backend, target, in_folder=root, **constants)``: the job of that backend, some constants replaced."""

    def make(backend: Backend, target: str, in_folder: Path = root, **changed: Constant) -> CompileJob:
        source, symbol, constants, spec = KINDS[backend]
        args, size = layout(*spec)
        named = {**constants, **changed}
        threads = int(str(named.get("THREADS", named.get("BLOCK", 64))))
        block = (0, 0, 0) if backend == "triton" else (threads, 1, 1)
        name = "_".join(f"{key}{value}" for key, value in sorted(named.items()))
        inputs = BACKENDS[backend].expand(source, symbol, in_folder)
        return CompileJob(
            id=f"{target}-{backend}-{symbol}-{name}",
            target=targets[target],
            backend=backend,
            source=source,
            symbol=symbol,
            constants=tuple(sorted(named.items())),
            args=args,
            kernarg_size=size,
            block=block,
            inputs=inputs,
        )

    return make
