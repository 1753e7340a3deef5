"""What AITER's norms with codes take in later trees and no kernel here makes: scales of one byte, and fp4. Refused by name."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import pytest
from support.emulator import bundles

from aiter_prebuilt import errors

from .conftest import Stub, raw

_ROWS: Final = (5, 256)
#: Of each function: what its scale is called, whether it adds a residual.
_NORMS: Final[dict[str, tuple[str, bool]]] = {
    "rmsnorm_quant": ("scale", False),
    "add_rmsnorm_quant": ("scale", True),
    "rmsnorm2d_fwd_with_dynamicquant": ("yscale", False),
    "rmsnorm2d_fwd_with_add_dynamicquant": ("yscale", True),
}


def _tensors(codes: str, scales: str, adds: bool) -> list[Any]:
    columns = _ROWS[1] // 2 if codes == "fp4x2" else _ROWS[1]
    kinds: list[tuple[str, tuple[int, ...]]] = [
        (codes, (_ROWS[0], columns)),
        ("bf16", _ROWS),
        *[("bf16", _ROWS)] * (2 * adds),
    ]
    kinds += [(scales, (_ROWS[0], 8)), ("bf16", _ROWS[1:])]
    return [raw((1 + place) << 24, kind, shape) for place, (kind, shape) in enumerate(kinds)]


@pytest.mark.parametrize("name", sorted(_NORMS))
@pytest.mark.parametrize(("target", "fp8"), [("gfx942", "e4m3fnuz"), ("gfx950", "e4m3fn")])
def test_scales_of_a_byte_and_fp4_are_refused_by_name(
    native: ModuleType, stub: Stub, target: str, fp8: str, name: str
) -> None:
    stub.set_arch(target.encode())
    opened = tuple(native.Bundle(str(path)) for path in bundles(target, "ck-free"))
    made = native.Operator(name, lambda vendor, ordinal: (opened, 256))
    scale, adds = _NORMS[name]
    options = (1e-6, 32, False) + ((False,) if name.endswith("rmsnorm_quant") else ())
    before = stub.launches()
    for kind in ("e8m0", "u8"):
        with pytest.raises(errors.ArgumentDTypeError, match=f"{scale} must be .*, got {kind}"):
            made(*_tensors(fp8, kind, adds), *options)
        with pytest.raises(errors.ArgumentDTypeError, match=r"out must be .*, got fp4x2"):
            made(*_tensors("fp4x2", kind, adds), *options)
    assert stub.launches() == before
    made(*_tensors(fp8, "f32", adds), *options)
    assert stub.launches() == before + 1
