"""All-reduces with what a layer does next: add the residual, norm, quantise. The part of ``CustomAllreduce`` that holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiter_prebuilt.ops import _rank_chain as chain
from aiter_prebuilt.ops import _rank_checks as checks
from aiter_prebuilt.ops._common import element_type, refuse
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._rank_blocks import RankBlocks, kind_of
from aiter_prebuilt.ops._rank_chain import Form, Layer, in_groups, made
from aiter_prebuilt.ops._rank_views import packed

if TYPE_CHECKING:
    import torch


class RankNorms:
    """The methods; the class that has them brings the blocks and says what it serves."""

    _pool: RankBlocks | None

    @property
    def _blocks(self) -> RankBlocks:
        if self._pool is None:
            raise refuse("CustomAllreduce", "disabled", True, "False")
        return self._pool

    def should_custom_ar(self, inp: torch.Tensor, prefill_support: bool = False) -> bool:
        raise NotImplementedError

    def should_custom_ar_bytes(self, inp: torch.Tensor, prefill_support: bool = False) -> bool:
        raise NotImplementedError

    def fused_ar_rms(
        self,
        inp: torch.Tensor,
        res_inp: torch.Tensor,
        *,
        res_out: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        scale_out: torch.Tensor | None = None,
        w: torch.Tensor,
        eps: float,
        registered: bool = False,
        use_1stage: bool = False,
        post_per_token_quant: bool = False,
        out_hidden_dim: int = 0,
        gemma_norm: bool = False,
        emit_bf16: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """``res_out = sum of all ranks' inp + res_inp``; ``out = rms_norm(res_out) * w``.

        Args:
            inp, res_inp: [..., N] bf16 or fp16, packed first where they are not contiguous. w: [N]. eps: added to the mean
                square.
            out, res_out, scale_out: written, or None. registered: of no effect. gemma_norm: multiply by ``w + 1``.
            use_1stage: one launch for a long message, too, whose sum is rounded to its type before the residual otherwise.
            post_per_token_quant: ``out`` is the target's fp8 with a scale for each row; ``emit_bf16``: and the norm itself.
            out_hidden_dim: columns of ``out``, 0: its own, and of a new one as many as ``inp`` has. Where ``inp`` or ``out`` has
                more than ``w``, the norm is of the first, with zeros behind it, and residuals have as many columns as ``w``; not
                quantised.

        Returns:
            (out, res_out), or (out, res_out, scale[, norm]).

        Raises:
            UnsupportedError: padded rows with codes or ``gemma_norm``, or that are narrower; ``emit_bf16`` or ``scale_out``
                without codes. ArgumentError: tensors that do not fit, or what is written shares memory with another one: before
                any rank waits. NoKernelError: as the operators'.

        Source: AITER ``CustomAllreduce.fused_ar_rms``.
        """
        del registered
        if not post_per_token_quant and (emit_bf16 or scale_out is not None):
            option, value = ("emit_bf16", emit_bf16) if emit_bf16 else ("scale_out", scale_out)
            raise refuse(
                "CustomAllreduce",
                option,
                value,
                f"{'False' if emit_bf16 else 'None'} without post_per_token_quant",
            )
        given = checks.Given(out, res_out, scale_out, out_hidden_dim)
        inp, columns, width = checks.fused(inp, res_inp, w, eps, given, post_per_token_quant)
        widened = columns != width or inp.shape[-1] != width
        if min(columns, inp.shape[-1]) < width or (widened and (gemma_norm or post_per_token_quant)):
            raise refuse(
                "CustomAllreduce", "out_hidden_dim", columns, f"0 with an inp of {width} columns, as the weight; wider ones take "
                "no gemma_norm and no codes",
            )  # fmt: skip
        layer = Layer(packed(res_inp), w, eps, gemma_norm, use_1stage)
        res_out = inp.new_empty((*inp.shape[:-1], width)) if res_out is None else res_out
        if post_per_token_quant:
            out = inp.new_empty(inp.shape, dtype=fp8_of(inp)) if out is None else out
            if scale_out is None:
                scale_out = inp.new_empty((*inp.shape[:-1], 1), dtype=element_type(inp, "f32"))
            three = (out, res_out, scale_out)
            return *three, *chain.codes(self._blocks, layer, inp, three, Form(0, emit_bf16, False))
        out = inp.new_empty((*inp.shape[:-1], columns)) if out is None else out
        step = chain.padded_norm if widened else chain.norm
        step(self._blocks, layer, inp, out, res_out)
        return out, res_out

    def fused_ar_rms_per_group_quant(
        self,
        inp: torch.Tensor,
        res_inp: torch.Tensor,
        *,
        w: torch.Tensor,
        eps: float,
        group_size: int = 128,
        registered: bool = False,
        use_1stage: bool = False,
        emit_bf16: bool = False,
        transpose_scale: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """:meth:`fused_ar_rms` whose ``out`` is the target's fp8, with a scale for each ``group_size`` columns (32, 64 or 128).

        Args:
            transpose_scale: the scales' memory has groups before rows; the shape does not say it, as of AITER's quantisations.

        Returns:
            (out, res_out, scale [..., N / group_size][, norm]).

        Source: AITER ``CustomAllreduce.fused_ar_rms_per_group_quant``.
        """
        del registered
        if not in_groups(inp, group_size):
            raise refuse(
                "CustomAllreduce", "group_size", group_size, "32, 64 or 128, a divisor of the columns"
            )
        inp = checks.plain(inp, res_inp, w, eps)
        out, res_out = inp.new_empty(inp.shape, dtype=fp8_of(inp)), made(inp)
        groups = inp.shape[-1] // group_size
        scale = inp.new_empty((*inp.shape[:-1], groups), dtype=element_type(inp, "f32"))
        layer = Layer(packed(res_inp), w, eps, False, use_1stage)
        form = Form(group_size, emit_bf16, transpose_scale)
        return out, res_out, scale, *chain.codes(self._blocks, layer, inp, (out, res_out, scale), form)

    def fused_ar_rms_mxfp4_quant(
        self,
        inp: torch.Tensor,
        res_inp: torch.Tensor,
        *,
        w: torch.Tensor,
        eps: float,
        registered: bool = False,
        use_1stage: bool = False,
        emit_bf16: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """:meth:`fused_ar_rms` of a matrix whose ``out`` is MXFP4: bytes [M, N / 2], scales [M, N / 32] as bytes. torch's tensors
        alone.

        Source: AITER ``CustomAllreduce.fused_ar_rms_mxfp4_quant``.
        """
        from aiter_prebuilt.ops.quant_hip import dynamic_mxfp4_quant

        del registered
        inp = checks.matrix(checks.plain(inp, res_inp, w, eps))
        norm, res_out = made(inp), made(inp)
        chain.norm(self._blocks, Layer(packed(res_inp), w, eps, False, use_1stage), inp, norm, res_out)
        codes, scale = dynamic_mxfp4_quant(
            norm
        )  # AITER's rounds a scale and a code halfway as its Triton kernels
        return (codes, res_out, scale, norm) if emit_bf16 else (codes, res_out, scale)

    def custom_fused_ar_rms(
        self,
        input: torch.Tensor,
        residual_inp: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        use_1stage: bool,
        out_hidden_dim: int = 0,
        gemma_norm: bool = False,
    ) -> tuple[torch.Tensor, ...] | None:
        """(out, res_out) of :meth:`fused_ar_rms`, or None for what it does not serve."""
        if not self._should_norm(input):
            return None
        return self.fused_ar_rms(
            input, residual_inp, w=weight, eps=eps, use_1stage=use_1stage, out_hidden_dim=out_hidden_dim, gemma_norm=gemma_norm
        )  # fmt: skip

    def custom_fused_ar_rms_packed_input(
        self,
        input: torch.Tensor,
        residual_inp: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        use_1stage: bool,
        out_hidden_dim: int = 0,
        prefill_support: bool = False,
        gemma_norm: bool = False,
    ) -> tuple[torch.Tensor, ...] | None:
        """:meth:`custom_fused_ar_rms` of rows that may be strided: they are packed first."""
        if not self.should_custom_ar_bytes(input, prefill_support):
            return None
        return self.custom_fused_ar_rms(
            packed(input), residual_inp, weight, eps, use_1stage, out_hidden_dim, gemma_norm
        )

    def custom_fused_ar_rms_quant(
        self,
        input: torch.Tensor,
        residual_inp: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        use_1stage: bool,
        gemma_norm: bool = False,
        emit_bf16: bool = False,
    ) -> tuple[torch.Tensor, ...] | None:
        """(out, res_out, scale[, norm]) with a scale for each row, or None."""
        if not self._should_norm(input):
            return None
        return self.fused_ar_rms(
            input, residual_inp, w=weight, eps=eps, use_1stage=use_1stage, post_per_token_quant=True, gemma_norm=gemma_norm,
            emit_bf16=emit_bf16,
        )  # fmt: skip

    def custom_fused_ar_rms_per_group_quant(
        self,
        input: torch.Tensor,
        residual_inp: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        group_size: int = 128,
        use_1stage: bool = False,
        emit_bf16: bool = False,
        transpose_scale: bool = False,
    ) -> tuple[torch.Tensor, ...] | None:
        """(out, res_out, scale[, norm]) with a scale for each group, or None."""
        if not self._should_norm(input) or not in_groups(input, group_size):
            return None
        return self.fused_ar_rms_per_group_quant(
            input,
            residual_inp,
            w=weight,
            eps=eps,
            group_size=group_size,
            use_1stage=use_1stage,
            emit_bf16=emit_bf16,
            transpose_scale=transpose_scale,
        )

    def custom_fused_ar_rms_mxfp4_quant(
        self,
        input: torch.Tensor,
        residual_inp: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        use_1stage: bool = False,
        emit_bf16: bool = False,
    ) -> tuple[torch.Tensor, ...] | None:
        """(codes, res_out, scale[, norm]) in MXFP4, or None."""
        if not self._should_norm(input) or input.shape[-1] % 32:
            return None
        return self.fused_ar_rms_mxfp4_quant(
            input, residual_inp, w=weight, eps=eps, use_1stage=use_1stage, emit_bf16=emit_bf16
        )

    def _should_norm(self, inp: Any) -> bool:
        return self.should_custom_ar(inp) and kind_of(inp) != "f32" and len(inp.shape) > 0
