// What gemm_a8w8_bpreshuffle.hip instantiates: read once, before any macro of an instance is set.
#pragma once

#include "xdl.hpp"

#pragma clang force_cuda_host_device begin
#include "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d_b_preshuffle.hpp"
#pragma clang force_cuda_host_device end

namespace xdl {

struct RowwiseScale
{
    template <typename E, typename Acc>
    __device__ void operator()(E& e, const Acc& acc, const float& column, const float& row) const
    {
        e = ck::type_convert<E>(ck::type_convert<float>(acc) * column * row);
    }
};

} // namespace xdl
