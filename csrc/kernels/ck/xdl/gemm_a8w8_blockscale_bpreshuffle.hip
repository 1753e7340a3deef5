// C[m, n] = sum over blocks of 128 k: (sum over k of A[m, k] * B[n, k]) * rows[block, m] * columns[n / 128, block].
// A is [M, K], fp8, rows apart by a_row; B [N, K] lies as [N / 16][K / 16][16][16].  One instance: the macros say which.
#include "gemm_a8w8_blockscale_bpreshuffle.hpp"

namespace xdl {

using Q = FP8;

constexpr Version pipeline = version(PIPE);

using Gemm = ck::GridwiseGemmMultiD_blockscale_xdl_cshuffle_v3_b_preshuffle<
    Row, Col, ck::Tuple<>, Row,
    Q, Q, float, float, ck::Tuple<>, C,
    Same, Same, Same, Spec::MNKPadding,
    BLOCK, 1, 128, 128, BM, BN, BK, AK1, 16, XM, XN, WM, WN,
    S<A0, A1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, AK1, AK1, false, 0,
    S<B0, B1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 0,
    CM, CN, S<1, C1, 1, C3>, S<V>,
    SCHED, pipeline, Q>;

// The manifest's when: cdiv(K, BK) > LOOPS, and odd where ODD is 1. Then there is a hot loop, and the tail is one for all K.
using Pipe = Gemm::BlockwiseGemmPipe;
constexpr int steps           = LOOPS + 1 + ((LOOPS + 1) % 2 != ODD);
constexpr ck::TailNumber tail = Pipe::BlockLoopTailNum(steps);
static_assert(PIPE == 1 || PIPE == 3, "CK has no other pipeline for these");
static_assert(!Pipe::BlockHasHotloop(LOOPS) && Pipe::BlockHasHotloop(LOOPS + 1));
static_assert(tail == (ODD ? ck::TailNumber::Odd : ck::TailNumber::Even) && tail == Pipe::BlockLoopTailNum(steps + 2));

} // namespace xdl

// Two waves a compute unit, as CK asks of the compiler: then it uses no accumulation registers.
extern "C" __global__ __launch_bounds__(BLOCK, 2) void
ck_gemm_a8w8_blockscale_bpreshuffle(const xdl::Q* a, const xdl::Q* b, const float* rows, const float* columns, xdl::C* c,
                                    int m, int n, int k, int a_row)
{
    using Gemm = xdl::Gemm;
    constexpr auto set = ck::InMemoryDataOperationEnum::Set;
    const Gemm::Problem problem(m, n, k, a_row, k, {}, n, 1);
    Gemm::DsGridPointer none;
    __shared__ char first[Gemm::GetSharedMemoryNumberOfByte()];
    if constexpr(PIPE == 1)
    {
        Gemm::Run<true, set, xdl::tail>(
            a, b, none, c, rows, columns, first, problem, xdl::Same{}, xdl::Same{}, xdl::Same{});
    }
    else
    {
        __shared__ char second[Gemm::GetSharedMemoryNumberOfByte()];
        Gemm::Run_2Lds<true, set, xdl::tail>(
            a, b, none, c, rows, columns, first, second, problem, xdl::Same{}, xdl::Same{}, xdl::Same{});
    }
}
