// What every generated instance includes first: the ck_tile switches whose defaults are wrong here.
#pragma once

// ck_tile's own default truncates float -> bf16; all kernels of this project round to nearest even.
#define CK_TILE_FLOAT_TO_BFLOAT16_DEFAULT 0
// Padded lanes get a byte offset of 2^31 and more, so the buffer unit drops the read. With ck_tile's
// default they read the next row and discard it. Needs tensors that span less than 2^31 bytes: the
// predicates say so.
#define CK_TILE_EXPERIMENTAL_USE_BUFFER_LOAD_OOB_CHECK_OFFSET_TRICK 1

#include "ck_tile/core.hpp"
#include "ck_tile/ops/common/generic_2d_block_shape.hpp"

// Element types under the manifest's names. A compile sets T (and Q) as macros, so an instance says types::T;
// hence no template parameter here is named so. Each target has its own fp8 only: the other one does not compile.
namespace aiter_ck::types {

using bf16 = ck_tile::bf16_t;
using f16  = ck_tile::fp16_t;
using i8   = ck_tile::int8_t;
#if defined(__gfx950__)
using e4m3fn = ck_tile::fp8_t;
#elif defined(__gfx942__)
using e4m3fnuz = ck_tile::fp8_t;
#endif

} // namespace aiter_ck::types

namespace aiter_ck {

// One workgroup: BlockM rows by BlockN columns, WarpsM x WarpsN waves of 64 lanes, a lane is VectorN
// columns wide. A lane never holds two rows (the pipelines count on it), so BlockM == WarpsM.
template <int BlockM, int BlockN, int WarpsM, int WarpsN, int VectorN>
struct RowShape : ck_tile::Generic2dBlockShape<ck_tile::sequence<BlockM, BlockN>,
                                               ck_tile::sequence<WarpsM, 64 * WarpsN>, // lanes
                                               ck_tile::sequence<1, VectorN>>
{
    static_assert(BlockM == WarpsM, "one row per lane");
    static_assert(RowShape::WarpPerBlock_M == WarpsM && RowShape::WarpPerBlock_N == WarpsN);
};

} // namespace aiter_ck
