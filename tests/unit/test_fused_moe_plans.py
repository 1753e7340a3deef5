"""A plan of ``fused_moe`` launches what the function launches, for every kind of weights and option."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import UnsupportedError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402
from aiter_prebuilt.ops import _fused_moe_f4, _group_codes  # noqa: E402
from aiter_prebuilt.ops._fused_moe import MoeCall  # noqa: E402

MODULE: Any = sys.modules[ap.fused_moe.__module__]
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
#: Of kinds of weights: their type, and columns of one that are one in memory.
KINDS = {
    0: (BF16, 1),
    1: (torch.float8_e4m3fn, 1),
    2: (torch.float8_e4m3fn, 1),
    3: (torch.float4_e2m1fn_x2, 2),
    4: (torch.float8_e4m3fn, 1),
}


def asked(kind: int, tokens: int, marks: tuple[bool, bool], present: bool, **options: Any) -> list[Any]:
    """The arguments of ``_served``; ``present``: whatever may be left out is there."""
    weight, packed = KINDS[kind]
    w1, w2 = (
        torch.zeros(3, rows, columns // packed, dtype=torch.uint8 if weight != BF16 else BF16).view(weight)
        for rows, columns in ((512, 256), (256, 256))
    )
    for tensor, mark in zip((w1, w2), marks, strict=True):
        if mark:
            tensor.is_shuffled = True
    scales = [None, None] if kind == 0 else [torch.zeros(size) for size in (7, 9)]
    maybe = [torch.zeros(size) if present else None for size in (3, 1, 4, 5)]
    said = {
        "hidden_states": torch.zeros(tokens, 256, dtype=BF16), "w1": w1, "w2": w2, "topk_weight": torch.zeros(tokens, 2),
        "topk_ids": torch.zeros(tokens, 2, dtype=torch.int32), "expert_mask": maybe[0], "num_local_tokens": maybe[1],
        "activation": 0, "quant_type": kind, "doweight_stage1": False, "w1_scale": scales[0], "w2_scale": scales[1],
        "a1_scale": None, "a2_scale": None, "bias1": maybe[2], "bias2": maybe[3], "dtype": None, "hidden_pad": 0,
        "intermediate_pad": 0, "swiglu_limit": None, "beta": None, "linear_beta": None, "gate_mode": "separated",
        "quant_dtype_a": None,
    } | options  # fmt: skip
    assert tuple(said) == MoeCall._fields[:-1]
    return [*said.values(), *marks]


def told(given: list[Any]) -> list[Any]:
    """As the native side shows them to a plan."""
    kinds = MODULE._TOLD
    assert len(kinds) == len(given)
    return [
        True if kind == "p" and each is not None else each for kind, each in zip(kinds, given, strict=True)
    ]


def launched(given: list[Any]) -> tuple[Any, list[Any]]:
    """What the function returns, and the operators that it calls, each with what it is given."""
    seen: list[Any] = []
    keep = lambda operator, *more: seen.append((operator.name, operator.views, *more))  # noqa: E731
    functions = (
        ap.fused_experts, ap.fused_experts_a8w8, ap.fused_experts_a8w8_tensor, _fused_moe_f4._run,
        _group_codes.quantise_groups, ap.dynamic_per_tensor_quant,
    )  # fmt: skip
    groups = _group_codes._IN_GROUPS.copy()
    with ExitStack() as stack:
        for function in (*functions, ap.dynamic_per_token_scaled_quant):
            stack.enter_context(instead(function, keep))
        for size, operator in groups.items():
            _group_codes._IN_GROUPS[size] = Noted(operator, keep)  # type: ignore[assignment]
        try:
            return MODULE._served(*given), seen
        finally:
            _group_codes._IN_GROUPS.update(groups)


class Noted:
    """Stands for an operator."""

    def __init__(self, operator: Any, keep: Any) -> None:
        self._operator, self._keep = operator, keep

    def __call__(self, *given: Any) -> None:
        self._keep(self._operator, list(given[:5]), list(given[5:]))


def planned(plan: Any, given: list[Any]) -> tuple[Any, list[Any]]:
    """The same as a plan says it."""
    makings, launches, answer = plan
    made = [function(*arguments) for function, arguments, *_ in makings]
    for (_, _, *soon), slow in zip(makings, made, strict=True):
        assert not soon or same(soon[0](*soon[1]), slow)

    def item(said: Any) -> Any:
        return said if not isinstance(said, tuple) else given[said[0]] if said[0] >= 0 else made[-1 - said[0]]

    return item(answer), [(operator, [item(each) for each in items]) for operator, items in launches]


def same(one: Any, other: Any) -> bool:
    """The same object, or new memory of the same kind."""
    if isinstance(one, torch.Tensor):
        what = [(each.shape, each.dtype, each.stride()) for each in (one, other)]
        return one is other or what[0] == what[1]
    return type(one) is type(other) and one == other


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"activation": 1},
    {"activation": ap.ActivationType.Swiglu},
    {"activation": 2, "swiglu_limit": 5.5},
    {"doweight_stage1": True},
    {"gate_mode": ap.GateMode.INTERLEAVE},
    {"hidden_pad": 70, "intermediate_pad": 33},
    {"dtype": BF16},
)


@pytest.mark.parametrize(
    ("kind", "tokens"), [(0, 5), (0, 300), (1, 5), (2, 5), (3, 5), (3, 300), (4, 5), (4, 300)]
)
def test_a_plan_launches_what_the_function_does(
    kind: int, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks, optional tensors and options in turn: the same operators with the same arguments, new memory of the same kind."""
    monkeypatch.setattr(_fused_moe_f4, "target_of", lambda tensor: "gfx950")
    plans = 0
    for marks, present, options in product(product((False, True), repeat=2), (False, True), OPTIONS):
        given = asked(kind, tokens, marks, present, **options)
        plan = MODULE._plan(*told(given))
        assert plan is not None
        result, calls = launched(given)
        answer, launches = planned(plan, given)
        plans += 1
        assert same(result, answer) and len(calls) == len(launches)
        for (name, views, tensors, attributes), (operator, items) in zip(calls, launches, strict=True):
            assert (name, views) == (operator.name, operator.views)
            assert len(items) == len(tensors) + len(attributes)
            for own, other in zip([*tensors, *attributes], items, strict=True):
                assert same(own, other)
                if any(own is each for each in given if isinstance(each, torch.Tensor)):
                    assert own is other
    assert plans == 64


def test_what_a_plan_leaves_to_the_function() -> None:
    """Scales of tokens, codes, strided tokens of blocks, and AITER's assembly; of what is refused, the function says it."""
    strided = torch.zeros(5, 512, dtype=BF16)[:, :256]
    codes = torch.zeros(5, 256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    for kind, options in (
        (4, {"hidden_states": strided}),
        (4, {"a1_scale": torch.zeros(5, 2), "hidden_states": codes, "dtype": BF16}),
        (2, {"a1_scale": torch.zeros(1)}),
    ):
        assert MODULE._plan(*told(asked(kind, 5, (True, True), False, **options))) is None
    fnuz = {
        name: torch.zeros(shape, dtype=torch.uint8).view(torch.float8_e4m3fnuz)
        for name, shape in (("w1", (3, 512, 512)), ("w2", (3, 512, 256)))
    }
    for weight in fnuz.values():
        weight.is_shuffled = True
    wide = torch.zeros(33, 512, dtype=BF16)
    assert MODULE._plan(*told(asked(4, 33, (True, True), False, hidden_states=wide, **fnuz))) is None
    few = MODULE._plan(*told(asked(4, 32, (True, True), False, hidden_states=wide[:32], **fnuz)))
    assert few is not None


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (0, {"w1_scale": torch.zeros(3)}, "w1_scale=..."),
        (3, {"a1_scale": torch.zeros(3)}, "a1_scale=..."),
        (4, {"w2_scale": None}, "w2_scale=None"),
        (0, {"activation": 9}, "activation=9"),
        (9, {}, "quant_type=9"),
    ],
)
def test_refusals_are_those_of_the_function(kind: int, options: dict[str, Any], said: str) -> None:
    given = asked(kind if kind in KINDS else 0, 5, (False, False), False, **options, quant_type=kind)
    names = dict(zip(MoeCall._fields[:-1], given, strict=False))
    with pytest.raises(UnsupportedError) as found:
        ap.fused_moe(**names)
    assert said in str(found.value)
