// The last step of ck_tile's rmsnorm2d pipelines: fp32 tile -> output type -> memory.
// ck_tile's Default2DEpilogue does the same but pulls in the matrix-core headers (half of the compile time), and
// its bf16 cast is four integer instructions where gfx950 has one; the compiler's own cast uses that one.
#pragma once

#include "aiter_ck/config.hpp"

namespace aiter_ck {

template <typename T>
CK_TILE_DEVICE T round_to(float v)
{
    if constexpr(std::is_same_v<T, ck_tile::bf16_t>)
        return __builtin_bit_cast(ck_tile::bf16_t, static_cast<__bf16>(v));
    else
        return ck_tile::type_convert<T>(v);
}

template <typename T>
struct RowEpilogue
{
    template <typename OutWindow, typename Tile>
    CK_TILE_DEVICE void operator()(OutWindow& out_window, const Tile& tile) const
    {
        auto out = ck_tile::make_static_distributed_tensor<T>(tile.get_tile_distribution());
        ck_tile::static_for<0, Tile::get_thread_buffer_size(), 1>{}(
            [&](auto i) { out.get_thread_buffer()(i) = round_to<T>(tile.get_thread_buffer()[i]); });
        ck_tile::store_tile(out_window, out);
    }
};

} // namespace aiter_ck
