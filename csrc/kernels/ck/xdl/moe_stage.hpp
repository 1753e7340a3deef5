// What moe_stage1.hip and moe_stage2.hip instantiate: read once, before any macro of an instance is set.
#pragma once

#include "xdl.hpp"

#pragma clang force_cuda_host_device begin
#include "ck/tensor_operation/gpu/grid/gridwise_moe_gemm.hpp"
#pragma clang force_cuda_host_device end

namespace xdl {

// What CK's epilogue ends with: scales and weights are in the sum by then, its other operands are not read.
struct Rounded
{
    template <typename E, typename Acc, typename... Others>
    __device__ void operator()(E& e, const Acc& acc, const Others&...) const
    {
        e = ck::type_convert<E>(acc);
    }
};

// Registers that CK reckons with: more than 255 of a thread leave a compute unit room for one workgroup.
template <typename T>
constexpr int moe_occupancy(int rows, int columns, int step, int threads, int waves, int products)
{
    const int a = rows * step * int(sizeof(T)) / threads / 4 * (1 + waves);
    const int b = columns * step * int(sizeof(T)) / threads / 4 * 2 * products;
    const int c = rows * columns * 4 / threads / 4 * products;
    return a + b + c >= 256 ? 1 : 2;
}

} // namespace xdl
