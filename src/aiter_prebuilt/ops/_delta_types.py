"""Convert arguments of the gated delta rule to fp32.

Some kernels take no other type.
"""

from __future__ import annotations

from typing import Any

from aiter_prebuilt.errors import ArgumentDTypeError
from aiter_prebuilt.ops._common import as_type, element_type, is_type


def beta_of_vectors(gk: Any, gv: Any, beta: Any, initial_state: Any) -> Any:
    """Beta in fp32 where a kernel takes the call that has no other: with decays of rows or columns, or states in bf16."""
    plain = gk is None and gv is None and not is_type(getattr(initial_state, "dtype", None), "bf16")
    return beta if plain or isinstance(beta, tuple) else as_type(beta, "f32")


def l2norm_input(x: Any, output_dtype: Any) -> tuple[Any, Any]:
    """X, and None; or x in fp32, and the other type that its result becomes.

    Raises:
        ArgumentDTypeError: a type that no result has.
    """
    if output_dtype is None or output_dtype == getattr(x, "dtype", output_dtype):
        return x, None
    if output_dtype not in [element_type(x, name) for name in ("bf16", "f16", "f32")]:
        raise ArgumentDTypeError(
            f"l2norm_fwd(output_dtype={output_dtype!r})", "output_dtype must be bf16, fp16, fp32 or None", ""
        )
    return as_type(x, "f32"), output_dtype
