// What fmha_fwd.hip instantiates: read once, before any macro of an instance is set.
#pragma once

// Exponentials are powers of 2, as AITER builds these kernels: the scale that they are given has log2(e) in it.
#define CK_TILE_FMHA_FWD_FAST_EXP2 1

#include "ck_tile/core.hpp"
#include "ck_tile/ops/epilogue/default_2d_epilogue.hpp"
#include "ck_tile/ops/fmha/block/block_dropout.hpp"
#include "ck_tile/ops/fmha/block/block_masking.hpp"
#include "ck_tile/ops/fmha/block/block_position_encoding.hpp"
#include "ck_tile/ops/fmha/kernel/fmha_fwd_kernel.hpp"
#include "ck_tile/ops/fmha/pipeline/block_fmha_pipeline_problem.hpp"
#include "ck_tile/ops/fmha/pipeline/block_fmha_pipeline_qr_ks_vs.hpp"
#include "ck_tile/ops/fmha/pipeline/block_fmha_pipeline_qr_ks_vs_async.hpp"
#include "ck_tile/ops/fmha/pipeline/tile_fmha_shape.hpp"
#include "ck_tile/ops/fmha/pipeline/tile_fmha_traits.hpp"

namespace tile {

// Element types under the manifests' names, which a compile sets as macros.
using bf16 = ck_tile::bf16_t;
using f16  = ck_tile::fp16_t;

template <int... Is>
using S = ck_tile::sequence<Is...>;

// How far apart a tensor's sequences, heads and rows are.
struct Strides
{
    int64_t batch;
    int head, row;

    __device__ int64_t at(int sequence, int64_t first) const { return sequence * batch + first * row; }
};

// The first row of a sequence, and how many it has. Of a batch all begin at 0 of their own, and have `all` or what cumulative
// lengths say; packed ones lie one behind the other, each behind the length of those before, or where `starts` says.
struct Span
{
    int64_t first;
    int length;

    __device__ Span(int sequence, int all, const int* lengths, const int* starts, bool packed)
        : first(starts ? starts[sequence] : packed ? lengths[sequence] : 0),
          length(lengths ? lengths[sequence + 1] - lengths[sequence] : all)
    {
    }
};

} // namespace tile
