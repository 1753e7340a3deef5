// What batched_gemm_bf16.hip instantiates: read once, before any macro of an instance is set.
#pragma once

#include "xdl.hpp"

#pragma clang force_cuda_host_device begin
#include "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp"
#pragma clang force_cuda_host_device end
