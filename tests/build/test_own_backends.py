"""One tree with a kernel of each backend that needs no source tree: HIP, Triton, FlyDSL, and a code object with a table."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from support.emulator import library_path
from support.own_trees import CASES, REFERENCE, SCALE, SCALES, emulated, run, unpacked

from aiter_prebuilt.contract.bundle import Bundle
from build_tools.objects.unpack import decompress

pytest.importorskip("ziglang")
pytest.importorskip("triton")
pytest.importorskip("flydsl")

TRITON = """\
import triton
import triton.language as tl


@triton.jit
def triton_scale(out, x, x_row, columns, factor, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row * x_row + at, mask=at < columns)
        tl.store(out + row * columns + at, value * factor, mask=at < columns)
"""
FLYDSL = """\
import flydsl.compiler as flyc
import flydsl.expr as fx
import torch


def build(constants):
    @flyc.kernel(name="flydsl_scale")
    def scale(out: fx.Tensor, x: fx.Tensor, n: fx.Int32, factor: fx.Float32):
        row = fx.block_idx.x
        rows = [fx.slice(fx.rocdl.make_buffer_tensor(each), (row, None)) for each in (x, out)]
        source, target = (fx.logical_divide(each, fx.make_layout(1, 1)) for each in rows)
        for first in range(fx.Int32(0), n, fx.Int32(64)):
            at = fx.Int32(first) + fx.thread_idx.x
            if at < n:
                held = fx.make_rmem_tensor(1, fx.Float32)
                copy = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), 32)
                fx.copy(copy, fx.slice(source, (None, at)), held)
                value = fx.memref_load_vec(held)[0] * factor
                fx.memref_store_vec(fx.Vector.from_elements([value], fx.Float32), held)
                fx.copy(copy, held, fx.slice(target, (None, at)))

    @flyc.jit
    def launch(out: fx.Tensor, x: fx.Tensor, n: fx.Int32, factor: fx.Float32):
        scale(out, x, n, factor).launch(grid=(1, 1, 1), block=(64, 1, 1))

    rows = torch.empty(2, 2, dtype=torch.float32)
    return launch, (rows, rows, fx.Int32(1), fx.Float32(1.0))
"""
KERNELS = """\
edition = 2

[kernels.scale]
backend = "hip"
targets = ["gfx942"]
source = "scale.hip"
symbol = "own_scale"
when = ["N < 64"]
grid = ["M"]
block = [256]
args = ["ptr out", "ptr x", "i64 x_row", "i32 N", "f32 factor"]

[kernels.triton_scale]
backend = "triton"
targets = ["gfx942"]
source = "triton_scale.py"
symbol = "triton_scale"
constants = { BLOCK = 64, num_warps = 1 }
when = ["N < 128"]
grid = ["M"]
args = ["ptr out", "ptr x", "i32 x_row", "i32 N", "f32 factor"]

[kernels.flydsl_scale]
backend = "flydsl"
targets = ["gfx942"]
source = "flydsl_scale.py"
symbol = "flydsl_scale"
when = ["N < 256", "M * N < 536870912 and M * x_row < 536870912"]
grid = ["M"]
block = [64]
args = [
  "ptr out", "packed { i32 M, i32 N, i64 N }", "ptr x", "packed { i32 M, i32 N, i64 x_row }", "i32 N", "f32 factor",
]

[kernels.object_scale]
backend = "asm"
targets = ["gfx942"]
source = "objects/{NAME}.co"
symbol = "own_scale"
when = ["N < 2147483392"]
grid = ["M"]
block = [256]
args = ["ptr out", "ptr x", "i64 x_row", "i32 N", "f32 factor"]
variants = { object = [{ name = "scale", NAME = "scale" }] }

"""
CALLS = """\
[own_scale]
golden = "M=2 N=5 factor=0.5"
calls = [
  "M=3&2 N=30&41 factor=1.5&-0.25 x_row=44&50", "M=3&2 N=70&100 factor=3.0&0.5 x_row=104&110",
  "M=3&2 N=130&200 factor=0.5&1.25 x_row=208&212", "M=3&2 N=300&401 factor=1.5&-2.0 x_row=404&410",
  "M=3 N=310 factor=0.5 x_row=0&7",
]
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with four kernels of one operator, without the code object."""
    library_path()
    tree = tmp_path_factory.mktemp("trees") / "every"
    run("new-tree", tree)
    own = tree / "manifests" / "own"
    own.mkdir()
    files = {"scale.hip": SCALE, "triton_scale.py": TRITON, "flydsl_scale.py": FLYDSL}
    for name, text in files.items():
        (tree / name).write_text(text)
    for name, text in (("operators.toml", SCALES), ("reference.py", REFERENCE), ("cases.toml", CASES)):
        (own / name).write_text(text)
    return tree


def check_stages(folder: Path) -> None:
    """Each backend left its IR and ISA, beside the code object that the build made."""
    (hip,) = folder.glob("*-hip-*")
    assert "define" in (hip / "llvm.ll").read_text() and "s_endpgm" in (hip / "isa.s").read_text()
    (triton,) = folder.glob("*-triton-*")
    assert (
        "tt.func" in (triton / "kernel.ttir").read_text()
        and "s_endpgm" in (triton / "kernel.amdgcn").read_text()
    )
    assert {"kernel.ttgir", "kernel.llir"} <= {path.name for path in triton.iterdir()}
    (flydsl,) = folder.glob("*-flydsl-*")
    assert len(list(flydsl.rglob("*.mlir"))) > 3
    (plain,) = folder.glob("*-asm-*")
    for place in (flydsl, plain):
        text = (place / "disassembly.s").read_text()
        assert "s_endpgm" in text and "unknown instruction" not in text.partition("s_endpgm")[0]
    for place in (hip, triton, flydsl, plain):
        assert (place / "code_object.co").read_bytes().startswith(b"\x7fELF")


def test_kernels_of_every_backend_become_one_wheel(tree: Path, tmp_path: Path) -> None:
    own, store = tree / "manifests" / "own", tree.parent / "store"
    run("build", "--root", tree, "--store", store)
    bundle = Bundle((tree / "build" / "bundles" / "gfx942-ck-free.every.apb").read_bytes(), decompress)
    (tree / "objects").mkdir()
    entry = bundle.operator("own_scale").entries[0]
    (tree / "objects" / "scale.co").write_bytes(bundle.code_object(entry))
    table = {"sha256": entry.sha256.hex(), "target": "gfx942", "symbol": entry.symbol, "origin": "a test"}
    lines = [*(f'{key} = "{value}"' for key, value in table.items()), f"kernarg_size = {entry.kernarg_size}"]
    (tree / "objects" / "scale.co.toml").write_text("\n".join(lines) + "\n")
    operator = SCALES[SCALES.index("[operators.own_scale]") :].replace("*M", "M")
    names = '["scale", "triton_scale", "flydsl_scale", "object_scale"]'
    (own / "operators.toml").write_text(KERNELS + operator.replace('["scale"]', names))
    (own / "cases.toml").write_text(CALLS)
    run("build", "--root", tree, "--store", store, "--keep-ir", tree / "ir")
    for step in ("prove", "build"):
        run(step, "--root", tree, *(("--store", store) if step == "build" else ()))
    check_stages(tree / "ir")
    run("wheels", "--root", tree)
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        bundle = Bundle(archive.read("aiter_prebuilt_bundles/gfx942-ck-free.every.apb"), decompress)
    kernels = [kernel.name for kernel in bundle.operator("own_scale").kernels]
    assert kernels == ["scale", "triton_scale", "flydsl_scale", "object_scale"]
    site = unpacked(wheel, tmp_path / "site")
    for columns, kernel in ((5, "scale"), (70, "triton_scale"), (200, "flydsl_scale"), (300, "object_scale")):
        words = ("explain", "own_scale", "M=3", f"N={columns}", "--target", "gfx942", "--json")
        told = json.loads(emulated(site, tmp_path, "-m", "aiter_prebuilt", *words).stdout)
        assert [row["kernel"] for row in told["decisions"] if row["chosen"]] == [kernel]
