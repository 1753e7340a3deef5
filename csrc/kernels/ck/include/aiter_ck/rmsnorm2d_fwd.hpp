// rmsnorm2d_fwd: ck_tile's kernel and its one-pass or two-pass pipeline, with an epilogue of our own.
#pragma once

#include "aiter_ck/config.hpp"
#include "ck_tile/ops/rmsnorm2d/kernel/rmsnorm2d_fwd_kernel.hpp"
#include "ck_tile/ops/rmsnorm2d/pipeline/rmsnorm2d_fwd_pipeline_one_pass.hpp"
#include "ck_tile/ops/rmsnorm2d/pipeline/rmsnorm2d_fwd_pipeline_problem.hpp"
#include "ck_tile/ops/rmsnorm2d/pipeline/rmsnorm2d_fwd_pipeline_two_pass.hpp"

namespace aiter_ck {

// What ck_tile is told that the output is made of. Its buffer store writes eight halves at once (16 bytes),
// eight bf16 in two stores; the epilogue hands over the bits, so any 16-bit type may pass as half.
using Carrier = ck_tile::fp16_t;

template <typename Element>
CK_TILE_DEVICE Carrier round_to(float v)
{
    if constexpr(std::is_same_v<Element, ck_tile::bf16_t>)
        return __builtin_bit_cast(Carrier, static_cast<__bf16>(v)); // one instruction on gfx950
    else
        return static_cast<Carrier>(v);
}

// fp32 tile -> output bits -> memory. ck_tile's Default2DEpilogue would pull in the matrix-core headers.
template <typename Element>
struct RowEpilogue
{
    // the last argument: LDS, which other epilogues need
    template <typename OutWindow, typename Tile>
    CK_TILE_DEVICE void operator()(OutWindow& out_window, const Tile& tile, std::nullptr_t) const
    {
        auto out = ck_tile::make_static_distributed_tensor<Carrier>(tile.get_tile_distribution());
        ck_tile::static_for<0, Tile::get_thread_buffer_size(), 1>{}(
            [&](auto i) { out.get_thread_buffer()(i) = round_to<Element>(tile.get_thread_buffer()[i]); });
        ck_tile::store_tile(out_window, out);
    }
};

template <typename Element, typename Shape, bool Pad, bool TwoPass>
struct Rmsnorm2dFwdTypes
{
    using None    = ck_tile::null_type;
    using Traits  = ck_tile::Rmsnorm2dFwdTraits<Pad,
                                               false, // inverse rms not stored
                                               false, // no unquantised copy
                                               TwoPass,
                                               ck_tile::Rmsnorm2dFusedAddEnum::NO_ADD,
                                               ck_tile::Rmsnorm2dFusedQuantEnum::NO_SWEEP,
                                               ck_tile::Rmsnorm2dSensitiveEnum::NO_SPECIFIC_MODEL>;
    using Problem = ck_tile::
        Rmsnorm2dFwdPipelineProblem<Element, Element, float, Carrier, None, None, None, None, Shape, Traits>;
    using Pipeline = std::conditional_t<TwoPass,
                                        ck_tile::Rmsnorm2dFwdPipelineTwoPass<Problem>,
                                        ck_tile::Rmsnorm2dFwdPipelineOnePass<Problem>>;
    using Kernel   = ck_tile::Rmsnorm2dFwd<Pipeline, RowEpilogue<Element>>;
};

template <typename Element, typename Shape, bool Pad, bool TwoPass>
using Rmsnorm2dFwd = typename Rmsnorm2dFwdTypes<Element, Shape, Pad, TwoPass>::Kernel;

} // namespace aiter_ck
