// What the wrappers around CK's GridwiseGemm (matrix cores, "XDL", third generation) share.
//
// CK launches a kernel that takes a host object by value, chosen at run time by host code: whether K leaves more than
// a prologue and an epilogue (the hot loop), and how many steps the epilogue has (the tail number).  Here each is
// fixed for an instance, arguments are plain, and `Problem` is built on the device.  A manifest's `when` admits only
// the K for which CK's own rule says the same; the static assertions below ask that rule about them.
#pragma once

#include <array>
#include <iostream>
#include <string>

#include <hip/hip_fp16.h>

#ifndef HIP_INCLUDE_HIP_AMD_DETAIL_HIP_FP16_H
// Where ROCm's header is not: functions of halves that CK's mathematics names and no kernel here calls.
__device__ __half __hneg(__half);
__device__ __half hsin(__half);
__device__ __half hceil(__half);
__device__ __half hfloor(__half);
__device__ __half hexp(__half);
__device__ __half hlog(__half);
#endif

#include "ck/ck.hpp"
#include "ck/utility/common_header.hpp"
#include "shortcuts.hpp"
#include "ck/tensor_operation/gpu/device/gemm_specialization.hpp"
#include "ck/tensor_operation/gpu/device/device_base.hpp"
#include "ck/tensor_operation/gpu/device/tensor_layout.hpp"
#include "ck/tensor_operation/gpu/element/element_wise_operation.hpp"
#include "ck/utility/blkgemmpipe_scheduler.hpp"

namespace xdl {

using Row  = ck::tensor_layout::gemm::RowMajor;
using Col  = ck::tensor_layout::gemm::ColumnMajor;
using Same = ck::tensor_operation::element_wise::PassThrough;
using Spec = ck::tensor_operation::device::GemmSpecialization;
using Sched = ck::BlockGemmPipelineScheduler;

constexpr Sched intrawave = Sched::Intrawave;
constexpr Sched interwave = Sched::Interwave;

using Version = ck::BlockGemmPipelineVersion;

template <ck::index_t... Is>
using S = ck::Sequence<Is...>;

// Element types under the manifests' names, which a compile sets as macros.
using bf16 = ck::bhalf_t;
using f16  = ck::half_t;
using i8   = int8_t;
#if defined(__gfx950__)
using e4m3fn = ck::f8_t;
#elif defined(__gfx942__)
using e4m3fnuz = ck::f8_t;
#endif

constexpr Version version(int number)
{
    return number == 1   ? Version::v1
           : number == 2 ? Version::v2
           : number == 3 ? Version::v3
           : number == 4 ? Version::v4
                         : Version::v5;
}

// Waves a compute unit must hold, as CK asks of the compiler: the registers of a wave follow from it.
constexpr int occupancy(Sched sched, Version pipeline, int per_thread)
{
    if(sched == Sched::Interwave)
        return 2;
    return pipeline == Version::v3 && per_thread <= 128 ? 2 : 1;
}

} // namespace xdl
