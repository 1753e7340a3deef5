"""Code objects of any shape for tests of the loader: assembly with its own descriptors and metadata, linked by ziglang's lld."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from support.assembly import _run, _zig

#: Descriptor lines of a kernel that wants nothing but its arguments: s[0:1] kernarg segment, s2 workgroup number, v0 work item.
PLAIN = (
    "next_free_vgpr 32",
    "next_free_sgpr 48",
    "accum_offset 16",
    "user_sgpr_kernarg_segment_ptr 1",
    "system_sgpr_workgroup_id_x 1",
    "system_vgpr_workitem_id 0",
)


def kernel_source(
    body: str,
    *,
    name: str = "kernel",
    descriptor: Sequence[str] = PLAIN,
) -> str:
    """One kernel with its descriptor, no metadata. ``descriptor``: lines without ``.amdhsa_``."""
    lines = "\n".join(f"  .amdhsa_{line}" for line in descriptor)
    return f""".text
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body}
.L{name}_end:
.size {name}, .L{name}_end-{name}
.rodata
.p2align 6
.amdhsa_kernel {name}
{lines}
.end_amdhsa_kernel
"""


def metadata(
    arguments: Sequence[tuple[int, int, str]],
    *,
    name: str = "kernel",
    kernarg: int = 0,
    lines: Sequence[str] = (),
) -> str:
    """The note for one kernel. ``arguments``: offset, size, value kind. ``kernarg``: bytes, at least what the arguments need."""
    size = max([kernarg, *(offset + width for offset, width, _ in arguments)])
    rows = "".join(
        f"      - {{.offset: {offset}, .size: {width}, .value_kind: {kind}"
        + (", .address_space: global}" if kind == "global_buffer" else "}")
        + "\n"
        for offset, width, kind in arguments
    )
    extra = "".join(f"    {line}\n" for line in lines)
    return f""".amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {size}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 54
    .vgpr_count: 32
    .max_flat_workgroup_size: 1024
{extra}    .args:
{rows}...
.end_amdgpu_metadata
"""


@cache
def link(target: str, source: str, version: int = 5, undefined: bool = False) -> bytes:
    """A linked code object. ``target`` may have features (``gfx942:xnack+``), ``version`` is the code object's.

    ``undefined``: symbols may stay undefined, which LLVM's linker refuses otherwise.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = f'.amdgcn_target "amdgcn-amd-amdhsa--{target}"\n{source}'
        (folder / "in.s").write_text(text, encoding="utf-8")
        flags = ["-target", "amdgcn-amd-amdhsa", f"-mcode-object-version={version}", f"-mcpu={target}"]
        _run([_zig(), "clang", *flags, "-x", "assembler", "-c", folder / "in.s", "-o", folder / "out.o"])
        policy = "--allow-shlib-undefined" if undefined else "--no-undefined"
        shared = ["-shared", policy, "--build-id=none", folder / "out.o", "-o", folder / "out.co"]
        _run([_zig(), "ld.lld", *shared])
        return (folder / "out.co").read_bytes()


def bundle(entries: Sequence[tuple[str, bytes]]) -> bytes:
    """An uncompressed offload bundle, as ``clang-offload-bundler`` writes it. Each entry: its id and its bytes."""
    head = 24 + 8 + sum(24 + len(identity) for identity, _ in entries)
    table, contents, offset = b"", b"", (head + 4095) // 4096 * 4096
    for identity, data in entries:
        table += offset.to_bytes(8, "little") + len(data).to_bytes(8, "little")
        table += len(identity).to_bytes(8, "little") + identity.encode()
        contents += data + bytes(-len(data) % 4096)
        offset += (len(data) + 4095) // 4096 * 4096
    start = b"__CLANG_OFFLOAD_BUNDLE__" + len(entries).to_bytes(8, "little") + table
    return start + bytes(-len(start) % 4096) + contents
