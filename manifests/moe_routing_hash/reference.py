"""What a table says of each token's experts, in the order of the experts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Of a score, what fp32 misses: exponents, a logarithm and a root, a few roundings each.
_RELATIVE = 2.0**-19
#: Below this the power of a logit has fewer digits in fp32, and so has the root of it.
_SMALLEST = 2.0**-60


def moe_routing_hash_lists(
    router_logits: Values,
    tid2eid: Values,
    input_ids: Values,
    n_expts_act: int,
    block_m: int,
    gather_indx: Values,
    scatter_indx: Values,
    gate_scal: Values,
    renorm: bool,
    routed_scaling_factor: float,
    sizes: Mapping[str, int],
) -> tuple[Values, Values, Near, Values, Values, Values, Values]:
    """Places' choices, choices' places, places' scores, and how each expert's are found; what has no place stays as it was."""
    count = sizes["E"]
    known = (input_ids >= 0) & (input_ids < len(tid2eid))
    named = np.where(known[:, None], tid2eid[np.where(known, input_ids, 0).astype(np.int64)], -1)
    there = (named >= 0) & (named < count)
    scores = np.take_along_axis(router_logits, np.where(there, named, 0).astype(np.int64), axis=1)
    with np.errstate(invalid="ignore"):
        scores = np.where(there, np.sqrt(np.logaddexp(0.0, scores)), 0.0)
        part = scores.sum(axis=1, keepdims=True) + 1e-20 if renorm else np.ones((len(scores), 1))
        wanted = scores / part * routed_scaling_factor
        off = _RELATIVE * (2 + n_expts_act * 2.0**-4) * np.abs(wanted)
        off = off + _SMALLEST / part * abs(routed_scaling_factor)
    off = np.where(np.isfinite(off), off, 0.0).reshape(-1)
    live = np.flatnonzero(there.reshape(-1))
    owners = named.reshape(-1)[live].astype(np.int64)
    order = live[np.argsort(owners, kind="stable")]
    gather, scatter, gates = (
        np.ma.array(each, mask=np.ones(each.shape, bool)) for each in (gather_indx, scatter_indx, gate_scal)
    )
    gather[: len(order)] = order
    scatter[order] = np.arange(len(order))
    gates[: len(order)] = wanted.reshape(-1)[order]
    errors = np.zeros(gates.shape)
    errors[: len(order)] = off[order]
    hist = np.bincount(owners, minlength=count)
    starts = np.concatenate([[0], np.cumsum(hist)])
    starts[-1] = sizes["P"]
    own = -(-hist // block_m)
    blocks = np.full(sizes["NB"], -1)
    found = [number << 16 | expert for expert in range(count) for number in range(own[expert])]
    blocks[: len(found)] = found
    return (
        gather, scatter, near(gates, absolute=errors), hist, starts, np.concatenate([[0], np.cumsum(own)]), blocks
    )  # fmt: skip


def draw_table(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Different experts in each row, in any order."""
    rows = [rng.permutation(sizes["E"])[: shape[1]] for _ in range(shape[0])]
    return np.array(rows).reshape(shape)


def draw_tokens(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any of the vocabulary."""
    return rng.integers(0, sizes["V"], shape)
