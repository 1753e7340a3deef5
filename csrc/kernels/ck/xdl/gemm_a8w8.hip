// C[m, n] = sum over k of A[m, k] * B[n, k], times a scale of row m and one of column n, plus a bias of column n.
// A is [M, K] and B [N, K], fp8 or int8, contiguous; the sums are fp32 or int32.  One instance: the macros say which.
#include "gemm_a8w8.hpp"

namespace xdl {

using Acc = std::conditional_t<std::is_same_v<Q, i8>, int32_t, float>;

constexpr Version pipeline = version(PIPE);

using Gemm = ck::GridwiseGemmMultiD_xdl_cshuffle_v3<
    Row, Col, ck::Tuple<Row, Col, Row>, Row,
    Q, Q, Acc, Acc, ck::Tuple<float, float, C>, C,
    Same, Same, RowwiseScale, PAD ? Spec::MNKPadding : Spec::Default,
    BLOCK, BM, BN, BK, BK / A0, 16, XM, XN, WM, WN,
    S<A0, A1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, BK / A0, BK / A0, false, 0,
    S<B0, B1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 0,
    CM, CN, S<1, C1, 1, C3>, S<V, V, 1, V>,
    SCHED, pipeline, Q>;

// The manifest's when: cdiv(K, BK) > LOOPS. Then there is a hot loop, and the tail is the same for each such K.
static_assert(PIPE == 1 || PIPE == 3, "other pipelines have several tails");
static_assert(!Gemm::BlockwiseGemmPipe::BlockHasHotloop(LOOPS) && Gemm::BlockwiseGemmPipe::BlockHasHotloop(LOOPS + 1));
static_assert(Gemm::BlockwiseGemmPipe::BlockLoopTailNum(LOOPS + 1) == ck::TailNumber::Full);
static_assert(Gemm::BlockwiseGemmPipe::BlockLoopTailNum(LOOPS + 2) == ck::TailNumber::Full);

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::occupancy(xdl::SCHED, xdl::pipeline, BM* BN / BLOCK)) void
ck_gemm_a8w8(const xdl::Q* a, const xdl::Q* b, const float* columns, const float* rows, const xdl::C* bias, xdl::C* c,
             int m, int n, int k)
{
    using Gemm = xdl::Gemm;
    __shared__ char shared[Gemm::GetSharedMemoryNumberOfByte()];
    const Gemm::Problem problem(m, n, k, k, k, {0, 0, 0}, n, 1);
    const bool biased = bias != nullptr;
    Gemm::DsGridPointer others;
    others(ck::Number<0>{}) = columns;
    others(ck::Number<1>{}) = rows;
    others(ck::Number<2>{}) = biased ? bias : reinterpret_cast<const xdl::C*>(columns);
    Gemm::Run<true, ck::InMemoryDataOperationEnum::Set, ck::TailNumber::Full>(
        a, b, others, c, shared, problem, xdl::Same{}, xdl::Same{}, xdl::RowwiseScale{biased});
}
