"""``fused_moe`` of fp8 and int8 weights: codes of the tokens, then AITER's assembly or a kernel of ours."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.launch.dispatch import operator
from aiter_prebuilt.ops._common import element_type, outputs, refuse
from aiter_prebuilt.ops._current import fp8_of
from aiter_prebuilt.ops._fused_moe import NAME, MoeCall, gated, limit, own_type, places, shuffled
from aiter_prebuilt.ops._group_codes import _IN_GROUPS, _quant, quantise_groups
from aiter_prebuilt.ops._plans import Plan, plan_of
from aiter_prebuilt.ops.generated.fmoe_asm import fmoe_g1u1, fmoe_g1u1_tkw1
from aiter_prebuilt.ops.generated.fmoe_blockscale_asm import fmoe_fp8_blockscale_g1u1
from aiter_prebuilt.ops.generated.moe_gemm_scaled import fused_experts_a8w8, fused_experts_a8w8_tensor
from aiter_prebuilt.ops.generated.quant import (
    dynamic_per_tensor_quant,
    dynamic_per_token_scaled_quant,
    partial_transpose,
    static_per_tensor_quant,
)
from aiter_prebuilt.ops.moe_sorting import moe_sorting

if TYPE_CHECKING:
    import torch

#: AITER's ``QuantType.per_Tensor``.
_TENSOR: Final = 1
#: AITER's ``QuantType.per_1x128`` and ``per_128x128``, which mean the same: tokens have the first, weights the second.
_BLOCKS: Final = (4, 5)
#: Rows and columns of a block.
_BLOCK: Final = 128
#: Rows of a block of sorted ids of AITER's assembly.
_ROWS: Final = 32
#: It counts bytes of a tensor in 32 bits.
_MOST: Final = 1 << 32
_fused_experts_a8w8 = operator("fused_experts_a8w8")
_fused_experts_a8w8_tensor = operator("fused_experts_a8w8_tensor")
_tensor_quant = operator("dynamic_per_tensor_quant")


def quantised(asked: MoeCall) -> torch.Tensor:
    """Weights in 8 bits with scales of matrices, of rows, or of blocks of 128 x 128.

    Raises:
        UnsupportedError: an option that no kernel covers.
    """
    assembled = _assembly(asked, _active(asked))
    codes, scales = _codes(asked, assembled and asked.quant_type in _BLOCKS)
    if assembled:
        return _assembled(asked, codes, scales)
    return _ours(asked, codes, scales, shuffled(asked.w1), shuffled(asked.w2))


def plan_quantised(asked: MoeCall) -> Plan | None:
    """Plan :func:`quantised` with kernels of ours.

    The tokens have 16 bits and get scales of their own.
    """
    x, blocks = asked.hidden_states, asked.quant_type in _BLOCKS
    active = _active(asked)
    if asked.a1_scale is not None or x.dtype == asked.w1.dtype or _assembly(asked, active):
        return None
    if blocks and (x.shape[1] % _BLOCK or not x.is_contiguous()):
        return None
    hidden, rows = places("hidden_states", "num_local_tokens")
    whole, whole_again = _one_scale(asked), _one_scale_again(asked)
    scales = ("w1_scale", "w2_scale") if whole_again else ("w1_scale", "w2_scale", "a2_scale")
    given = (
        (-1,), *places("w1", "w2", "topk_weight", "topk_ids"), (-2,),
        *places(*scales, "expert_mask", "num_local_tokens", "bias1", "bias2"), (-3,),
        active, asked.doweight_stage1, shuffled(asked.w1), shuffled(asked.w2), *(() if whole_again else (blocks,)), limit(asked),
    )  # fmt: skip
    made = (
        *_new_codes(x, asked.w1.dtype, blocks, whole),
        x.new_empty(tuple(x.shape), dtype=asked.dtype or x.dtype),
    )
    in_rows = (_IN_GROUPS[_BLOCK] if blocks else _quant, ((-1,), hidden, (-2,), None, rows, False, 1))
    quantise = (_tensor_quant, ((-1,), hidden, (-2,))) if whole else in_rows
    experts = _fused_experts_a8w8_tensor if whole_again else _fused_experts_a8w8
    return plan_of(made, (quantise, (experts, given)), (-3,))


def _active(asked: MoeCall) -> int:
    """Return the number of the activation.

    Raises:
        UnsupportedError: an option that no kernel covers.
    """
    active = gated(asked)
    if asked.w1_scale is None or asked.w2_scale is None:
        missing = "w1_scale" if asked.w1_scale is None else "w2_scale"
        raise refuse(NAME, missing, None, "a tensor, with weights in 8 bits")
    own = asked.hidden_states.dtype
    own_type(asked, asked.w1.dtype, "w1.dtype")
    if own == asked.w1.dtype and asked.a1_scale is None:
        raise refuse(NAME, "a1_scale", None, "a tensor, with hidden_states in 8 bits")
    if own == asked.w1.dtype and asked.dtype is None:
        raise refuse(NAME, "dtype", None, "torch.bfloat16 or torch.float16, with hidden_states in 8 bits")
    return active


def _one_scale(asked: MoeCall) -> bool:
    """Tell whether all tokens get one scale.

    Where some are not valid the others must not depend on them: each row gets its own.
    """
    return asked.quant_type == _TENSOR and asked.num_local_tokens is None


def _one_scale_again(asked: MoeCall) -> bool:
    """Tell whether the activation's result gets one scale."""
    return asked.quant_type == _TENSOR and asked.a2_scale is None


def weighted_first(asked: MoeCall) -> torch.Tensor:
    """Shuffled weights with scales of rows, tokens weighted first: AITER's assembly, for fp8, wherever its objects fit."""
    codes, scales = _codes(asked, False)
    if asked.activation == 0 and asked.w1.dtype != element_type(asked.w1, "i8") and _rows_fit(asked):
        return _assembled(asked, codes, scales)
    return _ours(asked, codes, scales, True, True)


def _ours(
    asked: MoeCall, codes: torch.Tensor, scales: torch.Tensor, shuffled1: bool, shuffled2: bool
) -> torch.Tensor:
    assert asked.w1_scale is not None and asked.w2_scale is not None  # refused before
    if _one_scale_again(asked):
        return fused_experts_a8w8_tensor(
            codes,
            asked.w1,
            asked.w2,
            asked.topk_weight,
            asked.topk_ids,
            scales,
            asked.w1_scale,
            asked.w2_scale,
            asked.expert_mask,
            asked.num_local_tokens,
            asked.bias1,
            asked.bias2,
            asked.activation,
            asked.doweight_stage1,
            shuffled1,
            shuffled2,
            limit(asked),
            asked.dtype or asked.hidden_states.dtype,
        )
    return fused_experts_a8w8(
        codes,
        asked.w1,
        asked.w2,
        asked.topk_weight,
        asked.topk_ids,
        scales,
        asked.w1_scale,
        asked.w2_scale,
        asked.a2_scale,
        asked.expert_mask,
        asked.num_local_tokens,
        asked.bias1,
        asked.bias2,
        asked.activation,
        asked.doweight_stage1,
        shuffled1,
        shuffled2,
        asked.quant_type in _BLOCKS,
        limit(asked),
        asked.dtype or asked.hidden_states.dtype,
    )


def _codes(asked: MoeCall, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise the tokens to 8 bits, with scales.

    ``transposed``: a block's scales of all tokens one behind the other.
    """
    x, scale, kind = asked.hidden_states, asked.a1_scale, asked.w1.dtype
    tokens, width = x.shape
    blocks = asked.quant_type in _BLOCKS
    if blocks and width % _BLOCK:
        raise ValueError(f"{NAME}: hidden_states has {width} columns, which is not a multiple of {_BLOCK}")
    if x.dtype == kind:
        assert scale is not None  # refused before
        return x, _transposed(scale.reshape(tokens, -1), asked.num_local_tokens) if transposed else scale
    if scale is not None:
        if blocks or prod(scale.shape) != 1:
            raise refuse(
                NAME, "a1_scale", scale, "None or, but for blocks, one number, with hidden_states in 16 bits"
            )
        if kind == element_type(x, "i8"):
            raise refuse(NAME, "a1_scale", scale, "None, with weights in int8 and hidden_states in 16 bits")
        codes = x.new_empty((tokens, width), dtype=kind)
        static_per_tensor_quant(codes, x, scale)
        return codes, scale
    whole = _one_scale(asked)
    codes, scales = _made_codes(x, kind, blocks, whole)
    if whole:
        dynamic_per_tensor_quant(codes, x, scales)
    elif blocks:
        quantise_groups(codes, x, scales, _BLOCK, transposed, asked.num_local_tokens, 1)
    else:
        dynamic_per_token_scaled_quant(codes, x, scales, None, transposed, asked.num_local_tokens)
    return codes, scales


def _new_codes(
    x: torch.Tensor, kind: torch.dtype, blocks: bool, whole: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, width = x.shape
    shape = (1,) if whole else (tokens, width // _BLOCK if blocks else 1)
    scales = x.new_empty(shape, dtype=element_type(x, "f32"))
    return x.new_empty((tokens, width), dtype=kind), scales


_made_codes = outputs(_new_codes)


def _transposed(scale: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    """Transpose the scales of blocks for the assembly.

    Those of each block lie one behind the other, of all tokens, or of the valid ones.
    """
    if rows is None:
        return scale.t().contiguous()
    made = scale.new_empty(scale.shape)
    partial_transpose(made, scale, rows)
    return made


def _assembly(asked: MoeCall, active: int) -> bool:
    """Tell whether AITER's assembly serves the call without measured rows.

    Its objects must fit: SiLU, for more than some tokens. Of GELU these have the tanh form, where fewer tokens would get the erf
    form.
    """
    tokens = asked.topk_ids.shape[0] // asked.copies
    if tokens <= 16 or active != 0 or not (shuffled(asked.w1) and shuffled(asked.w2)):
        return False
    if asked.quant_type in _BLOCKS:
        _, width, columns = asked.w2.shape
        fits = columns % 256 == 0 and width % 512 == 0 and not asked.doweight_stage1
        return fits and tokens > 32 and _plain(asked)
    if asked.quant_type != 2 or not _rows_fit(asked):
        return False
    if asked.w1.dtype == element_type(asked.w1, "i8"):
        return tokens > 32 and not asked.doweight_stage1 and _fnuz(asked.w1)
    if _fnuz(asked.w1):
        return not asked.doweight_stage1
    return asked.doweight_stage1 or _few_rows(asked)


def _few_rows(asked: MoeCall) -> bool:
    """Tell whether one launch is faster than two on gfx950, by AITER's measured rows (``tuned_fmoe``, 256 compute units).

    A workgroup takes 32 rows of an expert and reads its weights again for the next 32. Large weights win only while experts have
    about that many rows, small ones always.
    """
    columns: int = asked.w2.shape[2]
    return columns <= 512 or prod(asked.topk_ids.shape) <= _ROWS * _experts(asked)


def _experts(asked: MoeCall) -> int:
    """Count the experts of all devices."""
    experts: int = asked.w1.shape[0] if asked.expert_mask is None else asked.expert_mask.shape[0]
    return experts


def _plain(asked: MoeCall) -> bool:
    """Tell whether the assembly supports all options of the call.

    It has bf16, no limit, no bias, no static scale, and sizes that it can count.
    """
    experts, width, columns = asked.w2.shape
    bf16 = (asked.dtype or asked.hidden_states.dtype) == element_type(asked.w1, "bf16")
    more = asked.bias1, asked.bias2, asked.a2_scale
    counted = asked.topk_ids.shape[0] * width < _MOST // 2 and 2 * experts * columns * width < _MOST
    return bf16 and not limit(asked) and all(each is None for each in more) and counted


def _rows_fit(asked: MoeCall) -> bool:
    """Tell whether an object fits rows with scales of their own."""
    _, width, columns = asked.w2.shape
    rows = asked.w1.shape[0] * asked.w1.shape[1]
    if prod(_shape(asked.w1_scale)) != rows or prod(_shape(asked.a1_scale)) == 1:
        return False
    tile = any(columns % size == 0 for size in (128, 192, 320, 448))
    # The object for 192 columns writes what padding gives into the first row that is not there.
    if columns % 192 == 0 and asked.num_local_tokens is not None and not asked.doweight_stage1:
        return False
    return tile and width % 256 == 0 and width >= 512 and _plain(asked)


def _shape(scale: torch.Tensor | None) -> tuple[int, ...]:
    return (0,) if scale is None else tuple(scale.shape)


def _fnuz(weight: torch.Tensor) -> bool:
    """Tell whether the GPU is of gfx942.

    fp8 says it itself, so that a trace does not ask a driver.
    """
    known = element_type(weight, "i8") != weight.dtype
    return bool((weight.dtype if known else fp8_of(weight)) == element_type(weight, "e4m3fnuz"))


def _assembled(asked: MoeCall, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """AITER's assembly, over sorted tokens: both products in one launch, which adds a token's choices in any order."""
    assert asked.w1_scale is not None and asked.w2_scale is not None  # refused before
    ids, weights, of_blocks, valid, out = moe_sorting(
        asked.topk_ids, asked.topk_weight, _experts(asked), asked.w2.shape[1], element_type(asked.w1, "bf16"), _ROWS,
        asked.expert_mask, asked.num_local_tokens,
    )  # fmt: skip
    own = fmoe_g1u1_tkw1 if asked.doweight_stage1 else fmoe_g1u1
    run: Any = fmoe_fp8_blockscale_g1u1 if asked.quant_type in _BLOCKS else own
    run(
        out, codes, asked.w1, asked.w2, ids, weights, of_blocks, valid, asked.topk_ids.shape[1], scales, asked.w1_scale,
        asked.w2_scale, "",
    )  # fmt: skip
    return out
