"""A child of ``test_experts_f4.py``: layers in MXFP4 by AITER's assembly and by kernels of ours, into a file."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

#: Tokens, experts, choices, columns of a token and between the products; the activation's number.
CALLS = [(37, 3, 2, 512, 256, 0), (21, 2, 2, 1024, 512, 0), (70, 5, 1, 512, 256, 0)]
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def swizzled(scales: Any) -> Any:
    """Scales of whole 32 rows and 8 columns in the order of ``e8m0_shuffle``."""
    rows, columns = scales.shape
    parts = scales.reshape(rows // 32, 2, 16, columns // 8, 2, 4)
    return np.ascontiguousarray(parts.transpose(0, 3, 5, 2, 4, 1)).reshape(rows, columns)


def coded(rng: Any, rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Pairs of codes with a largest one in each group of 32, their scales, and what they mean."""
    codes = rng.integers(0, 16, (rows, columns))
    codes[:, ::32] = 7
    scales = rng.integers(124, 128, (rows, columns // 32))
    values = np.where(codes & 8, -1.0, 1.0) * _FP4[codes & 7] * np.repeat(np.exp2(scales - 127.0), 32, axis=1)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales, values


def main(file: str) -> int:
    """Each call by both."""
    import aiter_prebuilt
    from aiter_prebuilt.devices import device
    from aiter_prebuilt.devices.device_memory import DeviceMemory
    from aiter_prebuilt.execute.array import DeviceArray
    from build_tools.cases import experts, numbers

    package: Any = aiter_prebuilt
    memory = DeviceMemory(device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"])

    def made(kind: str, values: Any) -> Any:
        return DeviceArray(memory, kind, values.shape, numbers.encode(values, kind).tobytes())

    def read(array: Any) -> Any:
        kind = numbers.stored(array.dtype)
        return numbers.decode(np.frombuffer(array.read(), kind).reshape(array.shape), array.dtype)

    saved: dict[str, Any] = {}
    for number, (tokens, count, topk, wide, inner, activation) in enumerate(CALLS):
        rng = np.random.default_rng(number)
        sizes = {"T": tokens, "E": count, "topk": topk, "P": tokens * topk + 32 * count - topk}
        ids, weights, of_block = experts.in_blocks(sizes)
        x, x_scales, rows = coded(rng, tokens, wide)
        gate, gate_scales, _ = coded(rng, count * 2 * inner, wide)
        down, down_scales, _ = coded(rng, count * wide, inner)
        w1 = made("u8", experts.shuffled(gate.reshape(count, 2 * inner, wide // 2)))
        w2 = made("u8", experts.shuffled(down.reshape(count, wide, inner // 2)))
        s1, s2 = made("u8", swizzled(gate_scales - 6)), made("u8", swizzled(down_scales - 4))
        places = np.array(ids) & 0xFFFFFF
        sorted_scales = np.where((places < tokens)[:, None], x_scales[np.minimum(places, tokens - 1)], 127)
        theirs = made("bf16", np.full((tokens, wide), 7.0))
        package.fmoe_g1u1_mxfp4(
            theirs, made("u8", x), w1, w2, made("i32", np.array(ids)), made("f32", np.array(weights)),
            made("i32", np.array(of_block)), made("i32", np.array([len(ids), tokens])), topk, made("u8", swizzled(sorted_scales)),
            s1, s2, "", None, activation,
        )  # fmt: skip
        chosen, shares = np.full((tokens, topk), count), np.zeros((tokens, topk))
        for expert, row in enumerate(experts.routing(tokens, count, topk)):
            for token, choice, share in row:
                chosen[token, choice], shares[token, choice] = expert, share
        ours = package.fused_experts_mxfp4(
            made("bf16", rows), w1, w2, made("f32", shares), made("i32", chosen), s1, s2, activation=activation,
            activation_bits=4, w1_shuffled=True, w2_shuffled=True,
        )  # fmt: skip
        saved |= {f"theirs{number}": read(theirs), f"ours{number}": read(ours)}
    np.savez(file, **saved)
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
