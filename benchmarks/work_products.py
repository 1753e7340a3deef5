"""Products of matrices: AITER's objects beside our kernels for the same work."""

from __future__ import annotations

from typing import Any, Final

from work_tensors import Call, Tensors


def plain(tensors: Tensors, m: int, n: int, k: int, *, aiter: bool) -> None:
    """bf16; AITER's object gives fp32."""
    import aiter_prebuilt

    a, b = tensors.normal("bf16", m, k), tensors.normal("bf16", n, k)
    if aiter:
        aiter_prebuilt.gemm_a16w16_asm(a, b, tensors.normal("f32", m, n))
        return
    aiter_prebuilt.gemm_a16w16(a, b)
    tensors.bytes += m * n * 2


def _fp8(tensors: Tensors) -> str:
    return "e4m3fnuz" if tensors.target == "gfx942" else "e4m3fn"


def scaled(tensors: Tensors, m: int, n: int, k: int, *, who: str) -> None:
    """8-bit codes with a scale for each row: int8 by AITER's object and ours, fp8 by FlyDSL's kernel and ours."""
    import aiter_prebuilt

    kind = "i8" if who in ("aiter", "int8") else _fp8(tensors)
    x, w = tensors.codes(kind, m, k), tensors.codes(kind, n, k)
    scales = tensors.normal("f32", m, 1), tensors.normal("f32", n, 1)
    tensors.bytes += m * n * 2
    if who == "aiter":
        aiter_prebuilt.gemm_a8w8_ASM(x, w, *scales, tensors.normal("f32", n))
    elif who == "flydsl":
        aiter_prebuilt.gemm_a8w8_bpreshuffle(x, w, *scales)
    else:
        aiter_prebuilt.gemm_a8w8(x, w, *scales)


def blocks(tensors: Tensors, m: int, n: int, k: int, *, aiter: bool) -> None:
    """fp8 with a scale for each 128 columns, and each 128 rows of the weight."""
    import aiter_prebuilt

    kind = _fp8(tensors)
    x, w = tensors.codes(kind, m, k), tensors.codes(kind, n, k)
    tensors.bytes += m * n * 2
    if not aiter:
        scales = tensors.normal("f32", m, k // 128), tensors.normal("f32", n // 128, k // 128)
        aiter_prebuilt.gemm_a8w8_blockscale(x, w, *scales)
    elif kind == "e4m3fnuz":
        scales = tensors.normal("f32", k // 128, m), tensors.normal("f32", k // 128, n // 128)
        aiter_prebuilt.flatmm_a8w8_blockscale_ASM(x, w, *scales)
    else:
        tensors.bytes -= m * n * 2
        scales = tensors.normal("f32", k // 128, m), tensors.normal("f32", n // 128, k // 128)
        aiter_prebuilt.mi350_a8w8_blockscale_asm(x, w, *scales, tensors.normal("bf16", m, n))


def pairs(tensors: Tensors, m: int, n: int, k: int, *, who: str) -> None:
    """MXFP4, bf16 out: AITER's object, ours with its layouts (a bias, which AITER's does not add), ours with rows of scales."""
    import aiter_prebuilt

    x, w = (tensors.codes("u8", rows, k // 2) for rows in (m, n))
    scales = [tensors.codes("u8", rows, k // 32) for rows in (m, n)]
    tensors.bytes += m * n * 2
    if who == "rows":
        aiter_prebuilt.gemm_afp4wfp4(x, w, *scales)
        return
    options: dict[str, Any] = {"bias": tensors.normal("f32", n), "beta": 1.0} if who == "ours" else {}
    aiter_prebuilt.gemm_a4w4(x, w, *scales, **options)


def _pairs(*sizes: int) -> dict[str, Call]:
    return {
        "AITER's": lambda made: pairs(made, *sizes, who="aiter"),
        "ours": lambda made: pairs(made, *sizes, who="ours"),
        "ours, rows": lambda made: pairs(made, *sizes, who="rows"),
    }


def _both(function: Any, *sizes: int) -> dict[str, Call]:
    return {
        "AITER's": lambda made: function(made, *sizes, aiter=True),
        "ours": lambda made: function(made, *sizes, aiter=False),
    }


PRODUCTS: Final[dict[str, dict[str, Call]]] = {
    "product in bf16, 2048 x 4096 x 512": _both(plain, 2048, 4096, 512),
    "product in bf16, 16 x 1024 x 4096": _both(plain, 16, 1024, 4096),
    "product in fp8 by blocks, 2048 x 4096 x 512": _both(blocks, 2048, 4096, 512),
    "product in fp8 by rows, 2048 x 4096 x 512": {
        "FlyDSL's": lambda made: scaled(made, 2048, 4096, 512, who="flydsl"),
        "ours": lambda made: scaled(made, 2048, 4096, 512, who="ours"),
    },
}
PRODUCTS_GFX942: Final[dict[str, dict[str, Call]]] = {
    "product in int8 by rows, 2048 x 4096 x 512": {
        "AITER's": lambda made: scaled(made, 2048, 4096, 512, who="aiter"),
        "ours": lambda made: scaled(made, 2048, 4096, 512, who="int8"),
    },
}
PRODUCTS_GFX950: Final[dict[str, dict[str, Call]]] = {
    "product in MXFP4, 2048 x 4096 x 1024": _pairs(2048, 4096, 1024),
    "product in MXFP4, 32 x 2048 x 4096": _pairs(32, 2048, 4096),
}
