// What gemm_a4w4_blockscale.hip instantiates: read once, before any macro of an instance is set.
#pragma once

#include "xdl.hpp"

#ifdef _LIBCPP_VERSION
#include <__algorithm/max.h> // beside the stand-in of <algorithm>
#endif

// CK's header that asks the environment is host code. Read as CK's own compile at run time reads it, it is empty.
#define CK_CODE_GEN_RTC
#include "ck/utility/env.hpp"
#undef CK_CODE_GEN_RTC
#define CK_ENV(name) false

namespace ck {

constexpr bool EnvIsEnabled(bool set) { return set; }

} // namespace ck

#pragma clang force_cuda_host_device begin
#include "ck/tensor_operation/gpu/thread/threadwise_tensor_slice_transfer.hpp"
#define ThreadGroupTensorSliceTransfer_DirectLoad UnorderedDirectLoad
#include "ck/tensor_operation/gpu/block/thread_group_tensor_slice_transfer_direct_load.hpp"
#undef ThreadGroupTensorSliceTransfer_DirectLoad

namespace ck {

// CK's copy from memory to LDS. Its pipeline waits for all but the loads that it wrote behind these, so none may be moved before
// them: clang 22 does so in the prologue, and the first tile would be read while it is on its way. All but memory may pass.
template <typename Group, typename Slice, typename Threads, typename Order, typename From, typename To, typename Source,
          typename Target, typename Walk, index_t Read, index_t Written, index_t Width>
struct ThreadGroupTensorSliceTransfer_DirectLoad
    : UnorderedDirectLoad<Group, Slice, Threads, Order, From, To, Source, Target, Walk, Read, Written, Width>
{
    using Copy = UnorderedDirectLoad<Group, Slice, Threads, Order, From, To, Source, Target, Walk, Read, Written, Width>;
    using Copy::Copy;

    template <typename Memory, typename Lds>
    __device__ void Run(const Source& source, const Memory& memory, const Target& target, Lds& lds)
    {
        Copy::Run(source, memory, target, lds);
        __builtin_amdgcn_sched_barrier(0x78f);
    }
};

} // namespace ck

#include "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_mx_bpreshuffle.hpp"
#pragma clang force_cuda_host_device end
