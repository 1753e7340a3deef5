"""Element types: manifest name, size, and what DLPack, torch and Triton call them.

The number of a type is part of the bundle format: append, never reorder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    ``dlpack`` is (type code, bits, lanes) as in ``DLDataType``; e4m3fn and e4m3fnuz have codes of
    their own there, which is how a gfx942 and a gfx950 fp8 tensor are told apart before a launch.
    """

    number: int
    name: str
    bits: int
    dlpack: tuple[int, int, int]
    torch: str
    triton: str

    @property
    def itemsize(self) -> int:
        """Bytes of one stored element (fp4 pairs are stored, and counted, as one byte)."""
        return self.bits // 8


DTYPES: Final[tuple[DType, ...]] = (
    DType(0, "bool", 8, (6, 8, 1), "bool", "i1"),
    DType(1, "u8", 8, (1, 8, 1), "uint8", "u8"),
    DType(2, "i8", 8, (0, 8, 1), "int8", "i8"),
    DType(3, "i16", 16, (0, 16, 1), "int16", "i16"),
    DType(4, "i32", 32, (0, 32, 1), "int32", "i32"),
    DType(5, "i64", 64, (0, 64, 1), "int64", "i64"),
    DType(6, "f16", 16, (2, 16, 1), "float16", "fp16"),
    DType(7, "bf16", 16, (4, 16, 1), "bfloat16", "bf16"),
    DType(8, "f32", 32, (2, 32, 1), "float32", "fp32"),
    DType(9, "f64", 64, (2, 64, 1), "float64", "fp64"),
    DType(10, "e4m3fn", 8, (10, 8, 1), "float8_e4m3fn", "fp8e4nv"),
    DType(11, "e4m3fnuz", 8, (11, 8, 1), "float8_e4m3fnuz", "fp8e4b8"),
    DType(12, "e5m2", 8, (12, 8, 1), "float8_e5m2", "fp8e5"),
    DType(13, "e5m2fnuz", 8, (13, 8, 1), "float8_e5m2fnuz", "fp8e5b16"),
    DType(14, "e8m0", 8, (14, 8, 1), "float8_e8m0fnu", "u8"),
    DType(15, "fp4x2", 8, (17, 4, 2), "float4_e2m1fn_x2", "u8"),
)

BY_NAME: Final[dict[str, DType]] = {dtype.name: dtype for dtype in DTYPES}
BY_NUMBER: Final[dict[int, DType]] = {dtype.number: dtype for dtype in DTYPES}

#: A manifest may say ``fp8``: the target's own e4m3, named by the target table.
TARGET_FP8: Final = "fp8"


def resolve(name: str, fp8: str) -> DType:
    """Find the type called ``name``.

    ``fp8`` is the target's own fp8 ("e4m3fn" or "e4m3fnuz").
    """
    return BY_NAME[fp8 if name == TARGET_FP8 else name]
