"""AITER's ``tgemm``: an object with one method, behind which stands ``gemm_a16w16``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiter_prebuilt.ops.generated.gemm import gemm_a16w16

if TYPE_CHECKING:
    import torch


class TunedGemm:
    """Products of activations and a linear layer's weight."""

    __slots__ = ()

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
            inp: [..., K] bf16 or fp16. weights: [N, K] of the same type. bias: [N], or None.
            otype: type of the result: that of ``inp`` (None), or fp32. scale_a, scale_b, scale_c: None only.

        Returns:
            [..., N].

        Raises:
            UnsupportedError, ArgumentError, NoKernelError: as ``gemm_a16w16``.

        Source: AITER ``tgemm.mm``.
        """
        return gemm_a16w16(inp, weights, bias, otype, scale_a, scale_b, scale_c)


tgemm = TunedGemm()
