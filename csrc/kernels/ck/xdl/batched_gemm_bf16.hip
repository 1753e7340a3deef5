// C[b, m, n] = sum over k of A[b, m, k] * B[b, n, k].
// A is [L, M, K], B [L, N, K] and C [L, M, N], bf16, contiguous; the sums are fp32.  One instance: the macros say which.
#include "batched_gemm_bf16.hpp"

namespace xdl {

constexpr Version pipeline = version(PIPE);

using Gemm = ck::GridwiseGemmMultiD_xdl_cshuffle_v3<
    Row, Col, ck::Tuple<>, Row,
    bf16, bf16, float, float, ck::Tuple<>, bf16,
    Same, Same, Same, Spec::MNKPadding,
    BLOCK, BM, BN, BK, BK / A0, BK / B0, XM, XN, WM, WN,
    S<A0, A1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, BK / A0, BK / A0, false, 0,
    S<B0, B1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, BK / B0, BK / B0, false, 0,
    CM, CN, S<1, C1, 1, C3>, S<V>,
    SCHED, pipeline, bf16>;

// The manifest's when: cdiv(K, BK) > LOOPS. Then there is a hot loop, and the tail is the same for each such K.
static_assert(PIPE == 1 || PIPE == 3, "other pipelines have several tails");
static_assert(!Gemm::BlockwiseGemmPipe::BlockHasHotloop(LOOPS) && Gemm::BlockwiseGemmPipe::BlockHasHotloop(LOOPS + 1));
static_assert(Gemm::BlockwiseGemmPipe::BlockLoopTailNum(LOOPS + 1) == ck::TailNumber::Full);
static_assert(Gemm::BlockwiseGemmPipe::BlockLoopTailNum(LOOPS + 2) == ck::TailNumber::Full);

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::occupancy(xdl::SCHED, xdl::pipeline, BM* BN / BLOCK)) void
ck_batched_gemm_bf16(const xdl::bf16* a, const xdl::bf16* b, xdl::bf16* c, int m, int n, int k)
{
    using Gemm = xdl::Gemm;
    __shared__ char shared[Gemm::GetSharedMemoryNumberOfByte()];
    const Gemm::Problem problem(m, n, k, k, k, {}, n, 1);
    const int64_t batch = blockIdx.y;
    Gemm::DsGridPointer none;
    Gemm::Run<true, ck::InMemoryDataOperationEnum::Set, ck::TailNumber::Full>(
        a + batch * m * k, b + batch * n * k, none, c + batch * m * n, shared, problem, xdl::Same{}, xdl::Same{}, xdl::Same{});
}
