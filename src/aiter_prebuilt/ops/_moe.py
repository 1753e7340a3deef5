"""Prepare arguments of the first stage of a mixture of experts.

An eager call and a trace use the same functions.
"""

from __future__ import annotations

from typing import Any, Final

from aiter_prebuilt.ops._common import codes, number, refuse

#: AITER's ``QuantType.per_Token`` and ``per_1x128``.
_BY_ROW, _BY_BLOCK = 2, 4
_SERVED: Final = f"{_BY_ROW} (QuantType.per_Token) or {_BY_BLOCK} (per_1x128)"
_FP8: Final = ("e4m3fn", "e4m3fnuz")


def quantised(function: str, quant_type: Any) -> int:
    """Return the number of ``quant_type``.

    Raises:
        UnsupportedError: no kernel covers it.
    """
    kind = number(quant_type)
    if kind not in (_BY_ROW, _BY_BLOCK):
        raise refuse(function, "quant_type", quant_type, _SERVED)
    return int(kind)


def result(out: Any, input: Any) -> Any:
    """View a result of the input's own fp8 as bytes.

    The scales behind its codes are bytes, too; any other stays.
    """
    if getattr(out, "dtype", None) != getattr(input, "dtype", None):
        return out
    for kind in _FP8:
        out = codes(out, kind)
    return out
