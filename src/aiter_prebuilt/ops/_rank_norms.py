"""All-reduces with what a layer does next: add the residual, norm, quantise. The part of ``CustomAllreduce`` that holds them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from aiter_prebuilt.contract.dtype import BY_NAME
from aiter_prebuilt.ops._common import element_type, refuse
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._rank_blocks import GROUPS, RankBlocks, kind_of
from aiter_prebuilt.ops._rank_views import as_rows, dense, flat, nbytes

if TYPE_CHECKING:
    import torch

#: Bytes from which two exchanges and a launch more are shorter than one exchange of everything: AITER's bounds.
_LONG = {4: 163840, 6: 81920, 8: 81920}


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
            inp, res_inp: [..., N] bf16 or fp16, contiguous. w: [N]. eps: added to the mean square.
            out, res_out, scale_out: written, or None. registered: of no effect. gemma_norm: multiply by ``w + 1``.
            use_1stage: one launch for a long message, too, whose sum is rounded to its type before the residual otherwise.
            post_per_token_quant: ``out`` is the target's fp8 with a scale for each row; ``emit_bf16``: and the norm itself.
            out_hidden_dim: 0, or N: rows are not padded here.

        Returns:
            (out, res_out), or (out, res_out, scale[, norm]).

        Raises:
            UnsupportedError: padded rows. ArgumentError, NoKernelError: as the operators'.

        Source: AITER ``CustomAllreduce.fused_ar_rms``.
        """
        del registered
        width = inp.shape[-1]
        if out_hidden_dim not in (0, width) or prod(w.shape) != width:
            raise refuse(
                "CustomAllreduce", "out_hidden_dim", out_hidden_dim, "0, and a weight as wide as inp"
            )
        layer = _Layer(res_inp, w, eps, gemma_norm, use_1stage)
        res_out = _made(inp) if res_out is None else res_out
        if post_per_token_quant:
            out = inp.new_empty(inp.shape, dtype=fp8_of(inp)) if out is None else out
            if scale_out is None:
                scale_out = inp.new_empty((*inp.shape[:-1], 1), dtype=element_type(inp, "f32"))
            return out, res_out, scale_out, *self._codes(layer, inp, (out, res_out, scale_out), 0, emit_bf16)
        out = _made(inp) if out is None else out
        self._norm(layer, inp, out, res_out)
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
    ) -> tuple[torch.Tensor, ...]:
        """:meth:`fused_ar_rms` whose ``out`` is the target's fp8, with a scale for each ``group_size`` columns (32, 64 or 128).

        Returns:
            (out, res_out, scale [..., N / group_size][, norm]).

        Source: AITER ``CustomAllreduce.fused_ar_rms_per_group_quant``.
        """
        del registered
        if group_size not in (32, 64, 128) or inp.shape[-1] % group_size:
            raise refuse(
                "CustomAllreduce", "group_size", group_size, "32, 64 or 128, a divisor of the columns"
            )
        groups = inp.shape[-1] // group_size
        out, res_out = inp.new_empty(inp.shape, dtype=fp8_of(inp)), _made(inp)
        scale = inp.new_empty((*inp.shape[:-1], groups), dtype=element_type(inp, "f32"))
        layer = _Layer(res_inp, w, eps, False, use_1stage)
        return out, res_out, scale, *self._codes(layer, inp, (out, res_out, scale), group_size, emit_bf16)

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
        """:meth:`fused_ar_rms` of a matrix whose ``out`` is MXFP4: bytes [M, N / 2], scales [M, N / 32] as bytes (gfx950).

        Source: AITER ``CustomAllreduce.fused_ar_rms_mxfp4_quant``.
        """
        from aiter_prebuilt.ops.quantize import dynamic_mxfp4_quant

        del registered
        norm, res_out = _made(inp), _made(inp)
        self._norm(_Layer(res_inp, w, eps, False, use_1stage), inp, norm, res_out)
        codes, scale = dynamic_mxfp4_quant(norm)
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
        if not self.should_custom_ar(input):
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
        packed = input if dense(input) else input.contiguous()
        return self.custom_fused_ar_rms(
            packed, residual_inp, weight, eps, use_1stage, out_hidden_dim, gemma_norm
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
        if not self.should_custom_ar(input):
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
    ) -> tuple[torch.Tensor, ...] | None:
        """(out, res_out, scale[, norm]) with a scale for each group, or None."""
        if not self.should_custom_ar(input):
            return None
        return self.fused_ar_rms_per_group_quant(
            input,
            residual_inp,
            w=weight,
            eps=eps,
            group_size=group_size,
            use_1stage=use_1stage,
            emit_bf16=emit_bf16,
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
        if not self.should_custom_ar(input):
            return None
        return self.fused_ar_rms_mxfp4_quant(
            input, residual_inp, w=weight, eps=eps, use_1stage=use_1stage, emit_bf16=emit_bf16
        )

    def _norm(self, layer: _Layer, inp: Any, out: Any, res_out: Any) -> None:
        blocks, kind = self._blocks, kind_of(inp)
        if layer.one_launch or nbytes(inp) < _LONG.get(blocks.world, 1 << 62):
            rows = prod(inp.shape[:-1])
            most = -(-rows // max(1, min(GROUPS, rows))) * inp.shape[-1] * BY_NAME[kind].itemsize
            if most <= blocks.region:
                tensors = (out, res_out, inp, layer.residual, layer.weight)
                return blocks.all_reduce_rmsnorm(tensors, kind, layer.epsilon, layer.gemma_norm)
        from aiter_prebuilt.ops.generated.norm import rmsnorm2d_fwd_with_add

        total = self._sum(inp)
        return rmsnorm2d_fwd_with_add(
            out, total, layer.residual, res_out, layer.weight, layer.epsilon, layer.gemma_norm
        )

    def _sum(self, inp: Any) -> Any:
        total = _made(inp)
        self._blocks.all_reduce(flat(total), flat(inp), kind_of(inp))
        return total

    def _codes(
        self, layer: _Layer, inp: Any, made: tuple[Any, Any, Any], group: int, emit: bool
    ) -> tuple[Any, ...]:
        """fp8 of the norm into ``made`` (codes, residual, scales); with ``emit`` the norm is made, and is what is quantised."""
        from aiter_prebuilt.ops.generated.qk_norm import add_rmsnorm_quant
        from aiter_prebuilt.ops.generated.quant import dynamic_per_token_scaled_quant

        codes, res_out, scale = made
        if not emit:
            add_rmsnorm_quant(
                codes, self._sum(inp), layer.residual, res_out, scale, layer.weight, layer.epsilon, group, False, layer.gemma_norm
            )  # fmt: skip
            return ()
        norm = _made(inp)
        self._norm(layer, inp, norm, res_out)
        rows = prod(scale.shape)
        shape = (rows, prod(inp.shape) // max(1, rows))
        dynamic_per_token_scaled_quant(as_rows(codes, shape), as_rows(norm, shape), as_rows(scale, (rows, 1)))
        return (norm,)


class _Layer(NamedTuple):
    """What follows the sum."""

    residual: Any
    weight: Any
    epsilon: float
    gemma_norm: bool
    one_launch: bool


def _made(inp: Any) -> Any:
    return inp.new_empty(inp.shape)
