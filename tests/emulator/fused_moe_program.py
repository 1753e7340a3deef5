"""A child of ``test_fused_moe.py``: calls of ``fused_moe`` that AITER's assembly and the kernel of ours both take.

Arguments: the target, its own fp8, and the file that the results go to. Without a framework: of a tensor the function asks no
more than what ``Tensor`` has.
"""

from __future__ import annotations

import os
import sys
from math import prod
from typing import Any

import numpy as np

#: Target, type of the weights, by blocks, tokens, experts of all devices, topk, H, EI; experts here, tokens there (-1: all),
#: whether the weight stands in front. Tokens of the last of gfx942 are codes already.
CALLS = [
    ("gfx942", "fp8", True, 40, 4, 2, 512, 256, 4, -1, False), ("gfx942", "fp8", True, 35, 7, 3, 1024, 512, 3, -1, False),
    ("gfx942", "fp8", True, 45, 4, 2, 512, 256, 4, 37, False), ("gfx942", "fp8", False, 37, 4, 2, 512, 256, 4, -1, False),
    ("gfx942", "fp8", False, 19, 6, 2, 768, 192, 3, -1, False), ("gfx942", "fp8", False, 40, 4, 2, 512, 320, 4, 21, False),
    ("gfx942", "i8", False, 41, 4, 2, 512, 256, 4, -1, False), ("gfx942", "fp8", True, 45, 4, 2, 512, 256, 4, 33, False),
    ("gfx950", "fp8", False, 37, 4, 1, 512, 256, 4, -1, True), ("gfx950", "fp8", False, 20, 6, 2, 768, 384, 3, 17, True),
    ("gfx950", "fp8", False, 37, 4, 2, 512, 256, 4, -1, False), ("gfx950", "fp8", False, 40, 6, 2, 768, 320, 3, 21, False),
    ("gfx950", "fp8", True, 40, 4, 2, 512, 256, 4, -1, False), ("gfx950", "fp8", True, 45, 7, 3, 1024, 512, 3, 37, False),
]  # fmt: skip
#: The number of that one.
CODES = max(number for number, call in enumerate(CALLS) if call[0] == "gfx942")
_BLOCK = 128


def inputs(number: int) -> dict[str, Any]:
    """The arrays of a call: tokens, codes of both weights in their usual layout, scales, choices, the mask, how many tokens."""
    _, kind, blocks, tokens, everywhere, topk, width, columns, experts, there, _ = CALLS[number]
    rng = np.random.default_rng(number)
    size = 30.0 if kind == "fp8" else 40.0
    mask = np.zeros(everywhere, np.int64)
    mask[rng.permutation(everywhere)[:experts]] = 1
    first, second = (2 * columns, 1, width), (width, 1, columns)
    coded = number == CODES
    return {
        "x": np.rint(rng.normal(size=(tokens, width)) * 30) if coded else rng.normal(size=(tokens, width)),
        "x_scale": rng.uniform(0.5, 1.5, (tokens, width // _BLOCK)) * 0.03,
        "w1": np.clip(np.rint(rng.normal(size=(experts, 2 * columns, width)) * size), -127, 127),
        "w2": np.clip(np.rint(rng.normal(size=(experts, width, columns)) * size), -127, 127),
        "w1_scale": rng.uniform(0.5, 1.5, _scales(first, experts, blocks)) * 0.003,
        "w2_scale": rng.uniform(0.5, 1.5, _scales(second, experts, blocks)) * 0.003,
        "ids": np.argsort(rng.random((tokens, everywhere)), axis=1)[:, :topk],
        "weights": rng.uniform(0.2, 1.0, (tokens, topk)),
        "mask": mask,
        "there": np.array([tokens if there < 0 else there]),
    }


def _scales(shape: tuple[int, int, int], experts: int, blocks: bool) -> tuple[int, ...]:
    rows, _, columns = shape
    return (experts, rows // _BLOCK, columns // _BLOCK) if blocks else (experts, rows, 1)


def main(target: str, fp8: str, file: str) -> int:
    """Each call of the target twice, with both weights shuffled and neither."""
    import aiter_prebuilt
    from aiter_prebuilt.devices import device
    from aiter_prebuilt.devices.device_memory import DeviceMemory
    from aiter_prebuilt.execute.array import DeviceArray
    from aiter_prebuilt.ops import _fused_moe_8bit as module
    from build_tools.cases import numbers
    from build_tools.cases.experts import shuffled

    class Tensor(DeviceArray):
        """What ``fused_moe`` asks of a tensor."""

        is_shuffled = False

        def reshape(self, *shape: int) -> Any:
            shape = tuple(prod(self.shape) // shape[0] if size < 0 else size for size in shape)
            if shape == self.shape:
                return self
            strides = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
            return (self[0], self[1], shape, strides, self[4])

    memory = DeviceMemory(device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"])
    fused_moe: Any = aiter_prebuilt.fused_moe
    assembled: list[bool] = []
    before: Any = module._assembly

    def noted(*arguments: Any) -> bool:
        assembled.append(before(*arguments))
        return assembled[-1]

    vars(module)["_assembly"] = noted

    def made(kind: str, values: Any) -> Tensor:
        return Tensor(memory, kind, values.shape, numbers.encode(values, kind).tobytes())

    def weight(kind: str, values: Any, shuffle: bool) -> Tensor:
        tensor = made(kind, shuffled(values) if shuffle else values)
        tensor.is_shuffled = shuffle
        return tensor

    saved: dict[str, Any] = {}
    for number, (there, kind, blocks, tokens, everywhere, *_, experts, local, early) in enumerate(CALLS):
        if there != target:
            continue
        given = inputs(number)
        code, coded = fp8 if kind == "fp8" else kind, number == CODES
        for shuffle in (True, False):
            out = fused_moe(
                made(code if coded else "bf16", given["x"]),
                weight(code, given["w1"], shuffle),
                weight(code, given["w2"], shuffle),
                made("f32", given["weights"]),
                made("i32", given["ids"]),
                None if experts == everywhere else made("i32", given["mask"]),
                quant_type=5 if blocks else 2,
                doweight_stage1=early,
                a1_scale=made("f32", given["x_scale"]) if coded else None,
                dtype="bf16" if coded else None,
                w1_scale=made("f32", given["w1_scale"]),
                w2_scale=made("f32", given["w2_scale"]),
                num_local_tokens=None if local < 0 else made("i32", given["there"]),
            )
            assert assembled == [shuffle], (number, assembled)
            assembled.clear()
            bits = np.frombuffer(out.read(), numbers.stored("bf16")).reshape(tokens, -1)
            saved[f"{number}-{'assembly' if shuffle else 'ours'}"] = numbers.decode(bits, "bf16")
    np.savez(file, **saved)
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
