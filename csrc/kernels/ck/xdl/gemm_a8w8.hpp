// What gemm_a8w8.hip instantiates: read once for all instances, before any of their macros is set.
#pragma once

#include "xdl.hpp"

#pragma clang force_cuda_host_device begin
#include "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp"
#pragma clang force_cuda_host_device end

namespace xdl {

// `biased` is uniform: without a bias CK's third operand reads the scales' memory, and the value goes nowhere.
struct RowwiseScale
{
    bool biased;

    template <typename E, typename Acc, typename Bias>
    __device__ void operator()(E& e, const Acc& acc, const float& column, const float& row, const Bias& bias) const
    {
        const float scaled = ck::type_convert<float>(acc) * column * row;
        e = ck::type_convert<E>(biased ? scaled + ck::type_convert<float>(bias) : scaled);
    }
};

} // namespace xdl
