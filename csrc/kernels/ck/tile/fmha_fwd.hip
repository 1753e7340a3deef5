// softmax(q @ k^T * scale) @ v of each head, and the logarithm of its sum, by ck_tile's FmhaFwdKernel.
// The kernel of a batch serves sequences that lie one behind the other, too: their starts are added here, as ck_tile adds
// them in its group mode, and what is behind the end of one is skipped. So one code object is of both functions of AITER.
#include "fmha_fwd.hpp"

namespace tile {

// Four waves, one below the other, 32 rows each; V lies row by row. ASYNC: keys go from memory straight to LDS.
using Shape   = ck_tile::TileFmhaShape<S<M0, N0, K0, HEADV, K1, HEAD>, S<4, 1, 1>, S<32, 32, 16>, S<4, 1, 1>,
                                       S<32, 32, 16>, true>;
using Traits  = ck_tile::TileFmhaTraits<true, true, bool(ASYNC), bool(ASYNC), false,
                                        ck_tile::BlockAttentionBiasEnum::NO_BIAS, false, true, false, false>;
using Mask    = ck_tile::SimplifiedGenericAttentionMask<bool(MASK)>;
using Variant = ck_tile::ComposedAttention<0, CK_TILE_FMHA_FWD_FAST_EXP2>;
using Problem = ck_tile::BlockFmhaPipelineProblem<T, T, T, float, float, T, uint8_t, float, T, float, T, Shape, false,
                                                  Variant, Mask, false, Traits>;
using Pipeline = std::conditional_t<bool(ASYNC), ck_tile::BlockFmhaPipelineQRKSVSAsync<Problem>,
                                    ck_tile::BlockFmhaPipelineQRKSVS<Problem>>;
using Epilogue = ck_tile::Default2DEpilogue<ck_tile::Default2DEpilogueProblem<float, T, true, bool(ASYNC)>>;
using Kernel   = ck_tile::FmhaFwdKernel<Pipeline, Epilogue>;

// The manifest's when: any lengths, heads of exactly these sizes, 16 bytes at once; its grid: a tile has all of a head.
static_assert(Kernel::kPadSeqLenQ && Kernel::kPadSeqLenK && Kernel::kBlockSize == BLOCK);
static_assert(Pipeline::kM0 == M0 && Pipeline::kN0 == N0 && Pipeline::kN1 == HEADV);
static_assert(Pipeline::kAlignmentQ <= 8 && Pipeline::kAlignmentK <= 8);
static_assert(Pipeline::kAlignmentV <= 8 && Pipeline::kAlignmentO <= 8);

} // namespace tile

extern "C" __global__ __launch_bounds__(BLOCK, tile::Kernel::kBlockPerCu) void
ck_tile_fmha_fwd(const tile::T* q, const tile::T* k, const tile::T* v, tile::T* out, float* lse, const int* q_lengths,
                 const int* k_lengths, const int* q_starts, const int* k_starts, float scale, int packed, int queries,
                 int keys, int group, int least, [[maybe_unused]] int left, [[maybe_unused]] int right,
                 tile::Strides q_strides, tile::Strides k_strides, tile::Strides v_strides, tile::Strides out_strides,
                 tile::Strides lse_strides)
{
    const int sequence = blockIdx.z;
    const tile::Span asking(sequence, queries, q_lengths, q_starts, packed);
    const tile::Span asked(sequence, keys, k_lengths, k_starts, packed);
    // ck_tile takes the tiles of a masked call from the last to the first.
    const int tile_row = MASK ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    if(asking.length <= tile_row * M0 || asking.length <= least)
        return;

    tile::Kernel::Kargs args{};
    args.q_ptr            = q + q_strides.at(sequence, asking.first);
    args.k_ptr            = k + k_strides.at(sequence, asked.first);
    args.v_ptr            = v + v_strides.at(sequence, asked.first);
    args.o_ptr            = out + out_strides.at(sequence, asking.first);
    args.lse_ptr          = lse + lse_strides.at(sequence, asking.first);
    args.seqlen_q         = asking.length;
    args.seqlen_k         = asked.length;
    args.hdim_q           = HEAD;
    args.hdim_v           = HEADV;
    args.nhead_ratio_qk   = group;
    args.scale_s          = scale;
    args.stride_q         = q_strides.row;
    args.stride_k         = k_strides.row;
    args.stride_v         = v_strides.row;
    args.stride_o         = out_strides.row;
    args.nhead_stride_q   = q_strides.head;
    args.nhead_stride_k   = k_strides.head;
    args.nhead_stride_v   = v_strides.head;
    args.nhead_stride_o   = out_strides.head;
    args.nhead_stride_lse = lse_strides.head;
#if MASK
    args.window_size_left  = left;
    args.window_size_right = right;
    args.mask_type         = ck_tile::GenericAttentionMaskEnum::MASK_FROM_BOTTOM_RIGHT;
#endif
    tile::Kernel{}(args);
}
