// What gemm_a8w8_blockscale_bpreshuffle.hip instantiates: read once, before any macro of an instance is set.
#pragma once

#include "xdl.hpp"

#pragma clang force_cuda_host_device begin
#include "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d_blockscale_b_preshuffle.hpp"
#pragma clang force_cuda_host_device end
