// A pipeline for ck_tile::Smoothquant with the numbers this project promises. It stands in for
// SmoothquantPipelineOnePass and SmoothquantPipelineTwoPass, because in the ck_tile release at hand
//   - float -> int8 truncates; here it rounds to nearest even,
//   - the two-pass pipeline moves its one-dimensional scale window by a two-dimensional step: a write past
//     the end of the index, whose outcome is the compiler's whim,
//   - each element is divided by the row scale (ten and more instructions on CDNA); here a division costs
//     three, with the same result,
//   - a row of zeros divides 0 by 0.
#pragma once

#include "aiter_ck/config.hpp"
#include "ck_tile/ops/smoothquant/kernel/smoothquant_kernel.hpp"
#include "ck_tile/ops/smoothquant/pipeline/smoothquant_pipeline_default_policy.hpp"
#include "ck_tile/ops/smoothquant/pipeline/smoothquant_pipeline_problem.hpp"

namespace aiter_ck {

// The divisor of one row, prepared once. divide(y) is y / scale rounded to nearest: an estimate by the
// rounded reciprocal and one residual step by fma (Markstein). For scales next to 2^-126, where the
// residual is subnormal, it may be one unit in the last place off.
struct RowDivisor
{
    float scale;
    float inverse;

    CK_TILE_DEVICE explicit RowDivisor(float row_scale) : scale(row_scale), inverse(1.0f / row_scale) {}

    CK_TILE_DEVICE float divide(float y) const
    {
        const float quotient = y * inverse;
        const float residual = __builtin_fmaf(-quotient, scale, y);
        return __builtin_fmaf(residual, inverse, quotient);
    }
};

// Four quantised values in one register, the first in the low byte.
template <typename Code>
struct Quantiser;

template <>
struct Quantiser<ck_tile::int8_t>
{
    static constexpr float limit = 127.0f;

    // 1.5 * 2^23: the sum's low byte is the integer nearest to v, ties to even, in two's complement.
    CK_TILE_DEVICE static uint32_t low_byte(float v)
    {
        return __builtin_bit_cast(uint32_t, __builtin_amdgcn_fmed3f(v, -limit, limit) + 0x1.8p+23f);
    }

    CK_TILE_DEVICE static uint32_t pack(float a, float b, float c, float d)
    {
        // v_perm_b32 selects: 0 is byte 0 of the second operand, 4 that of the first, 0x0c a zero byte
        const uint32_t low  = __builtin_amdgcn_perm(low_byte(b), low_byte(a), 0x0c0c0400u);
        const uint32_t high = __builtin_amdgcn_perm(low_byte(d), low_byte(c), 0x04000c0cu);
        return low | high;
    }
};

template <>
struct Quantiser<ck_tile::fp8_t>
{
#if defined(__gfx950__)
    static constexpr float limit = 448.0f; // OCP e4m3fn
#else
    static constexpr float limit = 240.0f; // e4m3fnuz
#endif

    CK_TILE_DEVICE static float clamp(float v) { return __builtin_amdgcn_fmed3f(v, -limit, limit); }

    CK_TILE_DEVICE static uint32_t pack(float a, float b, float c, float d)
    {
        int word = __builtin_amdgcn_cvt_pk_fp8_f32(clamp(a), clamp(b), 0, false);
        word     = __builtin_amdgcn_cvt_pk_fp8_f32(clamp(c), clamp(d), word, true);
        return static_cast<uint32_t>(word);
    }
};

// out = round(x * smooth / scale), scale = max|x * smooth| / limit, one scale per row. A row of zeros gets
// scale 1; no scale is below 2^-126, whose reciprocal is still finite.
template <typename Problem_, typename Policy_ = ck_tile::SmoothquantPipelineDefaultPolicy>
struct SmoothquantPipeline
{
    using Problem    = Problem_;
    using Policy     = Policy_;
    using QYDataType = typename Problem::QYDataType;
    using Quant      = Quantiser<QYDataType>;
    using index_t    = ck_tile::index_t;

    static constexpr index_t Block_N  = Problem::BlockShape::Block_N;
    static constexpr const char* name = "row";

    CK_TILE_HOST_DEVICE static constexpr index_t GetSmemSize()
    {
        return Policy::template GetSmemSize<Problem>();
    }

    template <typename XWindow, typename ScaleWindow>
    CK_TILE_DEVICE static auto load_product(const XWindow& x_window, const ScaleWindow& smooth_window)
    {
        const auto x      = ck_tile::load_tile(x_window);
        const auto smooth = ck_tile::load_tile(smooth_window);
        auto y            = ck_tile::make_static_distributed_tensor<float>(x.get_tile_distribution());
        constexpr index_t count = y.get_thread_buffer_size();
        ck_tile::static_for<0, count, 1>{}([&](auto i) {
            y.get_thread_buffer()(i) =
                ck_tile::type_convert<float>(x.get_thread_buffer()[i]) * smooth.get_thread_buffer()[i];
        });
        return y;
    }

    template <typename Tile>
    CK_TILE_DEVICE static float thread_absmax(const Tile& y, float seed)
    {
        float result = seed;
        ck_tile::static_for<0, Tile::get_thread_buffer_size(), 1>{}(
            [&](auto i) { result = __builtin_fmaxf(result, __builtin_fabsf(y.get_thread_buffer()[i])); });
        return result;
    }

    // Row maximum, known to every lane of the row: lanes of a wave first, then its waves through LDS.
    template <typename Tile>
    CK_TILE_DEVICE static auto row_scale(float lane_absmax, void* smem)
    {
        auto reduce   = Policy::template GetBlockReduce2d<Problem>();
        auto over_n   = Policy::template GetBlockReduce2dSync<Problem>();
        auto over_lds = Policy::template GetBlockReduce2dCrossWarpSync<Problem>();
        auto scale    = reduce.template MakeYBlockTile<Tile>();
        static_assert(decltype(scale)::get_thread_buffer_size() == 1, "one row per lane");
        const auto larger = [](float a, float b) { return __builtin_fmaxf(a, b); };
        scale.get_thread_buffer()(ck_tile::number<0>{}) = lane_absmax;
        over_n(scale, larger);
        over_lds(scale, smem, larger);
        auto& value = scale.get_thread_buffer()(ck_tile::number<0>{});
        value       = value == 0.0f ? 1.0f : __builtin_fmaxf(value / Quant::limit, 0x1p-126f);
        return scale;
    }

    template <typename Tile, typename OutWindow>
    CK_TILE_DEVICE static void
    store_quantised(OutWindow& out_window, const Tile& y, const RowDivisor& divisor)
    {
        auto out = ck_tile::make_static_distributed_tensor<QYDataType>(y.get_tile_distribution());
        constexpr index_t count = Tile::get_thread_buffer_size();
        static_assert(count % 4 == 0, "four bytes at a time");
        ck_tile::static_for<0, count / 4, 1>{}([&](auto i) {
            constexpr index_t at = 4 * i.value;
            const auto part      = [&](auto j) {
                return divisor.divide(y.get_thread_buffer()[ck_tile::number<at + j.value>{}]);
            };
            using namespace ck_tile;
            out.get_thread_buffer().template set_as<uint32_t>(
                i, Quant::pack(part(number<0>{}), part(number<1>{}), part(number<2>{}), part(number<3>{})));
        });
        ck_tile::store_tile(out_window, out);
    }

    template <typename XWindow, typename ScaleWindow, typename OutWindow, typename OutScaleWindow>
    CK_TILE_DEVICE auto operator()(const XWindow& x_view,
                                   const ScaleWindow& smooth_view,
                                   OutScaleWindow& scale_window,
                                   OutWindow& out_window,
                                   index_t row_size,
                                   void* smem) const
    {
        auto x_window =
            ck_tile::make_tile_window(x_view, Policy::template MakeXBlockTileDistribution<Problem>());
        auto smooth_window = ck_tile::make_tile_window(
            smooth_view, Policy::template MakeSmoothScaleBlockTileDistribution<Problem>());
        using Tile = decltype(load_product(x_window, smooth_window));

        if constexpr(!Problem::kTwoPass)
        {
            const auto y     = load_product(x_window, smooth_window);
            const auto scale = row_scale<Tile>(thread_absmax(y, 0.0f), smem);
            ck_tile::store_tile(scale_window, scale);
            store_quantised(out_window, y, RowDivisor(scale.get_thread_buffer()[ck_tile::number<0>{}]));
        }
        else
        {
            const index_t steps =
                __builtin_amdgcn_readfirstlane(ck_tile::integer_divide_ceil(row_size, Block_N));
            float lane_absmax = 0.0f;
            for(index_t step = 0; step < steps; ++step)
            {
                lane_absmax = thread_absmax(load_product(x_window, smooth_window), lane_absmax);
                ck_tile::move_tile_window(x_window, {0, Block_N});
                ck_tile::move_tile_window(smooth_window, {Block_N});
            }
            const auto scale = row_scale<Tile>(lane_absmax, smem);
            ck_tile::store_tile(scale_window, scale);
            const RowDivisor divisor(scale.get_thread_buffer()[ck_tile::number<0>{}]);

            // Backwards: the columns read last are the ones still in the cache.
            ck_tile::move_tile_window(out_window, {0, steps * Block_N});
            for(index_t step = 0; step < steps; ++step)
            {
                ck_tile::move_tile_window(x_window, {0, -Block_N});
                ck_tile::move_tile_window(smooth_window, {-Block_N});
                ck_tile::move_tile_window(out_window, {0, -Block_N});
                store_quantised(out_window, load_product(x_window, smooth_window), divisor);
            }
        }
    }
};

} // namespace aiter_ck
