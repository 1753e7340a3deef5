"""A child of ``test_product_backends.py``: products, and codes of scaled rows, that two kernels of a ck-free bundle take.

Arguments: the target, its own fp8, the file that the results go to, and ``ours`` where rows of a user's table name the Triton
kernel of ours.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

#: (Operator, rows, columns, elements of a row (fp4: bytes), variant of the kernel of ours.)
Call = tuple[str, int, int, int, str]
CALLS: dict[str, list[Call]] = {
    "gfx942": [
        ("gemm_a8w8_bpreshuffle", 5, 48, 288, "16x64"), ("gemm_a8w8_bpreshuffle", 33, 80, 256, "16x64"),
        ("gemm_a8w8_bpreshuffle", 130, 144, 384, "128x128"),
        ("gemm_a16w16_fp32", 5, 64, 192, "16x64"), ("gemm_a16w16_fp32", 61, 128, 512, "64x64"),
        ("gemm_a16w16_fp32", 130, 192, 320, "128x128"),
        ("gemm_a8w8_blockscale_bpreshuffle", 5, 144, 384, "16x64"), ("gemm_a8w8_blockscale_bpreshuffle", 27, 80, 1152, "16x64"),
        ("deepgemm", 7, 48, 352, "32x64"), ("deepgemm", 29, 80, 1056, "32x64"), ("deepgemm", 32, 144, 96, "128x128"),
        ("smoothquant_fwd", 3, 1048, 0, "EVEN0"), ("smoothquant_fwd", 2, 6007, 0, "EVEN0"),
        ("smoothquant_fwd", 5, 12008, 0, "EVEN0"),
    ],
}  # fmt: skip
CALLS["gfx950"] = [
    *CALLS["gfx942"],
    ("gemm_a4w4_asm", 5, 128, 128, "32x64-SHUFFLED1"), ("gemm_a4w4_asm", 61, 160, 384, "32x64-SHUFFLED1"),
    ("gemm_a4w4_asm", 141, 256, 256, "128x128-SHUFFLED1"), ("gemm_a4w4_asm", 269, 288, 256, "256x128-SHUFFLED1"),
    ("gemm_a4w4", 37, 96, 256, "32x64-SHUFFLED1"),
]  # fmt: skip
#: (Name, dims of a row, element types of a call) of the kernel of ours for an operator.
OURS = {
    "gemm_a8w8_bpreshuffle": ("preshuffled", "M,N,K", "bf16"),
    "gemm_a4w4_asm": ("f4_any", "M,N,KB", "bf16"),
    "gemm_a4w4": ("f4_any", "M,N,KB", "bf16"),
    "gemm_a16w16_fp32": ("gemm_tile", "M,N,K", "bf16"),
    "gemm_a8w8_blockscale_bpreshuffle": ("blockscale_shuffled", "M,N,K", "{fp8}_bf16"),
    "deepgemm": ("grouped", "M,N,K", "bf16_bf16"),
    "smoothquant_fwd": ("smoothquant_loop", "M,N", "bf16_i8"),
}
#: Matrices of each operand of ``deepgemm``.
GROUPS = 2


def tables(folder: Path, target: str, fp8: str, units: int) -> str:
    """A user's table of each operator with a row for each call."""
    for operator, (kernel, dims, types) in OURS.items():
        lines = [f"target,cus,{dims},kernel,variant,types"]
        lines += [
            ",".join(
                [
                    target,
                    str(units),
                    *map(str, (m, n, k)[: dims.count(",") + 1]),
                    kernel,
                    variant,
                    types.format(fp8=fp8),
                ]
            )
            for name, m, n, k, variant in CALLS[target]
            if name == operator
        ]
        if len(lines) > 1:
            (folder / f"{operator}.csv").write_text("\n".join(lines) + "\n")
    return str(folder)


def main(target: str, fp8: str, file: str, ours: bool) -> int:
    """Each call once: its result, and which kernel served it."""
    units = {"gfx942": 304, "gfx950": 256}[target]
    if ours:  # before the first call of the package, which reads them once
        folder = Path(file).parent / "tables"
        folder.mkdir()
        os.environ["AITER_PREBUILT_TUNED"] = tables(folder, target, fp8, units)
    import aiter_prebuilt
    from aiter_prebuilt.devices import device
    from aiter_prebuilt.devices.device_memory import DeviceMemory
    from aiter_prebuilt.execute.array import DeviceArray
    from aiter_prebuilt.execute.record import Recorder, instead
    from build_tools.cases import numbers

    facts, path = device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"]
    memory = DeviceMemory(facts, path)
    saved: dict[str, Any] = {}

    def made(kind: str, values: Any) -> Any:
        return DeviceArray(memory, kind, values.shape, numbers.encode(values, kind).tobytes())

    def read(array: Any) -> Any:
        kind = numbers.stored(array.dtype)
        return numbers.decode(np.frombuffer(array.read(), kind).reshape(array.shape), array.dtype)

    for number, (name, m, n, k, _) in enumerate(CALLS[target]):
        rng = np.random.default_rng(number)
        function: Any = getattr(aiter_prebuilt, name)
        recorder = Recorder(facts, 0, None)
        if name == "gemm_a16w16_fp32":
            x, w = (made("bf16", rng.normal(size=(rows, k))) for rows in (m, n))
            with instead(function, recorder):  # in both of AITER's forms
                held = made("f32", np.full((m, n), np.nan))
                asked = {"otype": "f32"} if number % 2 else {"dtype": "f32", "y": held}
                out = aiter_prebuilt.gemm_a16w16(x, w, **asked)
        elif name == "gemm_a8w8_bpreshuffle":
            x, w = (made(fp8, rng.normal(size=(rows, k))) for rows in (m, n))
            scales = [made("f32", rng.uniform(0.1, 1.1, rows)) for rows in (m, n)]
            with instead(function, recorder):
                out = function(x, w, *scales)
        elif name == "gemm_a8w8_blockscale_bpreshuffle":
            x, w = (made(fp8, rng.normal(size=(rows, k))) for rows in (m, n))
            scales = [made("f32", rng.uniform(0.1, 1.1, (rows, k // 128))) for rows in (m, -(-n // 128))]
            with instead(function, recorder):
                out = function(x, w, *scales)
        elif name == "smoothquant_fwd":
            x, by = made("bf16", rng.normal(size=(m, n))), made("f32", rng.uniform(0.5, 1.5, n))
            out, row_scales = made("i8", np.zeros((m, n))), made("f32", np.zeros((m, 1)))
            with instead(function, recorder):
                function(out, x, by, row_scales)
            saved[f"scales{number}"] = read(row_scales)
        elif name == "deepgemm":
            x, w = (made("bf16", rng.normal(size=(GROUPS, rows, k))) for rows in (m, n))
            held, valid = made("bf16", np.full((GROUPS, m, n), np.nan)), made("i32", np.full(GROUPS, m))
            with instead(function, recorder):
                out = function(x, w, held, valid)
        else:
            x, w = (made("u8", rng.integers(0, 256, (rows, k))) for rows in (m, n))
            high = [-(-rows // 32) * 32 for rows in (m, n)]
            scales = [made("u8", rng.integers(120, 131, (rows, k // 16))) for rows in high]
            more = [made("bf16", np.full((m, n), 7.0)), ""] if name == "gemm_a4w4_asm" else []
            with instead(function, recorder):
                out = function(x, w, *scales, *more)
        saved |= {f"out{number}": read(out), f"kernel{number}": np.array(recorder.chosen.kernel)}
    np.savez(file, **saved)
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], "ours" in sys.argv[4:]))
