"""Measure attention on this GPU: rows of ``gpu_bench.py ops``.

Prompts and gradients are compared with the fastest backend of torch's scaled_dot_product_attention that takes the
call (flash, cudnn, efficient): the same inputs in the same layout, its backward pass as autograd calls it. Decoding is compared
with a large copy: bytes of the keys and values that are read, over what it reads and writes in that time. Each result is
compared with torch's first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch
from gpu_clock import COPIED, NEAR, Clock, TimedRow, off, random, row
from torch.nn.attention import SDPBackend, sdpa_kernel

import aiter_prebuilt
from aiter_prebuilt import errors

BACKENDS: Final = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
#: Heads of queries, of keys, sizes of a key and a value: Llama 3 8B, gpt-oss, DeepSeek V3 on 8 GPUs.
MODELS: Final = {
    "Llama 3 8B": (32, 8, 128, 128),
    "gpt-oss 120B": (64, 8, 64, 64),
    "DeepSeek V3 / 8": (16, 16, 192, 128),
}
#: Tokens of all sequences together, and of each.
TOKENS: Final = 16384
LENGTHS: Final = (1024, 2048, 4096, 8192, 16384)
#: Sequences and keys of each, in pages of PAGE.
CACHES: Final = ((8, 2048), (8, 32768), (32, 8192), (128, 2048), (128, 8192), (128, 32768))
PAGE: Final = 16


def _attend(q: Any, k: Any, v: Any, causal: bool, grouped: bool) -> Any:
    attend: Any = torch.nn.functional.scaled_dot_product_attention
    queries, keys, values = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    return attend(queries, keys, values, is_causal=causal, enable_gqa=grouped).transpose(1, 2)


def _served(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Iterator[tuple[str, Any]]:
    """Each backend that takes the call, and the call; one that takes no groups gets each head of keys repeated."""
    group = q.shape[2] // k.shape[2]
    for name, backend in BACKENDS.items():
        for grouped in (True, False):
            keys, values = (x if grouped else x.repeat_interleave(group, 2) for x in (k, v))

            def call(
                keys: Any = keys, values: Any = values, grouped: bool = grouped, backend: Any = backend
            ) -> Any:
                with sdpa_kernel([backend]):
                    return _attend(q, keys, values, causal, grouped)

            try:
                call()
            except RuntimeError:  # what this backend does not take
                continue
            yield name, call
            break


def _gradients(out: torch.Tensor, tensors: list[torch.Tensor], dout: torch.Tensor) -> Any:
    return torch.autograd.grad(out, tensors, dout, retain_graph=True)


def attention(clock: Clock, backward: bool) -> Iterator[TimedRow]:
    """Rows of the prompts of each model, or of their gradients."""
    for model, (heads, key_heads, size, value_size) in MODELS.items():
        for causal in (True, False):
            for length in LENGTHS:
                batch = TOKENS // length
                q = random(batch, length, heads, size)
                k, v = random(batch, length, key_heads, size), random(batch, length, key_heads, value_size)
                what = f"{model}: {batch} x {length}{' causal' if causal else ''}"
                yield (_backward if backward else _forward)(clock, what, q, k, v, causal)


def _forward(clock: Clock, what: str, q: Any, k: Any, v: Any, causal: bool) -> TimedRow:
    others = dict(_served(q, k, v, causal))
    right = next(iter(others.values()))()
    return row(
        "forward",
        what,
        clock,
        lambda: (aiter_prebuilt.flash_attn_func(q, k, v, causal=causal),),
        others,
        (right,),
    )


def _backward(clock: Clock, what: str, q: Any, k: Any, v: Any, causal: bool) -> TimedRow:
    scale = q.shape[-1] ** -0.5
    dout = random(*q.shape[:3], v.shape[-1])
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    others: dict[str, Callable[[], Any]] = {}
    right: Any = None
    for name, call in _served(leaves[0], leaves[1], leaves[2], causal):
        with torch.enable_grad():
            made = call()
        try:
            found = _gradients(made, leaves, dout)
        except RuntimeError:  # a backend may have no backward pass of it
            continue
        others[name] = partial(_gradients, made, leaves, dout)
        right = found if right is None else right
    try:
        out, lse = aiter_prebuilt.flash_attn_func(q, k, v, causal=causal, return_lse=True)
    except errors.AiterPrebuiltError:  # heads that it does not serve here
        out, lse = made.detach(), _log_sums(q, k, scale, causal)

    def ours() -> Any:
        return aiter_prebuilt.mha_bwd(dout, q, k, v, out, lse, 0.0, scale, causal, -1, -1, False)[:3]

    return row("backward", what, clock, ours, others, right)


def _log_sums(q: torch.Tensor, k: torch.Tensor, scale: float, causal: bool) -> torch.Tensor:
    """Compute the log-sum-exp of each query's scores, head by head."""
    batches, length, heads, _ = q.shape
    found = torch.empty(batches, heads, length, device="cuda")
    hidden = torch.ones(length, length, dtype=torch.bool, device="cuda").triu_(1) if causal else None
    for batch in range(batches):
        for head in range(heads):
            keys = k[batch, :, head * k.shape[2] // heads].float()
            scores = q[batch, :, head].float() @ keys.T * scale
            if hidden is not None:
                scores.masked_fill_(hidden, float("-inf"))
            found[batch, head] = scores.logsumexp(-1)
    return found


def decode(clock: Clock) -> Iterator[TimedRow]:
    """Rows of a token of each of many sequences; time of a copy that moves as many bytes."""
    bandwidth = COPIED / clock.copy(COPIED)
    for model, (heads, key_heads, size, value_size) in MODELS.items():
        if size != value_size:
            continue  # its cache is latent
        for sequences, keys in CACHES:
            yield _decode(
                clock,
                f"{model}: {sequences} x {keys} keys",
                (sequences, keys, heads, key_heads, size),
                bandwidth,
            )


def _decode(clock: Clock, what: str, sizes: tuple[int, int, int, int, int], bandwidth: float) -> TimedRow:
    sequences, keys, heads, key_heads, size = sizes
    pages = sequences * keys // PAGE
    k = torch.empty(pages, PAGE, key_heads, size, device="cuda", dtype=torch.bfloat16).normal_()
    v = torch.empty_like(k).normal_()
    table = torch.randperm(pages, device="cuda", dtype=torch.int32).view(sequences, -1)
    q = random(sequences, heads, size)
    out = torch.empty_like(q)
    starts = torch.arange(sequences + 1, device="cuda", dtype=torch.int32)
    used = torch.full((sequences,), keys, device="cuda", dtype=torch.int32)

    def ours() -> None:
        aiter_prebuilt.unified_attention(
            q, k, v, out, starts, 1, used, keys, size**-0.5, True, (-1, -1), table, 0.0, None, None, None
        )  # fmt: skip

    moved = 2 * k.numel() * k.element_size()
    least = moved / bandwidth
    what += f", {moved / 1e6:.0f} MB"
    try:
        ours()
    except errors.AiterPrebuiltError as error:
        return TimedRow("decode", what, None, least, "copy", None, f"not served here: {type(error).__name__}")
    last_k, last_v = (x[table[-1].long()].view(1, keys, key_heads, size) for x in (k, v))
    worst = off(out[-1], _attend(q[-1:, None], last_k, last_v, False, True)[0, 0])
    if not worst < NEAR:
        return TimedRow("decode", what, None, least, "copy", 0.0, f"WRONG by {worst:.3g}")
    spent = clock(ours)[0]
    note = f"{moved / spent / 1e6:.2f} of {bandwidth / 1e6:.2f} TB/s; a copy of as many bytes {clock.copy(moved):.1f} us"
    return TimedRow("decode", what, spent, least, "copy", least / spent, note)


GROUPS: Final[dict[str, Callable[[Clock], Iterator[TimedRow]]]] = {
    "forward": lambda clock: attention(clock, backward=False),
    "backward": lambda clock: attention(clock, backward=True),
    "decode": decode,
}
