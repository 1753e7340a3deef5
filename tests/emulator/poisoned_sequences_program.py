"""A child of ``test_poisoned_sequences.py``: gradients of packed sequences of which one holds no finite number.

Nothing of that sequence may reach another one, and keys that no query attends to have gradients of 0.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from emulator.gradient_program import read, spans, upload

from aiter_prebuilt.launch import dispatch
from aiter_prebuilt_emulator.memory import DeviceArray

SCALE = 0.1
#: Of the largest element of a gradient.
LIMIT = {torch.bfloat16: 0.02, torch.float16: 0.004}
_NAMES = {torch.bfloat16: "bf16", torch.float16: "f16"}


class Case(NamedTuple):
    """Lengths of the sequences, and which of them is poisoned."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    poisoned: int


class Form(NamedTuple):
    """Which kernel a call chooses."""

    operator: str
    width: int
    heads: int
    causal: bool
    fp32: bool


class Inputs(NamedTuple):
    """Tensors of a call, rows before heads."""

    dout: torch.Tensor
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor


CASES = (
    Case((30, 0, 20), (70, 40, 33), 1),
    Case((30, 0), (70, 40), 1),
    Case((0, 21), (40, 70), 0),
    Case((30, 11, 20), (70, 0, 33), 1),
    Case((30, 11, 20), (70, 40, 33), 1),
)
SHARED_HEADS = 2
FORMS = (
    *(
        Form("fmha_v3_varlen_bwd", width, heads, causal, True)
        for width in (64, 104, 128, 192)
        for heads in (2, 4)
        for causal in (False, True)
    ),
    Form("fmha_v3_varlen_bwd", 128, 2, False, False),
    Form("fmha_v3_varlen_bwd", 104, 4, True, False),
    Form("mha_varlen_bwd", 64, 4, False, True),
    Form("mha_varlen_bwd", 128, 2, True, True),
)


def sequence(
    form: Form, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor
) -> list[torch.Tensor]:
    """Return out, lse, dq, dk and dv of one sequence in float64."""
    q, k, v, dout = (tensor.double() for tensor in (q, k, v, dout))
    group = form.heads // SHARED_HEADS
    keys, values = (tensor.repeat_interleave(group, 1) for tensor in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, keys) * SCALE
    if form.causal:
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(len(k) - len(q) + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    lse = torch.logsumexp(scores, -1) if len(k) else torch.full(scores.shape[:2], float("-inf")).double()
    weights = torch.nan_to_num(torch.exp(scores - lse[..., None]))
    out = torch.einsum("hij,jhd->ihd", weights, values)
    delta = (out * dout).sum(-1).T
    change = weights * (torch.einsum("ihd,jhd->hij", dout, values) - delta[..., None]) * SCALE
    dk = torch.einsum("hij,ihd->jhd", change, q)
    dv = torch.einsum("hij,ihd->jhd", weights, dout)
    parts = (len(k), SHARED_HEADS, group, form.width)
    return [
        out,
        lse,
        torch.einsum("hij,jhd->ihd", change, keys),
        *(each.reshape(parts).sum(2) for each in (dk, dv)),
    ]


def drawn(form: Form, case: Case, kind: torch.dtype) -> tuple[Inputs, list[torch.Tensor]]:
    """Return a call's finite inputs, and its gradients by float64."""
    queries, keys = sum(case.queries), sum(case.keys)
    q, dout = (torch.randn(queries, form.heads, form.width).to(kind) for _ in range(2))
    k, v = (torch.randn(keys, SHARED_HEADS, form.width).to(kind) for _ in range(2))
    parts = [
        sequence(form, q[a:b], k[c:d], v[c:d], dout[a:b])
        for (a, b), (c, d) in zip(spans(case.queries), spans(case.keys), strict=True)
    ]
    out, lse, dq, dk, dv = (
        torch.cat(list(each), 1 if which == 1 else 0) for which, each in enumerate(zip(*parts, strict=True))
    )
    return Inputs(dout, q, k, v, out.to(kind), lse.float()), [dq, dk, dv]


def poison(inputs: Inputs, case: Case, value: float) -> None:
    """Put ``value`` into every row of the poisoned sequence."""
    (a, b), (c, d) = spans(case.queries)[case.poisoned], spans(case.keys)[case.poisoned]
    for tensor in (inputs.dout, inputs.q, inputs.out):
        tensor[a:b] = value
    for tensor in (inputs.k, inputs.v):
        tensor[c:d] = value
    inputs.lse[:, a:b] = value


def found(form: Form, case: Case, inputs: Inputs) -> list[torch.Tensor]:
    """Return dq, dk and dv of the operator."""
    kind = inputs.q.dtype
    starts = [
        upload(torch.tensor((0, *itertools.accumulate(each)), dtype=torch.int32))
        for each in (case.queries, case.keys)
    ]
    made = [DeviceArray(_NAMES[kind], tuple(like.shape)) for like in (inputs.q, inputs.k, inputs.v)]
    delta = DeviceArray("f32", tuple(inputs.lse.shape))
    given = [upload(tensor) for tensor in inputs]
    longest = max(case.queries), max(case.keys)
    operator = dispatch.operator(form.operator)
    tensors = [each.raw for each in (*given, *starts, *made)]
    if form.operator == "mha_varlen_bwd":
        operator(*tensors, None, None, delta.raw, *longest, SCALE, -1, 0 if form.causal else -1, stream=0)
    else:
        operator(*tensors, delta.raw, *longest, SCALE, form.causal, form.fp32, 0, stream=0)
    return [read(array, kind) for array in made]


def wrong(form: Form, case: Case, kind: torch.dtype, value: float) -> str | None:
    """Say which gradient is wrong."""
    inputs, wants = drawn(form, case, kind)
    poison(inputs, case, value)
    lengths = (case.queries, case.keys, case.keys)
    for name, one, want, each in zip(
        ("dq", "dk", "dv"), found(form, case, inputs), wants, lengths, strict=True
    ):
        first, last = spans(each)[case.poisoned]
        own = torch.zeros(len(one), dtype=torch.bool)
        own[first:last] = True
        if not ((one - want)[~own].abs() <= LIMIT[kind] * want.abs().max()).all():
            return f"{name} of another sequence is wrong"
        alone = not (case.queries if name != "dq" else case.keys)[case.poisoned]
        if alone and one[own].count_nonzero():
            return f"{name} of what meets nothing is not 0"
    return None


def main() -> int:
    """Run all of them."""
    torch.manual_seed(0)
    numbers = itertools.cycle(itertools.product(LIMIT, (float("nan"), float("inf"))))
    for (form, case), (kind, value) in zip(itertools.product(FORMS, CASES), numbers, strict=False):
        if problem := wrong(form, case, kind, value):
            print(f"{form} {case} {kind} {value}: {problem}")
            return 1
    print("done")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
