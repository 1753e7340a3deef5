// C[b, m, n] = sum over k of A[b, m, k] * B[b, n, k], times a scale of row b, m and one of column b, n.
// A is [L, M, K] and B [L, N, K], int8, contiguous; the sums are int32.  One instance: the macros say which.
#include "batched_gemm_a8w8.hpp"

namespace xdl {

constexpr Version pipeline = version(PIPE);

using Gemm = ck::GridwiseGemmMultiD_xdl_cshuffle_v3<
    Row, Col, ck::Tuple<Row, Col>, Row,
    i8, i8, int32_t, int32_t, ck::Tuple<float, float>, C,
    Same, Same, Scaled, Spec::MNKPadding,
    BLOCK, BM, BN, BK, BK / A0, 16, XM, XN, WM, WN,
    S<A0, A1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, BK / A0, BK / A0, false, 0,
    S<B0, B1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 0,
    CM, CN, S<1, C1, 1, C3>, S<V, V, 1>,
    SCHED, pipeline, i8>;

// The manifest's when: cdiv(K, BK) > LOOPS. Then there is a hot loop, and the tail is the same for each such K.
static_assert(PIPE == 1 || PIPE == 3, "other pipelines have several tails");
static_assert(!Gemm::BlockwiseGemmPipe::BlockHasHotloop(LOOPS) && Gemm::BlockwiseGemmPipe::BlockHasHotloop(LOOPS + 1));
static_assert(Gemm::BlockwiseGemmPipe::BlockLoopTailNum(LOOPS + 1) == ck::TailNumber::Full);
static_assert(Gemm::BlockwiseGemmPipe::BlockLoopTailNum(LOOPS + 2) == ck::TailNumber::Full);

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::occupancy(xdl::SCHED, xdl::pipeline, BM* BN / BLOCK)) void
ck_batched_gemm_a8w8(const xdl::i8* a, const xdl::i8* b, const float* columns, const float* rows, xdl::C* c,
                     int m, int n, int k)
{
    using Gemm = xdl::Gemm;
    __shared__ char shared[Gemm::GetSharedMemoryNumberOfByte()];
    const Gemm::Problem problem(m, n, k, k, k, {0, 0}, n, 1);
    const int64_t batch = blockIdx.y;
    Gemm::DsGridPointer scales;
    scales(ck::Number<0>{}) = columns + batch * n;
    scales(ck::Number<1>{}) = rows + batch * m;
    Gemm::Run<true, ck::InMemoryDataOperationEnum::Set, ck::TailNumber::Full>(
        a + batch * m * k, b + batch * n * k, scales, c + batch * m * n, shared, problem, xdl::Same{}, xdl::Same{}, xdl::Scaled{});
}
