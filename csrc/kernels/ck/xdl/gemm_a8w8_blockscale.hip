// C[m, n] = sum over blocks of 128 k: (sum over k of A[m, k] * B[n, k]) * rows[m, block] * columns[n / 128, block].
// A is [M, K] and B [N, K], fp8, rows apart by a_row and b_row; all sums are fp32.  One instance: the macros say which.
#include "gemm_a8w8_blockscale.hpp"

namespace xdl {

constexpr Version pipeline = version(PIPE);

using Q = FP8;

using Gemm = ck::GridwiseGemmMultiD_ABScale_xdl_cshuffle_v3<
    Row, Col, ck::Tuple<>, Row,
    Q, Q, float, float, ck::Tuple<>, C,
    Same, Same, Same, Spec::MNKPadding,
    BLOCK, 1, 128, 128, BM, BN, BK, AK1, 16, XM, XN, WM, WN,
    S<A0, A1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, AK1, AK1, false, 0,
    S<B0, B1, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 0,
    CM, CN, S<1, C1, 1, C3>, S<V>,
    SCHED, pipeline, Q>;

// The manifest's when: cdiv(K, BK) > LOOPS with a hot loop, == LOOPS without. The tail is the same for each such K.
using Pipe = Gemm::BlockwiseGemmPipe;
constexpr int steps = HOT ? LOOPS + 1 : LOOPS;
constexpr ck::TailNumber tail = Pipe::BlockLoopTailNum(steps);
static_assert(PIPE == 1 || PIPE == 3, "other pipelines have several tails");
static_assert(Pipe::BlockHasHotloop(steps) == bool(HOT) && (!HOT || !Pipe::BlockHasHotloop(steps - 1)));
static_assert(!HOT || (Pipe::BlockHasHotloop(steps + 1) && tail == Pipe::BlockLoopTailNum(steps + 1)));

// Waves a compute unit must hold, as CK asks of the compiler.
constexpr int waves = SCHED == intrawave && BM * BN / BLOCK > 64 ? 1 : 2;

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::waves) void
ck_gemm_a8w8_blockscale(const xdl::Q* a, const xdl::Q* b, const float* rows, const float* columns, xdl::C* c,
                        int m, int n, int k, int a_row, int b_row)
{
    using Gemm = xdl::Gemm;
    __shared__ char shared[Gemm::GetSharedMemoryNumberOfByte()];
    const Gemm::Problem problem(m, n, k, a_row, b_row, {}, n, 1);
    Gemm::DsGridPointer none;
    Gemm::Run<bool(HOT), ck::InMemoryDataOperationEnum::Set, xdl::tail>(
        a, b, none, c, rows, columns, shared, problem, xdl::Same{}, xdl::Same{}, xdl::Same{});
}
