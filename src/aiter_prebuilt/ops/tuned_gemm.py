"""AITER's ``tgemm``: an object with one method, behind which stands ``gemm_a16w16``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops._named_errors import blame
from aiter_prebuilt.ops._traced import traced
from aiter_prebuilt.ops.generated.gemm import _gemm_a16w16, _new_gemm_a16w16, gemm_a16w16

if TYPE_CHECKING:
    import torch


class TunedGemm:
    """Products of activations and a linear layer's weight."""

    __slots__ = ()

    @traced
    def mm(
        self,
        inp: torch.Tensor,
        weights: torch.Tensor,
        bias: torch.Tensor | None = None,
        otype: torch.dtype | None = None,
        scale_a: torch.Tensor | None = None,
        scale_b: torch.Tensor | None = None,
        scale_c: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``inp @ weights.T + bias``.

        Args:
            inp: [..., K] bf16 or fp16.
            weights: [N, K] of the same type.
            bias: [N] of the same type, or None; another float type is added to the fp32 result, which is rounded once.
            otype: type of the result: that of ``inp`` (None), fp32, or the other 16-bit type, rounded once from fp32.
            scale_a: only None is supported.
            scale_b: only None is supported.
            scale_c: only None is supported.

        Returns:
            [..., N].

        Raises:
            UnsupportedError, ArgumentError, NoKernelError: as ``gemm_a16w16``.

        Source: AITER ``tgemm.mm``.
        """
        try:
            plain = scale_a is scale_b is scale_c is None and (otype is None or otype is inp.dtype)
            plain = plain and (bias is None or bias.dtype is inp.dtype)
        except Exception as error:
            blame(TunedGemm.mm, error, locals(), "tgemm.mm")
            raise
        if not plain or getattr(weights, "is_shuffled", False):
            return gemm_a16w16(inp, weights, bias, otype, scale_a, scale_b, scale_c)
        # Most calls by far: what ``gemm_a16w16`` does with no option, without the questions for the others.
        out: torch.Tensor = _new_gemm_a16w16(inp, weights, bias, _gemm_a16w16)
        return out


tgemm = TunedGemm()
