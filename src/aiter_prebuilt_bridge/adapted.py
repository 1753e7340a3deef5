"""Functions of ours as AITER's are called, where no table of words is enough: a result that is returned and not written, a list
that has to be made, other types of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiter_prebuilt.errors import UnsupportedError
from aiter_prebuilt_bridge.adapted_attention import flash_attn_func as flash_attn_func
from aiter_prebuilt_bridge.adapted_attention import paged_attention_common as paged_attention_common
from aiter_prebuilt_bridge.adapted_experts import (
    fused_dynamic_mxfp4_quant_moe_sort as fused_dynamic_mxfp4_quant_moe_sort,
)
from aiter_prebuilt_bridge.adapted_experts import moe_mxfp4_sort as moe_mxfp4_sort

if TYPE_CHECKING:
    import torch

#: What their names begin with in ``signature_map``.
PREFIX: Final = "adapted."
_HANDLE: Final = 64
#: MXFP4: columns of a scale, and rows and columns that scales are padded to a multiple of.
_GROUP, _ROWS, _COLUMNS = 32, 256, 8
#: ``get_padded_m``: up to so many rows, and what their number is rounded up to.
_PADDED_STEPS: Final = ((256, 16), (1024, 32), (4096, 64))
_LARGEST_STEP: Final = 128
#: ``round_mode`` of ``quant_mxfp4``: scales of AITER's Triton kernels, codes to nearest even.
_TO_EVEN: Final = 2


def get_padded_m(M: int, N: int, K: int, gl: int) -> int:  # noqa: N803  # AITER's names
    """Return the rows that AITER's tables of tuned products round ``M`` up to.

    Args:
        M: rows of the product.
        N: columns of the product.
        K: does not count.
        gl: 0: a multiple of 16 to 128, larger for more rows; 1: a power of two; another number: ``M`` itself.
    """
    del K
    if gl == 0:
        step = next((step for most, step in _PADDED_STEPS if most >= M), _LARGEST_STEP)
        return -(-M // step) * step
    if gl == 1:
        return 8192 if M > 8192 and N > 4096 else 1 << max(M - 1, 0).bit_length()
    return M


def qr_get_handle(fa: int) -> torch.Tensor:
    """Return the handle of this rank's memory.

    64 bytes of the host.
    """
    import torch

    from aiter_prebuilt import qr_get_handle as ours

    made = torch.empty(_HANDLE, dtype=torch.uint8)
    ours(fa, made.data_ptr())
    return made


def qr_open_handles(fa: int, handles: Sequence[torch.Tensor]) -> None:
    """Map the memory of all ranks, whose handles lie in the host's memory."""
    from aiter_prebuilt import qr_open_handles as ours

    kept = [each.contiguous() for each in handles]
    ours(fa, [each.data_ptr() for each in kept])


def get_mla_metadata_v1(
    seqlens_qo_indptr: torch.Tensor,
    seqlens_kv_indptr: torch.Tensor,
    num_heads_per_head_k: int,
    num_heads_k: int,
    is_causal: bool,
    work_metadata_ptrs: torch.Tensor,
    work_indptr: torch.Tensor,
    work_info: torch.Tensor,
    reduce_indptr: torch.Tensor,
    reduce_final_map: torch.Tensor,
    reduce_partial_map: torch.Tensor,
    kv_granularity: int = 16,
    max_seqlen_qo: int = -1,
    uni_seqlen_qo: int = -1,
    fast_mode: bool = True,
    topk: int = -1,
    max_split_per_batch: int = -1,
) -> None:
    """Write the work lists for pages of one key.

    Each last page has one key.
    """
    import torch

    from aiter_prebuilt import get_mla_metadata_v1 as ours

    last = torch.ones(seqlens_kv_indptr.shape[0] - 1, dtype=torch.int32, device=seqlens_kv_indptr.device)
    ours(
        seqlens_qo_indptr, seqlens_kv_indptr, last, num_heads_per_head_k, num_heads_k, is_causal, work_metadata_ptrs, work_info,
        work_indptr, reduce_indptr, reduce_final_map, reduce_partial_map, 1, kv_granularity, max_seqlen_qo, uni_seqlen_qo,
        fast_mode, topk, max_split_per_batch,
    )  # fmt: skip


def dynamic_mxfp4_quant_padded(
    x: torch.Tensor, scaling_mode: str = "even", shuffle: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise as ``fp4_utils`` of November 2025 did.

    It gives torch's types, and room behind the scales, shuffled or not.
    """
    import torch

    from aiter_prebuilt import dynamic_mxfp4_quant as ours

    codes, scales = ours(x, scaling_mode, shuffle)
    if not shuffle:
        rows, groups = scales.shape
        padded = torch.empty(_padded(rows, groups), dtype=torch.uint8, device=x.device)
        padded[:rows, :groups] = scales
        scales = padded
    return codes.view(torch.float4_e2m1fn_x2), scales.view(torch.float8_e8m0fnu)


def dynamic_mxfp4_quant_to_even(
    x: torch.Tensor, scaling_mode: str = "even", shuffle: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """``dynamic_mxfp4_quant`` whose codes are rounded to the even one halfway, as bytes."""
    import torch

    from aiter_prebuilt import quant_mxfp4

    rows, columns = x.shape
    if scaling_mode != "even" or columns % _GROUP:
        raise UnsupportedError(
            f"dynamic_mxfp4_quant(x of {columns} columns, scaling_mode={scaling_mode!r})",
            'ours takes a multiple of 32 columns, and "even"',
            "Leave it to AITER's own function",
        )
    groups = columns // _GROUP
    codes = torch.empty((rows, columns // 2), dtype=torch.uint8, device=x.device)
    shape = _padded(rows, groups) if shuffle else (rows, groups)
    scales = torch.empty(shape, dtype=torch.uint8, device=x.device)
    quant_mxfp4(x.contiguous(), codes, scales, _GROUP, _TO_EVEN, shuffle)
    return codes, scales


def dynamic_mxfp4_quant_typed(
    x: torch.Tensor, scaling_mode: str = "even", shuffle: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise as ``fp4_utils`` of August 2026 does.

    It gives torch's types, shuffled or not.
    """
    import torch

    codes, scales = dynamic_mxfp4_quant_to_even(x, scaling_mode, shuffle)
    return codes.view(torch.float4_e2m1fn_x2), scales.view(torch.float8_e8m0fnu)


def get_triton_quant_padded(qType: Any) -> Callable[..., Any]:  # noqa: N803  # AITER's name
    """``get_triton_quant`` of November 2025."""
    return _triton_quant(qType, dynamic_mxfp4_quant_padded)


def get_triton_quant_to_even(qType: Any) -> Callable[..., Any]:  # noqa: N803  # AITER's name
    """``get_triton_quant`` of August 2026."""
    return _triton_quant(qType, dynamic_mxfp4_quant_typed)


def _triton_quant(kind: Any, mxfp4: Callable[..., Any]) -> Callable[..., Any]:
    from aiter_prebuilt import QuantType, get_triton_quant
    from aiter_prebuilt.ops._common import number

    if number(kind) != QuantType.per_1x32:
        found: Callable[..., Any] = get_triton_quant(kind)
        return found

    def per_1x32_f4_quant_triton(
        x: torch.Tensor,
        scale: torch.Tensor | None = None,
        quant_dtype: torch.dtype | None = None,
        shuffle: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        if scale is not None or quant_dtype not in (None, torch.float4_e2m1fn_x2):
            raise UnsupportedError(
                f"get_triton_quant(QuantType.per_1x32)(scale={scale}, quant_dtype={quant_dtype})",
                "ours makes the scales, and pairs of fp4",
                "Leave out both",
            )
        codes, scales = mxfp4(x, shuffle=shuffle)
        return codes, scales

    return per_1x32_f4_quant_triton


def _padded(rows: int, groups: int) -> tuple[int, int]:
    return -(-rows // _ROWS) * _ROWS, -(-groups // _COLUMNS) * _COLUMNS


def rope_cached_thd_positions_offsets_2c_fwd_inplace(
    x: torch.Tensor,
    y: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    offsets: torch.Tensor | None,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens of one batch behind each other, of which each has its place, and more where ``offsets`` are given."""
    from aiter_prebuilt import (
        rope_cached_positions_2c_fwd_inplace,
        rope_cached_positions_offsets_2c_fwd_inplace,
    )

    batches = x.unsqueeze(1), y.unsqueeze(1)
    tables = _table(cos), _table(sin)
    places = positions.unsqueeze(1)
    if offsets is None:
        rope_cached_positions_2c_fwd_inplace(
            *batches, *tables, places, rotate_style, reuse_freqs_front_part, nope_first
        )
    else:
        more = offsets.unsqueeze(1)
        rope_cached_positions_offsets_2c_fwd_inplace(
            *batches, *tables, places, more, rotate_style, reuse_freqs_front_part, nope_first
        )
    return x, y


def rope_cached_positions_back(
    x: torch.Tensor,
    out: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    offsets: torch.Tensor | None,
    rotate_style: int,
    reuse_freqs_front_part: bool,
    nope_first: bool,
    inplace: bool,
) -> torch.Tensor:
    """Undo a rotation whose pairs have one angle each: turn by the opposite angles.

    Args:
        x: [S, B, H, D], the gradient of what was turned.
        out: written, of the shape of x; x itself where inplace is true.
        cos: [positions, 1, 1, D / 2], a cosine for each pair.
        sin: as cos.
        positions: [S, B].
        offsets: None.
        rotate_style: 0: pairs are element i and i + D / 2; 1: neighbours.
        reuse_freqs_front_part: true.
        nope_first: whether elements that are not turned stand first.
        inplace: whether out is x.

    Returns:
        out.

    Raises:
        UnsupportedError: no positions, offsets, or an angle for each element.
    """
    from aiter_prebuilt import rope_cached_positions_fwd_impl, rope_cached_positions_fwd_inplace

    if positions is None or offsets is not None or not reuse_freqs_front_part:
        raise UnsupportedError(
            "_rope_cached_bwd",
            "ours needs positions, no offsets, and reuse_freqs_front_part=True",
            "Leave it to AITER's own function",
        )
    tables = _table(cos), _table(-sin)
    if inplace:
        rope_cached_positions_fwd_inplace(
            out, *tables, positions, rotate_style, reuse_freqs_front_part, nope_first
        )
    else:
        rope_cached_positions_fwd_impl(
            out, x, *tables, positions, rotate_style, reuse_freqs_front_part, nope_first
        )
    return out


def _table(each: torch.Tensor) -> torch.Tensor:
    return each if each.dim() == 4 else each[:, None, None]


def fused_flatten_fp8_group_quant(
    x: torch.Tensor, group_size: int, dtype_quant: torch.dtype | None = None, transpose_scale: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flatten the last two dims and quantise groups to fp8.

    Scales that are transposed are a view of that memory.
    """
    from aiter_prebuilt import per_group_quant_hip as ours

    rows, _, columns = x.shape
    if columns % group_size:
        raise UnsupportedError(
            f"fused_flatten_fp8_group_quant(x of {columns} columns, group_size={group_size})",
            "a group of ours does not end with a row of the last dim",
            "Leave it to AITER's own function",
        )
    codes, scales = ours(x.flatten(1), None, dtype_quant, group_size, transpose_scale)
    return codes, scales.view(-1, rows).T if transpose_scale else scales


def fused_flatten_mxfp4_quant(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Flatten the last two dims and quantise to MXFP4.

    Codes round away from zero halfway; scales lie by columns.
    """
    from aiter_prebuilt import dynamic_mxfp4_quant as ours

    return _flattened(x, ours)


def fused_flatten_mxfp4_quant_to_even(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Flatten the last two dims and quantise to even MXFP4.

    Codes round to the even one halfway; scales lie by columns.
    """
    return _flattened(x, dynamic_mxfp4_quant_to_even)


def _flattened(x: torch.Tensor, mxfp4: Callable[..., Any]) -> tuple[torch.Tensor, torch.Tensor]:
    columns = x.shape[2]
    if columns < _GROUP or columns & (columns - 1):
        # AITER writes others at places that overlap.
        raise UnsupportedError(
            f"fused_flatten_mxfp4_quant(x of {columns} columns)", "it is no power of two from 32 on", "Pad it"
        )
    codes, scales = mxfp4(x.flatten(1))
    return codes, scales.T.contiguous().T


def gemm_a8w8_blockscale_preshuffle(
    x: torch.Tensor,
    w: torch.Tensor,
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    dtype: torch.dtype | None = None,
    y: torch.Tensor | None = None,
    config: object | None = None,
    skip_reduce: bool | None = False,
    is_x_scale_tranposed: bool | None = True,
    kernel_type: str = "bandwidth_bound",
    backend: str | None = None,
) -> torch.Tensor:
    """Triton's product with a shuffled weight, whose 16 rows lie in one: [N / 16, 16 K].

    Scales of ``x`` are [K / 128, M] in memory, or as their strides say.
    """
    from aiter_prebuilt import gemm_a8w8_blockscale_bpreshuffle as ours

    del config, kernel_type, backend
    if skip_reduce or w.shape[1] % 16 or (is_x_scale_tranposed and not x_scale.is_contiguous()):
        raise UnsupportedError(
            f"gemm_a8w8_blockscale_preshuffle(w of {w.shape[1]} columns, skip_reduce={skip_reduce})",
            "ours takes a weight of 16 rows in one, contiguous scales, and adds up all parts",
            "Leave it to AITER's own function",
        )
    scale = x_scale if is_x_scale_tranposed else x_scale.T.contiguous().T
    weight = w.view(x.dtype).view(w.shape[0] * 16, w.shape[1] // 16)
    return ours(x, weight, scale, w_scale, dtype, y)


def gemm_a8w8_blockscale_ck(
    XQ: torch.Tensor,  # noqa: N803  # AITER's names
    WQ: torch.Tensor,  # noqa: N803
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    Out: torch.Tensor,  # noqa: N803
    splitK: int = 0,  # noqa: N803
    kernelName: str = "",  # noqa: N803
) -> torch.Tensor:
    """``gemm_a8w8_blockscale`` into a tensor; which instance of Composable Kernel, and in how many parts, is ours to say."""
    from aiter_prebuilt import gemm_a8w8_blockscale as ours

    del splitK, kernelName
    return ours(XQ, WQ, x_scale, w_scale, Out.dtype, y=Out)


def gemm_a8w8_blockscale_cktile(
    XQ: torch.Tensor,  # noqa: N803
    WQ: torch.Tensor,  # noqa: N803
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    Out: torch.Tensor,  # noqa: N803
    isBpreshuffled: bool = False,  # noqa: N803
    splitK: int = 0,  # noqa: N803
    kernelName: str = "",  # noqa: N803
) -> torch.Tensor:
    """``gemm_a8w8_blockscale`` into a tensor, of a weight that is not shuffled."""
    if isBpreshuffled:
        raise UnsupportedError(
            "gemm_a8w8_blockscale_cktile(isBpreshuffled=True)",
            "ours takes the weight as it is",
            "Leave it to AITER's own function, or call gemm_a8w8_blockscale_bpreshuffle",
        )
    return gemm_a8w8_blockscale_ck(XQ, WQ, x_scale, w_scale, Out, splitK, kernelName)


def gemm_a8w8_blockscale_bpreshuffle_ck(
    XQ: torch.Tensor,  # noqa: N803
    WQ: torch.Tensor,  # noqa: N803
    x_scale: torch.Tensor,
    w_scale: torch.Tensor,
    Out: torch.Tensor,  # noqa: N803
    kernelName: str = "",  # noqa: N803
) -> torch.Tensor:
    """``gemm_a8w8_blockscale_bpreshuffle`` into a tensor."""
    from aiter_prebuilt import gemm_a8w8_blockscale_bpreshuffle as ours

    del kernelName
    return ours(XQ, WQ, x_scale, w_scale, Out.dtype, Out)


def gemm_a8w8_blockscale_bpreshuffle_asm(
    A: torch.Tensor,  # noqa: N803
    B: torch.Tensor,  # noqa: N803
    out: torch.Tensor,
    A_scale: torch.Tensor,  # noqa: N803
    B_scale: torch.Tensor,  # noqa: N803
    bias: torch.Tensor | None = None,
    splitK: int | None = None,  # noqa: N803
    kernelName: str | None = None,  # noqa: N803
    bpreshuffle: bool | None = True,
    zero_bias_buf: torch.Tensor | None = None,
) -> torch.Tensor:
    """``gemm_a8w8_blockscale_bpreshuffle`` into a tensor, without a bias."""
    from aiter_prebuilt import gemm_a8w8_blockscale_bpreshuffle as ours

    del splitK, kernelName, zero_bias_buf
    if bias is not None or bpreshuffle not in (True, None):
        raise UnsupportedError(
            f"gemm_a8w8_blockscale_bpreshuffle_asm(bias={'given' if bias is not None else None}, bpreshuffle={bpreshuffle})",
            "ours has no bias, and takes a shuffled weight",
            "Leave it to AITER's own function",
        )
    return ours(A, B, A_scale, B_scale, out.dtype, out)
