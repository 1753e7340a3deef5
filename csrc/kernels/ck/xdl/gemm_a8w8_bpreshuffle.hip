// C[m, n] = sum over k of A[m, k] * B[n, k], times a scale of row m and one of column n.
// A is [M, K], fp8, rows apart by a_row; B [N, K] lies as [N / 16][K / 16][16][16].  One instance: the macros say which.
#include "gemm_a8w8_bpreshuffle.hpp"

namespace xdl {

using Q = FP8;

constexpr Version pipeline = version(PIPE);

using Gemm = ck::GridwiseGemmMultiD_xdl_cshuffle_v3_b_preshuffle<
    Row, Col, ck::Tuple<Row, Col>, Row,
    Q, Q, float, float, ck::Tuple<float, float>, T,
    Same, Same, RowwiseScale, Spec::MNKPadding,
    BLOCK, BM, BN, BK, 16, 16, XM, XN, WM, WN,
    S<A0, A1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 0,
    S<B0, B1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 0,
    CM, CN, S<1, C1, 1, C3>, S<V, V, 1>,
    SCHED, pipeline, Q>;

// The manifest's when: cdiv(K, BK) > LOOPS, and odd where ODD is 1. Then there is a hot loop, and the tail is one for all K.
using Pipe = Gemm::BlockwiseGemmPipe;
constexpr int steps          = LOOPS + 1 + ((LOOPS + 1) % 2 != ODD);
constexpr ck::TailNumber tail = Pipe::BlockLoopTailNum(steps);
static_assert(PIPE == 1 || PIPE == 3, "the second pipeline needs more steps");
static_assert(!Pipe::BlockHasHotloop(LOOPS) && Pipe::BlockHasHotloop(LOOPS + 1));
static_assert(tail == (ODD ? ck::TailNumber::Odd : ck::TailNumber::Even) && tail == Pipe::BlockLoopTailNum(steps + 2));

// Waves a compute unit must hold, as CK asks of the compiler: registers of a tile of A, of two of B, and of the sums.
constexpr int registers = (BM * BK / BLOCK / 4) * (1 + Gemm::NWave) + (BN * BK / BLOCK / 4) * 2 + BM * BN * 4 / BLOCK / 4;
constexpr int waves     = registers >= 256 ? 1 : 2;

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::waves) void
ck_gemm_a8w8_bpreshuffle(const xdl::Q* a, const xdl::Q* b, const float* columns, const float* rows, xdl::T* c,
                         int m, int n, int k, int a_row)
{
    using Gemm = xdl::Gemm;
    constexpr auto set = ck::InMemoryDataOperationEnum::Set;
    const Gemm::Problem problem(m, n, k, a_row, k, {0, 0}, n, 1);
    Gemm::DsGridPointer others;
    others(ck::Number<0>{}) = columns;
    others(ck::Number<1>{}) = rows;
    __shared__ char first[Gemm::GetSharedMemoryNumberOfByte()];
    if constexpr(PIPE == 1)
    {
        Gemm::Run<true, set, xdl::tail>(
            a, b, others, c, first, problem, xdl::Same{}, xdl::Same{}, xdl::RowwiseScale{}, 0, k);
    }
    else
    {
        __shared__ char second[Gemm::GetSharedMemoryNumberOfByte()];
        Gemm::Run_2Lds<true, set, xdl::tail>(
            a, b, others, c, first, second, problem, xdl::Same{}, xdl::Same{}, xdl::RowwiseScale{}, 0, k);
    }
}
