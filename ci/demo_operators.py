"""The last step of ``nox -s demo``: every operator of every installed AMD bundle, executed on the embedded device.

Random inputs with a printed seed, poisoned outputs, odd sizes; results are compared with float64 formulas in numpy. There is no
torch and no compiler in the process. Exit status: 0 all right, 1 something is wrong or an operator was not executed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from aiter_prebuilt import device, dispatch
from aiter_prebuilt_emulator import memory, native

sys.path.insert(0, str(Path(__file__).resolve().parent))
import demo_reference as reference

Array = Any
#: Largest relative rounding error of a type, and what fp32 accumulation may add, relative to the largest result.
HALF_ULP: Final = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-20}
Check = Callable[[], float]
Case = tuple[str, Sequence["Tensor | None"], Sequence[Any], Check]


class Tensor:
    """A device array and the exact values that were put into it (None: an output, filled with NaN)."""

    def __init__(self, kind: str, values: Array | None = None, shape: Sequence[int] = ()) -> None:
        self.kind = kind
        self.values = (
            None if values is None else reference.round_to(kind, values) if kind[0] in "bfe" else values
        )
        self.shape = tuple(shape) if values is None else values.shape
        data = None if self.values is None else reference.encode(kind, self.values)
        poison = 0x7F if kind.startswith(("e4m3", "i8")) else 0xFF
        self.array = memory.DeviceArray(kind, self.shape, data, ordinal=ORDINAL[0], poison=poison)

    def read(self) -> Array:
        """What is in the memory now, as exact values."""
        return reference.decode(self.kind, self.array.read()).reshape(self.shape)


#: The device that the cases of this moment allocate on.
ORDINAL: list[int] = [0]


def error(out: Tensor, wanted: Array, share: float = 1.0) -> float:
    """The largest error in units of its bound: a rounding of the type, and 2^-20 of the largest value. NaN counts as infinite."""
    bound = HALF_ULP[out.kind] * share * np.abs(wanted) * 1.02 + 2.0**-20 * np.abs(wanted).max()
    worst = float((np.abs(out.read() - wanted) / bound).max())
    return worst if worst == worst else float("inf")


def normal(*shape: int) -> Array:
    """Standard normal values."""
    return np.random.default_rng(random.getrandbits(64)).standard_normal(shape)


def norms_and_rows() -> Iterator[Case]:
    """Norms, softmax, gated activations: one row at a time."""
    for name in ("rms_norm", "rmsnorm2d_fwd"):
        x, w, out = (
            Tensor("bf16", normal(7, 2880)),
            Tensor("bf16", normal(2880)),
            Tensor("bf16", shape=(7, 2880)),
        )
        yield (
            name,
            [x, w, out],
            [1e-6],
            lambda x=x, w=w, out=out: error(out, reference.rms_norm(x.values, w.values, 1e-6)),
        )
    x, r, w = Tensor("f16", normal(5, 1003)), Tensor("f16", normal(5, 1003)), Tensor("f16", normal(1003))
    out, sums = Tensor("f16", shape=(5, 1003)), Tensor("f16", shape=(5, 1003))
    added = reference.round_to("f16", x.values + r.values)
    yield (
        "rmsnorm2d_fwd_with_add",
        [out, x, r, sums, w],
        [1e-5, False],
        lambda: max(
            error(out, reference.rms_norm(added, w.values, 1e-5)), float((sums.read() != added).any()) * 2
        ),
    )
    logits, share = Tensor("f32", normal(6, 1003)), Tensor("f32", shape=(6, 1003))
    yield "softmax", [logits, share], [], lambda: error(share, reference.softmax(logits.values), 16)
    for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "swiglu_and_mul"):
        pair, made = Tensor("bf16", 2 * normal(5, 2 * 520)), Tensor("bf16", shape=(5, 520))
        attributes = [0.0] if name == "silu_and_mul" else []
        yield (
            name,
            [made, pair],
            attributes,
            lambda name=name, pair=pair, made=made: error(made, reference.gated(name, pair.values), 2),
        )


def products(fp8: str) -> Iterator[Case]:
    """Matrix products and attention."""
    a, b, bias = Tensor("bf16", normal(33, 144)), Tensor("bf16", normal(80, 144)), Tensor("bf16", normal(80))
    out = Tensor("bf16", shape=(33, 80))
    yield "gemm_a16w16", [a, b, bias, out], [], lambda: error(out, a.values @ b.values.T + bias.values)
    x, plain = Tensor(fp8, normal(17, 256)), reference.round_to(fp8, normal(48, 256))
    w, xs, ws = (
        Tensor(fp8, reference.shuffled(plain)),
        Tensor("f32", abs(normal(17, 1)) + 0.1),
        Tensor("f32", abs(normal(48, 1)) + 0.1),
    )
    made = Tensor("bf16", shape=(17, 48))
    yield (
        "gemm_a8w8_bpreshuffle",
        [x, w, xs, ws, made],
        [],
        lambda: error(made, x.values @ plain.T * xs.values * ws.values.T),
    )
    q, k, v = (
        Tensor("bf16", normal(1, 33, 4, 64)),
        Tensor("bf16", normal(1, 70, 2, 64)),
        Tensor("bf16", normal(1, 70, 2, 64)),
    )
    mixed, lse = Tensor("bf16", shape=(1, 33, 4, 64)), Tensor("f32", shape=(1, 4, 33))

    def attention() -> float:
        wanted, logsum = reference.attention(q.values, k.values, v.values, 0.125)
        # Probabilities are rounded to bf16 before the second product: an error relative to max |v|, not to the result.
        rounding = float(np.abs(mixed.read() - wanted).max() / (2.0**-7 * np.abs(v.values).max()))
        return max(rounding if rounding == rounding else float("inf"), error(lse, logsum, 64))

    yield "flash_attn_func", [q, k, v, mixed, lse], [0.125, True], attention


def quantisers(fp8: str, largest: float) -> Iterator[Case]:
    """Quantisation, the paged cache, expert routing."""
    x, scale = Tensor("bf16", normal(5, 1000)), Tensor("f32", abs(normal(1000)) + 0.5)
    codes, scales = Tensor("i8", shape=(5, 1000)), Tensor("f32", shape=(5, 1))
    yield (
        "smoothquant_fwd",
        [codes, x, scale, scales],
        [],
        lambda: codes_error(codes, scales, x.values * scale.values, 127.0),
    )
    y, packed, per_row = (
        Tensor("f16", normal(5, 1000)),
        Tensor(fp8, shape=(5, 1000)),
        Tensor("f32", shape=(5, 1)),
    )
    yield (
        "dynamic_per_token_scaled_quant",
        [packed, y, per_row, None, None],
        [False, 1],
        lambda: codes_error(packed, per_row, y.values, largest),
    )
    key, value = Tensor("bf16", normal(5, 2, 64)), Tensor("bf16", normal(5, 2, 64))
    keys, values = Tensor("bf16", normal(3, 2, 8, 16, 8)), Tensor("bf16", normal(3, 2, 64, 16))
    slots = Tensor("i64", np.array([7, -1, 40, 16, 47]))

    def cache() -> float:
        k, v = keys.values.copy(), values.values.copy()
        for token, slot in enumerate(slots.values):
            if slot >= 0:
                k[slot // 16, :, :, slot % 16, :] = key.values[token].reshape(2, 8, 8)
                v[slot // 16, :, :, slot % 16] = value.values[token]
        return 2.0 * float((keys.read() != k).any() or (values.read() != v).any())

    yield "reshape_and_cache", [key, value, keys, values, slots, None, None], ["auto", False], cache
    gates = Tensor("f32", normal(7, 60))
    weights, chosen, pairs = (
        Tensor("f32", shape=(7, 6)),
        Tensor("i32", shape=(7, 6)),
        Tensor("i32", shape=(7, 6)),
    )

    def routing() -> float:
        order = np.argsort(-gates.values, axis=-1, kind="stable")[:, :6]
        share = np.take_along_axis(reference.softmax(gates.values), order, axis=-1)
        wrong = (chosen.read() != order).any() or (
            pairs.read() != np.arange(6) * 7 + np.arange(7)[:, None]
        ).any()
        return max(error(weights, share / share.sum(axis=-1, keepdims=True), 16), 2.0 * float(wrong))

    yield "topk_softmax", [weights, chosen, pairs, gates], [True], routing


def codes_error(codes: Tensor, scales: Tensor, values: Array, largest: float) -> float:
    """Scales to fp32 rounding; codes at most one step from the nearest, and all but 1 % of them the nearest."""
    before, scale = reference.quantised(values, largest)
    nearest = np.round(before) if codes.kind == "i8" else reference.round_to(codes.kind, before)
    found = codes.read()
    step = 1.0 if codes.kind == "i8" else np.maximum(np.abs(nearest) / 8, 2.0**-9) * 1.01
    share = float((found != nearest).mean())
    return max(error(scales, scale, 4), float((np.abs(found - nearest) / step).max()), share / 0.01)


def main() -> int:
    """Run and compare; see the module's docstring."""
    seed = random.randrange(2**32)
    random.seed(seed)
    ok = True
    for facts in device.probe("amd").devices:
        ORDINAL[0] = facts.ordinal
        native.reset_counters()
        fp8, largest = ("e4m3fnuz", 240.0) if facts.target == "gfx942" else ("e4m3fn", 448.0)
        missing = {name for bundle in dispatch.bundles_of(facts.target, str(facts)) for name in bundle.names}
        for name, tensors, attributes, check in (
            *norms_and_rows(),
            *products(fp8),
            *quantisers(fp8, largest),
        ):
            dispatch.operator(name)(
                *[tensor and tensor.array.raw for tensor in tensors], *attributes, stream=0
            )
            worst = check()
            missing.discard(name)
            ok &= worst <= 1
            verdict = "right" if worst <= 1 else "WRONG"
            print(f"{facts.target}  {name:32} {verdict}, {worst:.3f} of its error bound")
        kernels = native.counters()["kernels"]
        print(
            f"{facts}: {len(kernels)} kernels executed; not executed: {', '.join(sorted(missing)) or 'none'}; seed {seed}"
        )
        ok &= not missing and bool(kernels)
    print(f"compilers in this process: {sorted({'triton', 'torch', 'flydsl'} & set(sys.modules)) or 'none'}")
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
