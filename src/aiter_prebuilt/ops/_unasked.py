"""Tensors that AITER's attention returns for results that the caller did not ask for."""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.ops._common import element_type


def placeholders(q: Any, lse: Any, drawn: Any = None, state: Any = None) -> tuple[Any, Any, Any]:
    """Return log-sum-exp, random bytes and state of dropout, a tensor each as AITER's C++ has them.

    Each None becomes a tensor that nothing is written to: fp32 [0], [0] of the type of ``q``, and int64 [2]. Callers unpack
    them, and an operator of torch whose schema says Tensor takes no None. Without a framework None stays.
    """
    if isinstance(q.dtype, str):
        return lse, drawn, state
    lse = q.new_empty(0, dtype=element_type(q, "f32")) if lse is None else lse
    drawn = q.new_empty(0) if drawn is None else drawn
    return lse, drawn, q.new_empty(2, dtype=element_type(q, "i64")) if state is None else state
