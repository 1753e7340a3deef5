"""Attention with gradients: compiled beside float64, and what stands on the way of a call without them."""

from __future__ import annotations

import dis
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support import torch_kernels  # noqa: E402

import aiter_prebuilt  # noqa: E402
from aiter_prebuilt import errors  # noqa: E402
from aiter_prebuilt.contract.gradients import DIFFERENTIABLE  # noqa: E402
from aiter_prebuilt.ops._named_errors import guarded  # noqa: E402
from aiter_prebuilt.tracing import attention_autograd  # noqa: E402

#: Dynamo makes an instance of each autograd function that it traces.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")

STARTS = torch.tensor([0, 4, 9], dtype=torch.int32)
KEYS = torch.tensor([0, 7, 13], dtype=torch.int32)


@pytest.fixture(scope="module")
def _library() -> Iterator[Any]:
    """The registrations, with the references as kernels for CPU tensors."""
    yield from torch_kernels.registered()


@pytest.fixture
def compiled(_library: Any) -> Iterator[Any]:
    """torch.compile with nothing left over from another test."""
    torch._dynamo.reset()
    yield torch.compile
    torch._dynamo.reset()


def _inputs() -> list[Any]:
    shapes = ((9, 4, 16), (13, 2, 16), (13, 2, 16), (4,))
    return [torch.randn(*shape).to(torch.float16).requires_grad_() for shape in shapes]


def _exact(q: Any, k: Any, v: Any, sink: Any) -> Any:
    """Causal, in float64, with twice the queries."""
    parts = []
    for (a, b), (c, d) in zip(pairwise(STARTS.tolist()), pairwise(KEYS.tolist()), strict=True):
        keys, values = (each[c:d].repeat_interleave(2, 1) for each in (k, v))
        scores = torch.einsum("ihd,jhd->hij", 2 * q[a:b], keys) / 4
        hidden = torch.arange(d - c)[None] > torch.arange(b - a)[:, None] + (d - c) - (b - a)
        scores = scores.masked_fill(hidden, float("-inf"))
        weights = torch.cat([scores, sink[:, None, None].expand(-1, b - a, 1)], 2).softmax(-1)
        parts.append(torch.einsum("hij,jhd->ihd", weights[:, :, :-1], values))
    return torch.cat(parts)


def _ragged(q: Any, k: Any, v: Any, sink: Any) -> Any:
    out, lse = aiter_prebuilt.flash_attn_varlen_func(
        2 * q, k, v, STARTS, KEYS, 5, 7, causal=True, return_lse=True, sink_ptr=sink
    )
    return out, lse


def _padded(q: Any, k: Any, v: Any, sink: Any) -> Any:
    """The same, said with a list of rows that is no other tensor than that of the sequences."""
    out, lse = aiter_prebuilt.flash_attn_varlen_func(
        2 * q,
        k,
        v,
        STARTS,
        KEYS,
        5,
        7,
        causal=True,
        return_lse=True,
        sink_ptr=sink,
        cu_seqlens_q_padded=STARTS,
    )
    return out, lse


def _dense(q: Any, k: Any, v: Any, sink: Any) -> Any:
    """The same, a sequence after the other."""
    made = [
        aiter_prebuilt.flash_attn_func(
            2 * q[None, a:b], k[None, c:d], v[None, c:d], causal=True, return_lse=True, sink_ptr=sink
        )
        for (a, b), (c, d) in zip(pairwise((0, 4, 9)), pairwise((0, 7, 13)), strict=True)
    ]
    return torch.cat([each[0][0] for each in made]), torch.cat([each[1][0] for each in made], 1)


@pytest.mark.parametrize("call", [_ragged, _padded, _dense])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_gradients_are_those_of_float64(
    compiled: Any, call: Callable[..., Any], backend: str, dynamic: bool
) -> None:
    inputs = _inputs()
    out, lse = compiled(call, fullgraph=True, backend=backend, dynamic=dynamic)(*inputs)
    assert out.requires_grad and not lse.requires_grad
    dout = torch.randn(out.shape).to(torch.float16)
    found = torch.autograd.grad(out, inputs, dout)
    leaves = [each.detach().double().requires_grad_() for each in inputs]
    for one, other in zip(found, torch.autograd.grad(_exact(*leaves), leaves, dout.double()), strict=True):
        assert one.dtype == torch.float16 and (one.double() - other).abs().max() < 0.01 * other.abs().max()


def _dropped(q: Any, k: Any, v: Any) -> Any:
    """Causal, with a third dropped, a sequence after the other; its random bytes."""
    return aiter_prebuilt.flash_attn_varlen_func(
        q, k, v, STARTS, KEYS, 5, 7, dropout_p=1 / 3, causal=True, return_attn_probs=True
    )


def _dropped_dense(q: Any, k: Any, v: Any) -> Any:
    """The first sequence alone."""
    out, drawn = aiter_prebuilt.flash_attn_func(
        q[None, :4], k[None, :7], v[None, :7], 1 / 3, causal=True, return_attn_probs=True
    )
    return out[0], drawn[0]


def _exact_dropped(q: Any, k: Any, v: Any, drawn: Any, sequences: int) -> Any:
    """In float64, with the mask that AITER's tests recover of the bytes."""
    kept = math.floor(255.0 * (1 - 1 / 3)) - drawn.float() >= 0
    parts = []
    for (a, b), (c, d) in list(zip(pairwise(STARTS.tolist()), pairwise(KEYS.tolist()), strict=True))[
        :sequences
    ]:
        keys, values = (each[c:d].repeat_interleave(2, 1) for each in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q[a:b], keys) / 4
        hidden = torch.arange(d - c)[None] > torch.arange(b - a)[:, None] + (d - c) - (b - a)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        parts.append(torch.einsum("hij,jhd->ihd", weights * kept[:, a:b, : d - c] * 1.5, values))
    return torch.cat(parts)


@pytest.mark.parametrize(("call", "sequences"), [(_dropped, 2), (_dropped_dense, 1)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_gradients_with_dropout_are_those_of_its_mask(
    compiled: Any, call: Callable[..., Any], sequences: int, backend: str
) -> None:
    inputs = _inputs()[:3]
    graph = compiled(call, fullgraph=True, backend=backend)
    out, drawn = graph(*inputs)
    assert drawn.dtype == torch.uint8 and not drawn.requires_grad
    assert not torch.equal(drawn, graph(*inputs)[1]), "a graph has one mask for ever"
    dout = torch.randn(out.shape).to(torch.float16)
    found = torch.autograd.grad(out, inputs, dout)
    leaves = [each.detach().double().requires_grad_() for each in inputs]
    exact = _exact_dropped(leaves[0], leaves[1], leaves[2], drawn, sequences)
    assert (out.double() - exact).abs().max() < 0.01 * exact.abs().max()
    for one, other in zip(found, torch.autograd.grad(exact, leaves, dout.double()), strict=True):
        assert (one.double() - other).abs().max() < 0.01 * other.abs().max()


@pytest.mark.usefixtures("_library")
def test_a_compiled_option_without_a_backward_is_refused_by_name(compiled: Any) -> None:
    def capped(q: Any, k: Any, v: Any) -> Any:
        return aiter_prebuilt.flash_attn_varlen_func(q, k, v, STARTS, KEYS, 5, 7, logits_soft_cap=3.0)

    inputs = _inputs()[:3]
    with pytest.raises((errors.UnsupportedError, torch._dynamo.exc.Unsupported), match="logits_soft_cap"):
        compiled(capped, fullgraph=True, backend="eager")(*inputs)
    with torch.no_grad():
        compiled(capped, fullgraph=True, backend="eager")(*inputs)


def _eager(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any]]:
    """The result of a differentiable call on the references, and what it was made of."""
    from aiter_prebuilt.tracing.functions import TRACED

    monkeypatch.setattr(attention_autograd, "_CALLED", SimpleNamespace(**TRACED))
    inputs = [each.detach().requires_grad_() for each in _inputs()]
    q, k, v, sink = inputs
    rows = {"q": q, "k": k, "v": v}
    lists = {
        "cu_seqlens_q": STARTS,
        "cu_seqlens_k": KEYS,
        "cu_seqlens_q_padded": None,
        "cu_seqlens_k_padded": None,
    }
    most = {
        "max_seqlen_q": 5,
        "max_seqlen_k": 7,
        "min_seqlen_q": 0,
        "logits_soft_cap": 0.0,
        "block_table": None,
        "out": None,
    }
    given = (
        {name: each[None] for name, each in rows.items()}
        if name == "flash_attn_func"
        else {**rows, **lists, **most}
    )
    usual = {
        "softmax_scale": None,
        "causal": True,
        "window_size": (-1, -1),
        "return_lse": False,
        "return_attn_probs": False,
    }
    call = getattr(attention_autograd, name)
    return call(**given, **usual, how_v3_bf16_cvt=1, sink_ptr=sink, deterministic=True), inputs


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("name", list(DIFFERENTIABLE))
def test_a_backward_of_the_backward_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, inputs = _eager(name, monkeypatch)
    once = torch.autograd.grad(out.sum(), inputs, retain_graph=True)
    again = torch.autograd.grad(out.sum(), inputs, create_graph=True)
    for one, other in zip(once, again, strict=True):
        assert torch.equal(one, other) and other.requires_grad and not one.requires_grad
    with pytest.raises(
        errors.UnsupportedError, match="no prebuilt kernel has a backward of the backward"
    ) as raised:
        torch.autograd.grad(again[0].square().sum(), inputs[0])
    assert raised.value.asked == f"{name}(create_graph=True)"


@pytest.mark.parametrize("name", list(DIFFERENTIABLE))
def test_a_call_without_gradients_has_nothing_more_to_do(name: str) -> None:
    """The public function is the kernels' call in a ``try``, instruction by instruction that of a function without a backward."""

    def instructions(function: Any) -> list[str]:
        found = [each.opname for each in dis.get_instructions(function.__code__)]
        return [each for each in found[: found.index("RETURN_VALUE")] if not each.startswith("LOAD_FAST")]

    public = getattr(aiter_prebuilt, name)
    inner = public.__wrapped__
    plain = FunctionType(
        inner.__code__, inner.__globals__, "without_a_backward", inner.__defaults__, inner.__closure__
    )
    plain.__kwdefaults__, plain.__annotations__ = inner.__kwdefaults__, inner.__annotations__
    assert instructions(public) == instructions(guarded(plain))


@pytest.mark.parametrize("name", list(DIFFERENTIABLE))
def test_the_differentiable_call_takes_every_argument_of_the_public_one(name: str) -> None:
    import inspect

    public = inspect.signature(getattr(aiter_prebuilt, name)).parameters
    inner = inspect.signature(getattr(attention_autograd, name)).parameters
    assert set(inner) - {"_"} <= set(public)
    assert all(
        public[each].default == inner[each].default
        for each in inner
        if inner[each].default is not inner[each].empty
    )


def test_an_error_behind_the_refused_gradient_is_the_only_one() -> None:
    """CPU tensors: the call is refused for its device, and the refusal of the gradient is no part of the error."""
    q = torch.ones(1, 1, 1, 64, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(errors.ArgumentDeviceError, match="on the CPU") as raised:
        aiter_prebuilt.flash_attn_func(q, q, q)
    assert raised.value.__context__ is None
    with pytest.raises(errors.UnsupportedError, match=r"block_table=\.\.\..* this option has no backward"):
        aiter_prebuilt.flash_attn_varlen_func(q[0], q, q, STARTS, KEYS, 1, 1, block_table=STARTS[None])
