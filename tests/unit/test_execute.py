"""The reference cases that the runtime ships: right against other formulas, for every operator, and able to say WRONG."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import activation, attention, gemm, norm, quant, topk

from aiter_prebuilt.execute import formulas, numbers
from aiter_prebuilt.execute.cases import Case, cases, error

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
ROOT = Path(__file__).resolve().parents[2]
FP8 = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, **FP8}


@pytest.mark.parametrize("kind", sorted(TORCH))
def test_types_round_and_store_as_torch_does(kind: str) -> None:
    draw = random.Random(7)
    values = [draw.uniform(-1, 1) * 2.0 ** draw.randint(-12, 7) for _ in range(3000)]
    values += [0.0, 1.0, -1.0, 2.0**-6, 2.0**-9, 1.0625, 1.1875, 3e-3]
    rounded = [numbers.round_to(kind, value) for value in values]
    # By way of fp32, as torch has no rounding from float64 to fp8: these values are fp32 values first.
    values = [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]
    wanted = torch.tensor(values, dtype=torch.float32).to(TORCH[kind])
    again = [numbers.round_to(kind, value) for value in values]
    assert again == wanted.double().tolist()
    assert numbers.encode(kind, again).replace(b"\x80", b"\0") == wanted.view(
        torch.uint8
    ).numpy().tobytes().replace(b"\x80", b"\0")
    assert numbers.decode(kind, numbers.encode(kind, rounded)) == rounded


def test_fp8_saturates_and_whole_numbers_are_exact() -> None:
    assert numbers.round_to("e4m3fn", 1e9) == 448 and numbers.round_to("e4m3fnuz", -1e9) == -240
    assert [numbers.round_to("i8", value) for value in (0.5, 1.5, -2.5, 300, -300)] == [0, 2, -2, 127, -127]
    for kind in ("i8", "i32", "i64"):
        assert numbers.decode(kind, numbers.encode(kind, [-1, 0, 100])) == [-1, 0, 100]
    assert all(
        math.isnan(numbers.decode(kind, b"\x7f\x80")[place])
        for kind, place in (("e4m3fn", 0), ("e4m3fnuz", 1))
    )


def _rows(*shape: int, low: float = -2.0, high: float = 2.0) -> tuple[formulas.Rows, torch.Tensor]:
    values = torch.from_numpy(np.random.default_rng(5).uniform(low, high, shape)).float()
    return values.double().tolist(), values


def _close(found: object, wanted: torch.Tensor) -> None:
    made = torch.tensor(found, dtype=torch.float64).reshape(wanted.shape)
    assert torch.allclose(made, wanted.double(), rtol=2e-6, atol=2e-6)


def test_formulas_are_those_of_the_references() -> None:
    rows, x = _rows(3, 40, low=-9, high=9)
    weight, w = _rows(1, 40)
    _close(formulas.rms_norm(rows, weight[0], 1e-5), norm.rms_norm(x, w[0], 1e-5))
    for name in formulas.GATED:
        _close(formulas.gated(name, rows), getattr(activation, name)(x))
    _close(formulas.softmax(rows), torch.softmax(x.double(), -1))
    _close(formulas.product(rows, weight), gemm.gemm_a16w16(x, w))
    q, k, v = (
        torch.randn(1, length, 1, 64, generator=torch.Generator().manual_seed(3)) for length in (3, 5, 5)
    )
    heads = (tensor[0, :, 0].double().tolist() for tensor in (q, k, v))
    out, lse = formulas.attention(*heads, 0.125)
    right = attention.flash_attn_func(q, k, v, softmax_scale=0.125, causal=True)
    _close(out, right[0])
    _close(lse, right[1])
    codes, scales = quant.smoothquant_fwd(x, torch.ones(40), out_dtype=torch.int8)
    before, scale = formulas.quantised(rows, 127.0)
    assert [round(value) for value in formulas.flat(before)] == codes.flatten().tolist()
    _close(scale, scales)
    weights, experts = formulas.routed(rows, 4)
    wanted = topk.topk_softmax(x, 4, True)
    _close(weights, wanted[0])
    assert experts == wanted[1].tolist()


def test_the_shuffled_weight_is_that_of_shuffle_weight() -> None:
    from aiter_prebuilt.ops.shuffle import shuffle_weight

    plain = torch.arange(32 * 64, dtype=torch.int16).to(torch.uint8).reshape(32, 64).view(torch.int8)
    wanted = shuffle_weight(plain, layout=(16, 16)).flatten().tolist()
    assert formulas.shuffled(plain.tolist()) == wanted


def test_every_operator_of_the_manifests_has_one_case() -> None:
    names = sorted(
        operator["name"]
        for path in (ROOT / "manifests").glob("*.toml")
        for operator in tomllib.loads(path.read_text()).get("operators", ())
        if operator.get("arguments")
    )
    assert len(names) == 15
    for target in ("gfx942", "gfx950", "sm_90"):
        assert sorted(case.operator for case in cases(target)) == names


@pytest.mark.parametrize("case", cases("gfx950"), ids=lambda case: case.operator)
def test_a_case_says_wrong(case: Case) -> None:
    """Poison left in an output, an output of zeros, or one element off by two roundings is never right."""
    outputs = [place for place, tensor in enumerate(case.tensors) if tensor and tensor.values is None]
    inout = [2, 3] if case.operator == "reshape_and_cache" else []
    assert outputs or inout
    untouched: list[list[float] | None] = [tensor and list(tensor.values or ()) for tensor in case.tensors]
    for place in outputs:
        tensor = case.tensors[place]
        assert tensor is not None
        untouched[place] = [math.nan if tensor.kind[0] != "i" else 127.0] * math.prod(tensor.shape)
    assert not case.check(untouched) <= 1
    for place in outputs:
        zeros = list(untouched)
        zeros[place] = [0.0] * len(untouched[place] or ())
        assert not case.check(zeros) <= 1


def test_the_error_is_in_units_of_its_bound() -> None:
    assert error("bf16", [1.0, 2.0], [1.0, 2.0]) == 0
    assert 0.9 < error("bf16", [1.0, 2.0 * (1 + 2.0**-8)], [1.0, 2.0]) < 1.0
    assert error("bf16", [1.0, 2.0 * (1 + 2.0**-7)], [1.0, 2.0]) > 1.9
    assert (
        error("bf16", [math.nan], [1.0]) == error("bf16", None, [1.0]) == error("bf16", [], [1.0]) == math.inf
    )
    assert error("f32", [math.inf], [1.0]) == math.inf
