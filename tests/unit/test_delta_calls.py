"""Causal convolutions and the gated delta rule: what their functions hand on, and a layer's prompt beside its single steps,
traced by torch.compile with the references as kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aiter_prebuilt._native", reason="the native extension is not built")


import aiter_prebuilt as ap  # noqa: E402
from aiter_prebuilt.errors import ArgumentDTypeError, ArgumentKindError, UnsupportedError  # noqa: E402
from aiter_prebuilt.execute.record import instead  # noqa: E402


def handed(function: Any, *args: Any, **words: Any) -> tuple[Any, list[Any], list[Any]]:
    """What a call returns, and the tensors and attributes that go to the native side."""
    seen: list[tuple[list[Any], list[Any]]] = []
    with instead(function, lambda operator, tensors, attributes: seen.append((tensors, attributes))):
        result = function(*args, **words)
    (only,) = seen
    return result, *only


@pytest.fixture
def compiled(library: Any) -> Iterator[Any]:
    """torch.compile with nothing left over from another test; a graph break is an error."""
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, fullgraph=True, backend="eager", dynamic=False)
    torch._dynamo.reset()


def prompts(turned: bool) -> Any:
    """x of nine tokens in two sequences, weight, bias, states, starts."""
    x = torch.zeros(9, 6).t() if turned else torch.zeros(6, 9)
    return x, torch.zeros(6, 4), None, torch.zeros(3, 6, 3), torch.tensor([0, 7, 9], dtype=torch.int32)


def step() -> Any:
    """x of four tokens of six channels, states, weight."""
    return torch.zeros(4, 6), torch.zeros(5, 6, 5), torch.zeros(6, 4)


def test_a_step_of_a_convolution_sees_rows_as_channels_of_tokens() -> None:
    x, *rest = step()
    result, (seen, *_), _ = handed(ap.causal_conv1d_update_in_place, x, *rest)
    assert result is x and seen.shape == (4, 6, 1) and seen.data_ptr() == x.data_ptr()
    starts = torch.tensor([0, 1, 4], dtype=torch.int32)
    _, (seen, *others), _ = handed(
        ap.causal_conv1d_update_in_place, x, *rest, query_start_loc=starts, max_query_len=3
    )
    assert seen.shape == (1, 6, 4) and seen.stride()[1:] == (1, 6) and others[-1] is starts
    _, (seen, *_), _ = handed(ap.causal_conv1d_update_in_place, x.view(2, 6, 2), *rest)
    assert seen.shape == (2, 6, 2)
    call: Any = ap.causal_conv1d_update_in_place
    with pytest.raises(UnsupportedError, match="cache_seqlens"):
        call(x, *rest, cache_seqlens=starts)


@pytest.mark.parametrize("turned", [False, True])
def test_a_convolution_lies_in_memory_as_its_input_does(turned: bool) -> None:
    out, tensors, attributes = handed(ap.causal_conv1d_fn, *prompts(turned), [7, 2])
    assert out.shape == (6, 9) and out.stride() == ((1, 6) if turned else (9, 1)) and tensors[-1] is out
    assert attributes == [7, True, -1]
    given = torch.empty(6, 9)
    out, tensors, _ = handed(ap.causal_conv1d_fn, *prompts(turned), [7, 2], out=given)
    assert out is given and tensors[-1] is given


@pytest.mark.parametrize(
    ("activation", "silu"), [("silu", True), ("swish", True), (True, True), (None, False), (False, False)]
)
def test_an_activation_of_a_convolution_is_a_name_or_a_bool(activation: Any, silu: bool) -> None:
    flags = torch.tensor([True, False])
    words = {"has_initial_state": flags, "activation": activation, "pad_slot_id": 5}
    _, tensors, attributes = handed(ap.causal_conv1d_fn, *prompts(False), (), **words)
    assert attributes == [0, silu, 5]
    _, _, (longest, *_) = handed(ap.causal_conv1d_fn, *prompts(False), metadata=object())
    assert longest == 9
    _, _, attributes = handed(ap.causal_conv1d_update_in_place, *step(), activation=activation)
    assert attributes == [silu, -1]
    assert tensors[6].dtype is torch.uint8 and tensors[6].data_ptr() == flags.data_ptr()


def test_what_a_convolution_does_not_serve_is_refused_by_name() -> None:
    x, *rest = prompts(False)
    call: Any = ap.causal_conv1d_fn
    with pytest.raises(UnsupportedError, match="activation='gelu'"):
        call(x, *rest, [7, 2], activation="gelu")
    with pytest.raises(UnsupportedError, match="seq_lens_cpu=3"):
        call(x, *rest, 3)
    with pytest.raises(ArgumentKindError, match="causal_conv1d_fn"):
        call(x[0], *rest, [7, 2])


RULES: list[Callable[..., Any]] = [ap.fused_recurrent_gated_delta_rule, ap.chunk_gated_delta_rule]


@pytest.mark.parametrize("rule", RULES)
def test_states_are_made_for_each_sequence_where_they_are_asked_for(rule: Any) -> None:
    q, v = torch.zeros(2, 5, 3, 64), torch.zeros(2, 5, 6, 40)
    gates = {"g": torch.zeros(2, 5, 6), "beta": torch.zeros(2, 5, 6)}
    (out, last), tensors, attributes = handed(rule, q, q, v, **gates)
    assert out.shape == v.shape and last is None and tensors[-2] is out and tensors[-1] is None
    assert attributes == [0.125, False]
    starts = torch.zeros(5, dtype=torch.int64)
    words: dict[str, Any] = {"scale": 0.5, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    (_, last), _, attributes = handed(rule, q, q, v, **gates, **words)
    assert (last.shape, last.dtype) == ((2, 6, 64, 40), torch.float32) and attributes == [0.5, True]
    (_, last), _, _ = handed(rule, q, q, v, **gates, **words, cu_seqlens=starts)
    assert last.shape == (4, 6, 64, 40)


def test_a_decode_step_takes_a_slot_or_a_row_of_slots_for_each_sequence() -> None:
    q, v, pool = torch.zeros(1, 5, 3, 64), torch.zeros(1, 5, 6, 40), torch.zeros(4, 6, 64, 40)
    words: dict[str, Any] = {
        "beta": torch.zeros(1, 5, 6),
        "initial_state": pool,
        "use_qk_l2norm_in_kernel": True,
    }
    call, g = ap.fused_recurrent_gated_delta_rule_update, torch.zeros(1, 5, 6)
    slots = torch.arange(5, dtype=torch.int32)
    (out, last), tensors, attributes = handed(call, q, q, v, g, **words, ssm_state_indices=slots)
    assert out.shape == v.shape and last is pool and tensors[-1] is out and tensors[7].shape == (5, 1)
    assert attributes == [0.125, True, "hkv"]
    rows = slots.view(1, 5)
    _, tensors, attributes = handed(
        call, q, q, v, g, **words, ssm_state_indices=rows, scale=0.5, state_layout="hvk"
    )
    assert tensors[7] is rows and attributes == [0.5, True, "hvk"]
    for option, wrong in {"inplace_final_state": False, "state_layout": "vk", "initial_state": None}.items():
        with pytest.raises(UnsupportedError, match=option):
            call(q, q, v, g, **(words | {"ssm_state_indices": slots, option: wrong}))


def test_a_decode_step_with_gates_hands_on_what_makes_them() -> None:
    q, v, pool = torch.zeros(5, 1, 3, 64), torch.zeros(5, 1, 6, 40), torch.zeros(4, 6, 64, 40)
    a, b, of_head, slots = (
        torch.zeros(5, 6),
        torch.ones(5, 6),
        torch.zeros(6),
        torch.arange(5, dtype=torch.int32),
    )
    call = ap.fused_sigmoid_gating_delta_rule_update
    out, tensors, attributes = handed(call, of_head, a, of_head, 1.0, 20.0, q, q, v, b, pool, slots)
    assert (
        out.shape == v.shape
        and tensors[1] is a
        and tensors[6] is b
        and tensors[7] is pool
        and tensors[-1] is out
    )
    assert attributes == [1.0, 20.0, 0.125, False, "hkv"]
    with pytest.raises(UnsupportedError, match="state_layout"):
        call(of_head, a, of_head, 1.0, 20.0, q, q, v, b, pool, slots, state_layout="kv")


@pytest.mark.parametrize(
    "words",
    [
        {"gk": torch.zeros(1, 2, 1, 8)}, {"gv": torch.zeros(1, 2, 1, 8)},
        {"initial_state": torch.zeros(1, 1, 8, 8, dtype=torch.bfloat16)}, {"initial_state": torch.zeros(1, 1, 8, 8)}, {},
    ],
)  # fmt: skip
def test_decays_of_rows_and_columns_have_beta_in_fp32(words: dict[str, Any]) -> None:
    q, beta = torch.zeros(1, 2, 1, 8, dtype=torch.bfloat16), torch.rand(1, 2, 1).bfloat16()
    names = {"gk": 4, "gv": 5, "initial_state": 7}
    _, tensors, _ = handed(ap.fused_recurrent_gated_delta_rule, q, q, q, beta=beta, **words)
    wide = not words or words.get("initial_state", q).dtype == torch.float32
    assert tensors[6] is beta if wide else torch.equal(tensors[6], beta.float())
    assert all(tensors[place] is words.get(name) for name, place in names.items())
    _, tensors, _ = handed(ap.fused_recurrent_gated_delta_rule, q, q, q, **words)
    assert tensors[6] is None


def test_norms_of_rows_have_the_type_that_is_asked_for() -> None:
    x = torch.ones(2, 3, 8, dtype=torch.bfloat16)
    (y, factors), tensors, attributes = handed(ap.l2norm_fwd, x)
    assert tensors[0] is x and tensors[1] is y and tensors[2] is factors is None and attributes == [1e-6]
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    (y, factors), tensors, attributes = handed(ap.l2norm_fwd, x, 0.5, torch.float16, need_rstd=True)
    assert tensors[0].dtype == tensors[1].dtype == torch.float32 and torch.equal(tensors[0], x.float())
    assert y.dtype == torch.float16 and tensors[2] is factors and attributes == [0.5]
    assert (factors.shape, factors.dtype) == ((2, 3), torch.float32)
    with pytest.raises(ArgumentDTypeError, match="output_dtype"):
        ap.l2norm_fwd(x, output_dtype=torch.int8)
    with pytest.raises(ArgumentKindError, match="l2norm_fwd"):
        handed(ap.l2norm_fwd, None)


class Layer:
    """The convolution and the rule of a layer of Qwen3-Next: one head of q and k, two of v, sixteen columns each."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.mixed, self.a, self.b = (torch.randn(6, n, generator=draw) for n in (64, 2, 2))
        self.mixed = self.mixed.to(torch.bfloat16)
        self.weight = torch.randn(64, 4, generator=draw).to(torch.bfloat16)
        self.a_log, self.bias = torch.rand(2, generator=draw), torch.rand(2, generator=draw)

    def rule(self, rule: Any, conv: Any, tokens: slice, state: Any) -> Any:
        """(out, last states) of the convolution's rows [tokens, channels]."""
        g, beta = ap.fused_gdn_gating_and_sigmoid(self.a_log, self.a[tokens], self.b[tokens], self.bias)
        q, k = (part.contiguous().view(1, -1, 1, 16) for part in (conv[:, :16], conv[:, 16:32]))
        v = conv[:, 32:].contiguous().view(1, -1, 2, 16)
        words = {"initial_state": state, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
        return rule(q, k, v, g=g[None], beta=beta[None], **words)

    def prompt(self, held: Any) -> Any:
        """All tokens at once."""
        starts = torch.tensor([0, 6], dtype=torch.int32)
        conv = ap.causal_conv1d_fn(self.mixed.t(), self.weight, None, held, starts, [6])
        return self.rule(ap.chunk_gated_delta_rule, conv.t(), slice(0, 6), None)

    def step(self, token: int, held: Any, state: Any) -> Any:
        """One token, behind what is held of those before."""
        x = self.mixed[token].view(1, 64, 1)
        out, none = torch.empty_like(x), torch.empty(0, dtype=torch.int32)
        bias = torch.empty(0, dtype=torch.bfloat16)
        ap.causal_conv1d_update(x, held, self.weight, bias, out, True, none, none, -1)
        rule = ap.fused_recurrent_gated_delta_rule
        return self.rule(rule, out.view(1, 64), slice(token, token + 1), state)

    def update(self, token: int, held: Any, pool: Any) -> Any:
        """As :meth:`step`, in the form of a server's decode step: states are in pools, the last slot is this sequence's."""
        slot = torch.tensor([2], dtype=torch.int32)
        conv = self.mixed[token].view(1, 64).clone()
        conv = ap.causal_conv1d_update_in_place(
            conv, held, self.weight, None, "silu", conv_state_indices=slot
        )
        q, k = (part.contiguous().view(1, 1, 1, 16) for part in (conv[:, :16], conv[:, 16:32]))
        v, gates = (
            conv[:, 32:].contiguous().view(1, 1, 2, 16),
            (self.a[token, None].bfloat16(), self.b[token, None].bfloat16()),
        )
        return ap.fused_sigmoid_gating_delta_rule_update(
            self.a_log,
            gates[0],
            self.bias,
            1.0,
            20.0,
            q,
            k,
            v,
            gates[1],
            pool,
            slot,
            use_qk_l2norm_in_kernel=True,
        )


def test_steps_behind_pools_are_what_steps_with_states_are(compiled: Any) -> None:
    layer, held, pool = Layer(), torch.zeros(3, 64, 3).bfloat16(), torch.zeros(3, 2, 16, 16)
    layer.a, layer.b = layer.a.bfloat16().float(), layer.b.bfloat16().float()
    stepped, state = torch.zeros(1, 64, 3).bfloat16(), torch.zeros(1, 2, 16, 16)
    step, update = compiled(layer.step), compiled(layer.update)
    for token in range(4):
        one, state = step(token, stepped, state)
        torch.testing.assert_close(update(token, held, pool), one, rtol=2**-7, atol=2**-12)
    assert torch.equal(held[2:], stepped) and not held[:2].any() and not pool[:2].any()
    torch.testing.assert_close(pool[2:], state, rtol=1e-5, atol=1e-6)


def test_a_prompt_is_what_its_tokens_are_one_by_one(compiled: Any) -> None:
    layer, held, stepped = Layer(), torch.zeros(1, 64, 3).bfloat16(), torch.zeros(1, 64, 3).bfloat16()
    out, last = compiled(layer.prompt)(held)
    state, step = torch.zeros(1, 2, 16, 16), compiled(layer.step)
    for token in range(6):
        one, state = step(token, stepped, state)
        torch.testing.assert_close(one[0, 0], out[0, token], rtol=2**-7, atol=2**-12)
    assert torch.equal(held, stepped) and held.any()
    torch.testing.assert_close(state, last, rtol=1e-5, atol=1e-6)
