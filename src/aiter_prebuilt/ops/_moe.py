"""What the first stage of a mixture of experts makes of its arguments, in an eager call and in a trace."""

from __future__ import annotations

from typing import Any, Final

from aiter_prebuilt.ops._common import codes, number, refuse

#: AITER's ``QuantType.per_Token`` and ``per_1x128``.
_BY_ROW, _BY_BLOCK = 2, 4
_SERVED: Final = f"{_BY_ROW} (QuantType.per_Token) or {_BY_BLOCK} (per_1x128)"
_FP8: Final = ("e4m3fn", "e4m3fnuz")


def quantised(function: str, quant_type: Any) -> int:
    """The number of ``quant_type``.

    Raises:
        UnsupportedError: no kernel covers it.
    """
    kind = number(quant_type)
    if kind not in (_BY_ROW, _BY_BLOCK):
        raise refuse(function, "quant_type", quant_type, _SERVED)
    return int(kind)


def result(out: Any, input: Any) -> Any:
    """A result of the input's own fp8 as bytes, which the scales behind its codes are, too; any other as it is."""
    if getattr(out, "dtype", None) != getattr(input, "dtype", None):
        return out
    for kind in _FP8:
        out = codes(out, kind)
    return out
