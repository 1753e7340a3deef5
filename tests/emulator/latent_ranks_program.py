"""A child of ``test_latent_lists.py``: ``mla_decode_fwd`` on each rank of context parallelism, with lists and without, on torch
of the embedded device. The results of all ranks, merged by their logarithms, are attention over the whole sequences.

Arguments: the target, its own fp8.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

import aiter_prebuilt as ap

DEPTH, WIDTH, SCALE = 512, 576, 576**-0.5
#: Of a probability that becomes bf16, twice, and of a result that does; fp8 numbers become bf16 as they are.
LOST = 2.0**-6


class Call(NamedTuple):
    """``queries`` of each batch; ``lengths`` of the whole sequences, some shorter than there are ranks, or than queries."""

    heads: int
    queries: int
    ranks: int
    lengths: tuple[int, ...]
    kinds: tuple[str, str] = ("bf16", "bf16")


CALLS = [
    Call(16, 4, 4, (13, 64, 2)), Call(32, 3, 3, (23, 7)), Call(64, 1, 7, (40, 6)), Call(5, 2, 2, (1, 33)),
    Call(128, 2, 3, (5, 41)), Call(16, 1, 8, (3, 90)), Call(16, 3, 2, (1, 51), ("fp8", "fp8")),
    Call(8, 4, 3, (2, 37), ("bf16", "fp8")),
]  # fmt: skip


class Batch:
    """Tensors of one call, and of the sequences as float64 what they hold."""

    def __init__(self, call: Call, fp8: torch.dtype) -> None:
        self.call = call
        torch.manual_seed(sum(call.lengths) + call.heads)
        kinds = [fp8 if kind == "fp8" else torch.bfloat16 for kind in call.kinds]
        tokens = call.queries * len(call.lengths)
        q = torch.randn(tokens, call.heads, WIDTH, device="cpu").to(kinds[0])
        pages = sum(call.lengths)
        kv = torch.randn(pages + 3, 1, 1, WIDTH, device="cpu").to(kinds[1])
        self.values = q.double().numpy(), kv.double().numpy().reshape(-1, WIDTH)
        self.q, self.kv = q.to("cuda"), kv.to("cuda")
        self.pages = torch.randperm(pages + 3, device="cpu")[:pages].numpy()
        self.wholes = np.cumsum([0, *call.lengths])
        self.starts = integers(np.arange(len(call.lengths) + 1) * call.queries)
        self.one = torch.ones(1, dtype=torch.float32, device="cuda")

    def rank(self, rank: int, causal: bool, listed: bool) -> tuple[Any, Any]:
        """Result and logarithms of one rank's keys."""
        call, ranks = self.call, self.call.ranks
        own = [self.pages[first:end][rank::ranks] for first, end in pairwise(self.wholes)]
        starts = integers(np.cumsum([0, *map(len, own)]))
        lasts = integers(np.ones(len(own)))
        out = torch.full((*self.q.shape[:2], DEPTH), float("nan"), dtype=torch.bfloat16, device="cuda")
        lists = self.lists(starts, lasts, causal) if listed else {"num_kv_splits": 3}
        pages = np.concatenate([*own, [0]])  # a rank may have none
        scales = {"q_scale": self.one, "kv_scale": self.one} if "fp8" in call.kinds else {}
        _, lse = ap.mla_decode_fwd(
            self.q, self.kv, out, self.starts, starts, integers(pages), lasts, call.queries, 1, 1, SCALE,
            return_lse=True, g_kv_indptr=integers(self.wholes), cp_world_size=ranks, cp_rank=rank, **lists, **scales,
        )  # fmt: skip
        return out.double().cpu().numpy(), lse.double().cpu().numpy()

    def lists(self, starts: torch.Tensor, lasts: torch.Tensor, causal: bool) -> dict[str, Any]:
        """Make the lists of works of one rank, whose memory holds rubbish before."""
        call = self.call
        shapes = ap.get_mla_metadata_info_v1(
            len(call.lengths), call.queries, call.heads, self.q.dtype, self.kv.dtype, False, True
        )
        names = "work_meta_data work_indptr work_info_set reduce_indptr reduce_final_map reduce_partial_map"
        made = {
            name: torch.full((shape,) if isinstance(shape, int) else shape, 1 << 29, dtype=torch.int64, device="cuda").to(kind)
            for name, (shape, kind) in zip(names.split(), shapes, strict=True)
        }  # fmt: skip
        ap.get_mla_metadata_v1(
            self.starts, starts, lasts, call.heads, 1, causal, made["work_meta_data"], made["work_info_set"],
            made["work_indptr"], made["reduce_indptr"], made["reduce_final_map"], made["reduce_partial_map"],
            max_seqlen_qo=call.queries, uni_seqlen_qo=call.queries, is_cp_round_robin=True,
        )  # fmt: skip
        return made

    def whole(self) -> tuple[Any, Any]:
        """Attention over the whole sequences in float64, and the mean of the sizes of what was added."""
        q, kv = self.values
        made, sizes = np.zeros((*q.shape[:2], DEPTH)), np.zeros((*q.shape[:2], DEPTH))
        for place, (first, end) in enumerate(pairwise(self.wholes)):
            keys = kv[self.pages[first:end]]
            for own in range(self.call.queries):
                seen = keys[: max(end - first - (self.call.queries - 1 - own), 0)]
                token = place * self.call.queries + own
                if len(seen):
                    powers = np.exp(q[token] @ seen.T * SCALE)
                    shares = powers / powers.sum(-1, keepdims=True)
                    made[token], sizes[token] = shares @ seen[:, :DEPTH], shares @ np.abs(seen[:, :DEPTH])
        return made, sizes

    def check(self, results: list[tuple[Any, Any]]) -> None:
        """Compare the ranks' results: 0 of tokens that see no key of a rank, and merged the whole."""
        want, sizes = self.whole()
        logs = np.stack([lse for _, lse in results])
        assert not np.isnan(logs).any()
        for rank, (out, lse) in enumerate(results):
            assert ((out == 0).all(-1) == np.isinf(lse)).all(), (self.call, rank)
            counts = [
                sum(
                    place <= length - self.call.queries + own
                    for place in range(rank, length, self.call.ranks)
                )
                for length in self.call.lengths
                for own in range(self.call.queries)
            ]
            assert ((np.array(counts) == 0)[:, None] == np.isinf(lse)).all(), (self.call, rank)
        peak = logs.max(0)
        weights = np.exp(logs - np.where(np.isinf(peak), 0.0, peak))
        total = weights.sum(0)
        found = sum(weight[..., None] * out for weight, (out, _) in zip(weights, results, strict=True))
        found = found / np.where(total == 0, 1.0, total)[..., None]
        assert (np.abs(found - want) <= LOST * sizes + 1e-6).all(), self.call


def integers(values: Any) -> torch.Tensor:
    """Copy numbers to the device as int32."""
    return torch.tensor(np.asarray(values).tolist(), dtype=torch.int32, device="cuda")


def main(fp8: str) -> int:
    """All calls, with the lists of both masks and without lists."""
    kind = {"e4m3fnuz": torch.float8_e4m3fnuz, "e4m3fn": torch.float8_e4m3fn}[fp8]
    for call in CALLS:
        batch = Batch(call, kind)
        for causal, listed in ((False, True), (True, True), (True, False)):
            batch.check([batch.rank(rank, causal, listed) for rank in range(call.ranks)])
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2]))
