"""The gated delta rule of a prompt: 64 tokens at once beside one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from work_tensors import Call, Tensors


def _prompt(name: str) -> Call:
    """1,024 tokens of a head of q and k and one of values, of 128 columns each, behind a state. Numbers do not matter."""

    def call(tensors: Tensors) -> None:
        import aiter_prebuilt as ap

        q, k, v = (tensors.normal("bf16", 1, 1024, 1, 128) for _ in range(3))
        gates = {"g": tensors.normal("f32", 1, 1024, 1), "beta": tensors.normal("f32", 1, 1024, 1)}
        state = tensors.normal("f32", 1, 1, 128, 128)
        rule: Callable[..., Any] = getattr(ap, name)
        rule(q, k, v, **gates, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)

    return call


DELTA: Final = {
    "gated delta rule, 1,024 tokens": {
        "one by one": _prompt("fused_recurrent_gated_delta_rule"),
        "64 at once": _prompt("chunk_gated_delta_rule"),
    },
}
