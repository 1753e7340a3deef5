"""Assembly for tests of the embedded device: instructions as words, whole kernels as code objects. Uses ziglang's clang."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

_HEAD = """.amdgcn_target "amdgcn-amd-amdhsa--{target}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
"""
_TAIL = """
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset {accum_offset}
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_system_vgpr_workitem_id 0
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 102
    .vgpr_count: 128
    .agpr_count: 64
    .max_flat_workgroup_size: 1024
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global, .name: data}}
...
.end_amdgpu_metadata
"""


@cache
def _zig() -> Path:
    ziglang = pytest.importorskip("ziglang")
    return Path(ziglang.__file__).parent / "zig"


def _run(argv: Sequence[object]) -> None:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _relocatable(target: str, source: str, folder: Path) -> Path:
    (folder / "in.s").write_text(source, encoding="utf-8")
    flags = ["-target", "amdgcn-amd-amdhsa", "-mcode-object-version=5", f"-mcpu={target}", "-x", "assembler"]
    _run([_zig(), "clang", *flags, "-c", folder / "in.s", "-o", folder / "out.o"])
    return folder / "out.o"


@cache
def assemble(target: str, source: str) -> tuple[int, ...]:
    """The words of ``.text``. ``source`` may have labels; ``target`` is gfx942 or gfx950."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    with tempfile.TemporaryDirectory() as name:
        data = _relocatable(target, source + "\n", Path(name)).read_bytes()
    section = elffile.ELFFile(BytesIO(data)).get_section_by_name(".text").data()
    return tuple(int.from_bytes(section[i : i + 4], "little") for i in range(0, len(section), 4))


@cache
def code_object(target: str, body: str, lds: int = 0, vgprs: int = 128, accum_offset: int = 64) -> bytes:
    """A linked code object with one kernel, ``kernel(data: global pointer)``.

    On entry s[0:1] is the kernarg segment, s2 the workgroup number, v0 the work item. ``lds``: bytes of static LDS.
    ``vgprs``: registers of both files together, those from ``accum_offset`` on accumulation VGPRs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = (
            _HEAD.format(target=target) + body + _TAIL.format(lds=lds, vgprs=vgprs, accum_offset=accum_offset)
        )
        relocatable = _relocatable(target, source, folder)
        _run(
            [
                _zig(),
                "ld.lld",
                "-shared",
                "--no-undefined",
                "--build-id=none",
                relocatable,
                "-o",
                folder / "out.co",
            ]
        )
        return (folder / "out.co").read_bytes()
