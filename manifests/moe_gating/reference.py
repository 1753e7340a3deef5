"""Expert routing with a score of the caller's choice, and a bias that counts for the choice alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Of a score, what a kernel misses in fp32: exp2's argument is rounded twice, a softplus is a logarithm near 1.
_RELATIVE = 2.0**-20


def topk_gating(
    gating_output: Values,
    correction_bias: Values | None,
    need_renorm: bool,
    routed_scaling_factor: float,
    score_func: str,
    num_shared_experts: int,
    sizes: Mapping[str, int],
) -> tuple[Near, Values]:
    """(weights, experts). Without a bias logits are compared, which scores grow with. NaN comes after all numbers."""
    experts = gating_output.shape[1] - num_shared_experts
    gating_output, shared = gating_output[:, :experts], gating_output[:, experts:]
    unordered = np.isnan(gating_output)
    scores = np.where(unordered, 0.0, _scores(gating_output, score_func))
    chosen_by = (
        gating_output if correction_bias is None else np.where(unordered, np.nan, scores + correction_bias)
    )
    nan = np.isnan(chosen_by)
    order = np.lexsort((np.where(nan, 0.0, -chosen_by), nan), axis=-1)[:, : sizes["K"]]
    weights = np.take_along_axis(scores, order, axis=-1)
    if need_renorm:
        weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-20)
    wanted = np.concatenate([weights * routed_scaling_factor, _scores(shared, "sigmoid")], axis=1)
    # A softmax far below the largest: each power of two of the argument is a place less.
    return near(
        wanted, relative=_RELATIVE * (2 + need_renorm), absolute=2.0**-120 * abs(routed_scaling_factor)
    ), order


def _scores(logits: Values, function: str) -> Values:
    with np.errstate(over="ignore", invalid="ignore"):
        if function == "softmax":
            numbers = np.where(np.isnan(logits), -np.inf, logits)
            largest = numbers.max(axis=-1, keepdims=True, initial=-np.inf)
            powers = np.where(logits == largest, 1.0, np.exp(numbers - largest))
            powers[np.isnan(logits)] = 0.0
            return np.asarray(powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-20))
        if function == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-logits)))
        finite = np.minimum(logits, float(np.finfo(np.float32).max))
        return np.asarray(np.sqrt(np.logaddexp(0.0, finite)))
