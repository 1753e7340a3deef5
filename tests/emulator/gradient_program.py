"""A child of ``test_attention_gradients.py``: attention forward, then backward, by kernels of ours, beside torch's autograd.

References judge each of the two by itself; here the log-sum-exp of the one is what the other takes.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch

from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray

_NAMES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.int32: "i32"}


class Case(NamedTuple):
    """Heads of ``width`` and ``values`` elements; queries and keys of each sequence; -1: no bound of the window."""

    width: int
    values: int
    heads: int
    shared: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    left: int
    right: int
    sinks: bool


CASES = (
    Case(64, 64, 4, 2, (130, 1, 60), (200, 40, 30), -1, -1, False),
    Case(64, 64, 4, 1, (130, 7, 60), (200, 40, 30), -1, 0, True),
    Case(128, 128, 3, 3, (130, 7, 260), (200, 40, 300), 50, 20, True),
    Case(192, 128, 4, 2, (70, 3), (90, 20), -1, 0, True),
    Case(72, 40, 2, 1, (30, 9), (50, 20), 10, 0, False),
    Case(200, 256, 2, 1, (30, 9), (50, 20), -1, 0, True),
)


def upload(tensor: torch.Tensor) -> DeviceArray:
    """A tensor of the same elements on the device."""
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return DeviceArray(_NAMES[tensor.dtype], tuple(tensor.shape), data)


def read(array: DeviceArray, like: torch.dtype) -> torch.Tensor:
    """What lies there, in float64."""
    return torch.frombuffer(bytearray(array.read()), dtype=like).reshape(array.shape).double()


def attention(case: Case, q: Any, k: Any, v: Any, sink: Any) -> Any:
    """Of one sequence, [rows, heads, elements], in float64."""
    k, v = (x.repeat_interleave(case.heads // case.shared, 1) for x in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * case.width**-0.5
    queries, keys = q.shape[0], k.shape[0]
    place = torch.arange(keys)[None] - (torch.arange(queries)[:, None] + keys - queries)
    hidden = (place < -case.left) & (case.left >= 0) | (place > case.right) & (case.right >= 0)
    scores = scores.masked_fill(hidden, float("-inf"))
    if sink is not None:
        scores = torch.cat([scores, sink[:, None, None].expand(-1, queries, 1)], 2)
    weights = torch.nan_to_num(torch.softmax(scores, -1))[:, :, :keys]
    return torch.einsum("hij,jhd->ihd", weights, v)


def spans(lengths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Where each sequence begins and ends."""
    return list(itertools.pairwise((0, *itertools.accumulate(lengths))))


def wanted(case: Case, inputs: list[torch.Tensor], dout: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of queries, keys, values and sinks, by autograd."""
    leaves = [tensor.double().requires_grad_() for tensor in inputs]
    q, k, v, *sinks = leaves
    sink = sinks[0] if case.sinks else None
    parts = [
        attention(case, q[a:b], k[c:d], v[c:d], sink)
        for (a, b), (c, d) in zip(spans(case.queries), spans(case.keys), strict=True)
    ]
    torch.cat(parts).backward(dout.double())
    return [leaf.grad for leaf in leaves if leaf.grad is not None]


def found(case: Case, inputs: list[torch.Tensor], dout: torch.Tensor) -> list[torch.Tensor]:
    """The same by the operators."""
    kind, scale = dout.dtype, case.width**-0.5
    rows, columns = sum(case.queries), sum(case.keys)
    given = [upload(tensor) for tensor in inputs[:3]]
    sink = upload(inputs[3]) if case.sinks else None
    edges = [torch.tensor((0, *itertools.accumulate(each))) for each in (case.queries, case.keys)]
    starts = [upload(edge.to(torch.int32)) for edge in edges]
    out, lse, delta = (
        DeviceArray(name, shape)
        for name, shape in (
            (_NAMES[kind], dout.shape),
            ("f32", (case.heads, rows)),
            ("f32", (case.heads, rows)),
        )
    )
    longest = max(case.queries), max(case.keys)
    window = case.left, case.right
    pages = (given[0], *(upload(tensor.unsqueeze(0)) for tensor in inputs[1:3]))
    forward = (*pages, *starts, None, out, sink, lse)
    dispatch.operator("flash_attn_varlen_func")(
        *_raw(forward), longest[0], scale, 0.0, *window, 0, 0, True, 1, stream=0
    )
    made = [
        DeviceArray(_NAMES[kind], shape)
        for shape in (
            (rows, case.heads, case.width),
            (columns, case.shared, case.width),
            (columns, case.shared, case.values),
        )
    ]
    every = upload(inputs[3].expand(len(case.queries), -1)) if case.sinks else None
    grown = upload(torch.ones(case.heads)) if case.sinks else None
    backward = (upload(dout), *given, out, lse, *starts, *made, every, grown, delta)
    dispatch.operator("mha_varlen_bwd")(*_raw(backward), *longest, scale, *window, stream=0)
    gradients = [read(array, kind) for array in made]
    return gradients if grown is None else [*gradients, read(grown, torch.float32) - 1]


def _raw(arrays: tuple[DeviceArray | None, ...]) -> list[object]:
    return [None if array is None else array.raw for array in arrays]


def main() -> int:
    """Run all of them."""
    torch.manual_seed(0)
    for case, kind in itertools.product(CASES, (torch.bfloat16, torch.float16)):
        shapes = (
            (sum(case.queries), case.heads, case.width),
            (sum(case.keys), case.shared, case.width),
            (sum(case.keys), case.shared, case.values),
        )
        inputs = [torch.randn(*shape).to(kind) for shape in shapes]
        inputs += [torch.randn(case.heads)] if case.sinks else []
        dout = torch.randn(sum(case.queries), case.heads, case.values).to(kind)
        for name, one, other in zip(
            "qkvs", found(case, inputs, dout), wanted(case, inputs, dout), strict=False
        ):
            off = ((one - other).abs().max() / other.abs().max()).item()
            if not off < (0.012 if kind == torch.bfloat16 else 0.0015):
                print(f"{case} {kind}: d{name} is off by {off:.1e} of its largest element")
                return 1
    print("done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
