"""``fused_moe`` of weights in MXFP4: laid out by the public shuffles, traced by torch.compile, with the references as kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import torch_kernels  # noqa: E402

import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import UnsupportedError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402
from aiter_prebuilt.ops import _fused_moe_f4  # noqa: E402
from aiter_prebuilt.ops._fused_moe import MoeCall  # noqa: E402

E, TOPK, H, EI = 3, 2, 256, 256
_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@pytest.fixture
def served(library: Any) -> Iterator[Any]:
    """``fused_moe`` of 16 rows, compiled; a graph break is an error."""
    torch._dynamo.reset()
    yield torch.compile(ap.fused_moe, fullgraph=True, backend="eager")
    torch._dynamo.reset()


class Drawn:
    """Rows, weights as pairs of codes and scales, and the numbers that these mean."""

    def __init__(self, tokens: int) -> None:
        draw = torch.Generator().manual_seed(tokens)
        self.x = torch.randn(tokens, H, generator=draw).to(torch.bfloat16)
        self.ids = torch.stack([torch.randperm(E, generator=draw)[:TOPK] for _ in range(tokens)]).int()
        self.shares = torch.rand(tokens, TOPK, generator=draw) + 0.1
        self.bias1, self.bias2 = torch.randn(E, 2 * EI, generator=draw), torch.randn(E, H, generator=draw)
        self.w1, self.scale1, self.first = self._weight(2 * EI, H, draw)
        self.w2, self.scale2, self.down = self._weight(H, EI, draw)

    @staticmethod
    def _weight(rows: int, columns: int, draw: Any) -> tuple[Any, Any, Any]:
        pairs = torch.randint(0, 256, (E, rows, columns // 2), generator=draw, dtype=torch.uint8)
        scales = torch.randint(119, 122, (E, rows, columns // 32), generator=draw, dtype=torch.uint8)
        codes = torch.stack([pairs & 15, pairs >> 4], -1).reshape(E, rows, columns).long()
        values = _FP4[codes & 7] * torch.where(codes & 8 > 0, -1.0, 1.0)
        return pairs, scales, values * torch.exp2(scales.float() - 127).repeat_interleave(32, -1)

    def arguments(self, gate_up: bool) -> tuple[Any, ...]:
        """As AITER's clients lay weights out."""
        package: Any = ap
        w1, w2 = self.w1.view(torch.float4_e2m1fn_x2), self.w2.view(torch.float4_e2m1fn_x2)
        scale1, scale2 = self.scale1.view(2 * E * EI, -1), self.scale2.view(E * H, -1)
        if gate_up:
            first = package.shuffle_weight_a16w4(w1, 16, True), package.shuffle_scale_a16w4(scale1, E, True)
            second = (
                package.shuffle_weight_a16w4(w2, 16, False),
                package.shuffle_scale_a16w4(scale2, E, False),
            )
        else:
            first = package.shuffle_weight(w1), package.e8m0_shuffle(scale1)
            second = package.shuffle_weight(w2), package.e8m0_shuffle(scale2)
        return first[0], second[0], first[1].view(torch.float8_e8m0fnu), second[1]

    def expected(self, rows: Any, between: Any, limit: float) -> Any:
        """gpt-oss's layer, of ``rows`` and with what ``between`` makes of what the activation gives."""
        result = torch.zeros(len(self.x), H)
        for token, choice in torch.cartesian_prod(torch.arange(len(self.x)), torch.arange(TOPK)).tolist():
            own = int(self.ids[token, choice])
            gate, up = (self.first[own] @ rows[token] + self.bias1[own]).split(EI)
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
            hidden = between((gate * torch.sigmoid(1.702 * gate) * (up + 1)).to(torch.bfloat16).float())
            result[token] += self.shares[token, choice] * (self.down[own] @ hidden + self.bias2[own])
        return result


def _coded(rows: Any, bits: int) -> Any:
    """Codes of groups of 32, by AITER's own rule, and back."""
    groups = rows.float().reshape(-1, 32)
    scale = torch.exp2(torch.ceil(torch.log2(groups.abs().amax(1, keepdim=True) / {8: 448.0, 4: 6.0}[bits])))
    parts = groups / scale
    if bits == 8:
        parts = parts.to(torch.float8_e4m3fn).float()
    else:
        even = _FP4[::2]  # of two that are as near the one with an even code
        apart = (parts.abs()[..., None] - _FP4).abs() - 1e-6 * torch.isin(_FP4, even)
        parts = _FP4[apart.argmin(-1)] * parts.sign()
    return (parts * scale).reshape(rows.shape)


@pytest.mark.parametrize(
    ("gate_mode", "bits"), [("interleave", 8), (ap.GateMode.SEPARATED, 4), ("interleave", 16)]
)
def test_gpt_oss_as_vllm_calls_it(
    served: Any, gate_mode: Any, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Drawn(9 if bits < 16 else 7)
    for module in (_fused_moe_f4, torch_kernels.as_traced(_fused_moe_f4)):
        monkeypatch.setattr(module, "_BOUNDS", {True: 8, False: 8})
    w1, w2, scale1, scale2 = drawn.arguments(gate_mode == "interleave")
    found = served(
        drawn.x, w1, w2, drawn.shares, drawn.ids, None, 2, 3, False, scale1, scale2, None, None, dtype=torch.bfloat16,
        bias1=drawn.bias1, bias2=drawn.bias2, swiglu_limit=2.0, gate_mode=gate_mode,
    )  # fmt: skip
    rows, between = drawn.x.float(), lambda hidden: hidden
    if bits < 16:
        rows, between = _coded(drawn.x, bits), lambda hidden: _coded(hidden, bits)
    wanted = drawn.expected(rows, between, 2.0)
    away = drawn.expected(_coded(drawn.x, 4 if bits == 8 else 8), between, 2.0)
    near, far = ((found.float() - each).norm() / wanted.norm() for each in (wanted, away))
    # A code that rounds the other way moves a result by a part of the weight that it meets.
    assert near < {16: 0.004, 8: 0.01, 4: 0.04}[bits] and far > 2 * near, (near, far)


@pytest.mark.parametrize(
    ("kind", "bits"), [(torch.bfloat16, 16), (torch.float8_e4m3fn, 8), (torch.float4_e2m1fn_x2, 4)]
)
@pytest.mark.parametrize("few", [True, False])
def test_the_type_of_rows_may_be_said(
    served: Any, kind: Any, bits: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Drawn(5)
    for module in (_fused_moe_f4, torch_kernels.as_traced(_fused_moe_f4)):
        monkeypatch.setattr(module, "_BOUNDS", dict.fromkeys((True, False), 9 if few else 1))
    w1, w2, scale1, scale2 = drawn.arguments(True)
    found = served(
        drawn.x, w1, w2, drawn.shares, drawn.ids, None, 2, 3, False, scale1, scale2, dtype=torch.bfloat16,
        bias1=drawn.bias1, bias2=drawn.bias2, swiglu_limit=2.0, gate_mode="interleave", quant_dtype_a=kind,
    )  # fmt: skip
    rows, between = drawn.x.float(), lambda hidden: hidden
    if bits < 16:
        rows, between = _coded(drawn.x, bits), lambda hidden: _coded(hidden, bits)
    wanted = drawn.expected(rows, between, 2.0)
    assert (found.float() - wanted).norm() < {16: 0.004, 8: 0.01, 4: 0.04}[bits] * wanted.norm()


@pytest.mark.parametrize("tokens", [7, 9])
def test_rows_of_choices_apart_have_the_type_of_those_together(
    served: Any, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is of tokens, of which there are fewer than rows."""
    drawn = Drawn(tokens)
    for module in (_fused_moe_f4, torch_kernels.as_traced(_fused_moe_f4)):
        monkeypatch.setattr(module, "_BOUNDS", {True: 8, False: 8})
    w1, w2, scale1, scale2 = drawn.arguments(True)
    together, apart = (
        served(
            drawn.x, w1, w2, drawn.shares, drawn.ids, None, 2, 3, False, scale1, scale2, dtype=torch.bfloat16,
            bias1=drawn.bias1, bias2=drawn.bias2, swiglu_limit=2.0, gate_mode="interleave", no_combine=each,
        )
        for each in (False, True)
    )  # fmt: skip
    assert apart.shape == (tokens, TOPK, H)
    assert (apart.float().sum(1) - together.float()).norm() < 0.004 * together.float().norm()


def _asked(**changes: Any) -> MoeCall:
    rows = changes.pop("rows", 4)
    plain: dict[str, Any] = dict.fromkeys(MoeCall._fields) | {
        "copies": 1,
        "hidden_states": torch.empty(rows, H), "gate_mode": "separated", "activation": 0, "hidden_pad": 0, "intermediate_pad": 0,
        "w1_scale": torch.empty(0), "w2_scale": torch.empty(0), "doweight_stage1": False,
    }  # fmt: skip
    return MoeCall(**(plain | changes))


@pytest.mark.parametrize(
    ("asked", "target", "bits"),
    [
        ({"activation": 0}, "gfx950", 4),
        ({"activation": 1}, "gfx942", 4),  # which no kernel of such a GPU takes, and says so
        ({"activation": 2}, "gfx950", 16),
        ({"activation": 2, "rows": 255}, "gfx950", 16),
        ({"activation": 2, "rows": 256}, "gfx950", 4),
        ({"activation": 2, "rows": 256}, "gfx942", 16),
        ({"activation": 2, "rows": 255, "gate_mode": "interleave"}, "gfx950", 16),
        ({"activation": 2, "rows": 256, "gate_mode": "interleave"}, "gfx950", 8),
        ({"activation": 0, "rows": 256, "gate_mode": "interleave"}, "gfx950", 8),
        ({"activation": 0, "rows": 256, "gate_mode": "interleave"}, "gfx942", 16),
    ],
)
def test_bits_of_rows_are_those_that_aiter_chooses(
    asked: dict[str, Any], target: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    monkeypatch.setattr(_fused_moe_f4, "target_of", lambda tensor: target)
    monkeypatch.setattr(_fused_moe_f4, "_run", lambda bits, *_: called.append(bits))
    _fused_moe_f4.mxfp4(_asked(**asked))
    assert called == [bits]


def test_pads_count_in_groups_and_either_mark_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[Any, ...]] = []
    monkeypatch.setattr(_fused_moe_f4, "_run", lambda *given: called.append(given))
    marked = torch.empty(0)
    marked.is_shuffled = True
    for weights in ({"w1": marked}, {"w2": marked}, {}):
        _fused_moe_f4.mxfp4(_asked(hidden_pad=70, intermediate_pad=31, **weights))
    assert [given[12:15] for given in called] == [
        (True, True, False),
        (True, True, False),
        (False, False, False),
    ]
    assert {given[18:] for given in called} == {(2, 0)}


@pytest.mark.parametrize("bits", [16, 8, 4])
def test_weights_and_scales_are_handed_over_as_they_are_and_seen_as_bytes(bits: int) -> None:
    """In the order of the public function, whose code torch.compile traces over the same views."""
    tensors = [torch.zeros(3, 64, dtype=torch.bfloat16), *(torch.zeros(2, size) for size in range(1, 9))]
    biases = torch.zeros(5), torch.zeros(6)
    seen: list[Any] = []
    with instead(_fused_moe_f4._run, lambda *given: seen.append(given)):
        run: Any = _fused_moe_f4._run
        made = run(bits, *tensors, 2, True, False, True, False, *biases, 7.5, 1, 3)
    ((operator, given, options),) = seen
    assert operator.name == ("fused_experts_a16w4" if bits == 16 else "fused_experts_mxfp4")
    assert {place: kind for _, place, kind in operator.views} == {
        1: "fp4x2",
        2: "fp4x2",
        5: "e8m0",
        6: "e8m0",
    }
    assert all(one is two for one, two in zip(given, (*tensors, *biases, made), strict=True))
    assert options == [2, *([] if bits == 16 else [bits]), True, False, True, False, 7.5, 1, 3]
    assert made.shape == tensors[0].shape


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gate_mode": "mixed"}, "gate_mode='mixed'"),
        ({"activation": 3}, "activation=3"),
        ({"dtype": torch.float16}, "dtype=torch.float16"),
        ({"a1_scale": torch.empty(0)}, "a1_scale="),
        ({"a2_scale": torch.empty(0)}, "a2_scale="),
        ({"w1_scale": None}, "w1_scale=None"),
        ({"w2_scale": None}, "w2_scale=None"),
    ],
)
def test_what_no_kernel_covers_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UnsupportedError) as found:
        _fused_moe_f4.mxfp4(_asked(**changes))
    assert said in str(found.value)
