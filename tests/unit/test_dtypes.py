"""Element types, as bundles, DLPack, torch and Triton know them."""

from __future__ import annotations

import pytest

from aiter_prebuilt.contract.dtype import BY_NAME, BY_NUMBER, DTYPES, TARGET_FP8, DType, resolve

#: Numbers of bundles and codes of DLPack's header (1.1), written down a second time: both are for ever.
TYPES = """
 0 bool      8  6 8 1  bool            i1
 1 u8        8  1 8 1  uint8           u8
 2 i8        8  0 8 1  int8            i8
 3 i16      16  0 16 1 int16           i16
 4 i32      32  0 32 1 int32           i32
 5 i64      64  0 64 1 int64           i64
 6 f16      16  2 16 1 float16         fp16
 7 bf16     16  4 16 1 bfloat16        bf16
 8 f32      32  2 32 1 float32         fp32
 9 f64      64  2 64 1 float64         fp64
10 e4m3fn    8 10 8 1  float8_e4m3fn   fp8e4nv
11 e4m3fnuz  8 11 8 1  float8_e4m3fnuz fp8e4b8
12 e5m2      8 12 8 1  float8_e5m2     fp8e5
13 e5m2fnuz  8 13 8 1  float8_e5m2fnuz fp8e5b16
14 e8m0      8 14 8 1  float8_e8m0fnu  u8
15 fp4x2     8 17 4 2  float4_e2m1fn_x2 u8
"""


def _rows() -> list[DType]:
    rows = [line.split() for line in TYPES.strip().splitlines()]
    return [
        DType(int(number), name, int(bits), (int(code), int(wide), int(lanes)), torch, triton)
        for number, name, bits, code, wide, lanes, torch, triton in rows
    ]


def test_every_type() -> None:
    assert list(DTYPES) == _rows()
    assert {name: kind.number for name, kind in BY_NAME.items()} == {
        kind.name: kind.number for kind in _rows()
    }
    assert dict(enumerate(_rows())) == BY_NUMBER


@pytest.mark.parametrize(("name", "size"), [("bool", 1), ("fp4x2", 1), ("i16", 2), ("f32", 4), ("f64", 8)])
def test_bytes_of_an_element(name: str, size: int) -> None:
    assert BY_NAME[name].itemsize == size


def test_fp8_is_that_of_the_target() -> None:
    assert TARGET_FP8 == "fp8"
    assert resolve("fp8", "e4m3fnuz") is BY_NAME["e4m3fnuz"] and resolve("fp8", "e4m3fn") is BY_NAME["e4m3fn"]
    assert resolve("bf16", "e4m3fnuz") is BY_NAME["bf16"]
