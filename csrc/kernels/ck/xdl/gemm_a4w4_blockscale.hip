// C[m, n] = sum over k of A[m, k] * B[n, k], of 4-bit floats, two a byte, with a power of two for each 32 columns of a row.
// A is [M, K], B [N, K] lies as AITER's shuffle_weight has it, scales as its e8m0_shuffle.  k counts bytes of a row.
// One instance: the macros say which.
#include "gemm_a4w4_blockscale.hpp"

namespace xdl {

using Q = ck::f4x2_pk_t;
using E = int32_t; // four scales

constexpr Version pipeline = version(PIPE);

using Gemm = ck::GridwiseGemmMX_xdl_cshuffle_v3_bpreshuffle<
    Row, ck::tensor_layout::gemm::MFMA, Row,
    Q, E, Q, E, float, C, C, Same, Same, Same, Spec::Default,
    32, BLOCK, BM, BN, BK, 16, 16, 16, 16, WM, WN,
    S<8, 32, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 1,
    S<8, 32, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 16, 16, false, 1,
    CM, CN, S<1, C1, 1, C3>, 8, intrawave, pipeline, Q, Q>;

// The manifest's when: k // BK > LOOPS, and odd where ODD is 1. Then there is a hot loop, and the tail is one for all k.
using Pipe = Gemm::BlockwiseGemmPipe;
constexpr int steps           = LOOPS + 1 + ((LOOPS + 1) % 2 != ODD);
constexpr ck::TailNumber tail = Pipe::BlockLoopTailNum(steps);
static_assert(PIPE == 3, "the first pipeline has one buffer");
static_assert(LOOPS == Pipe::PrefetchStages && !Pipe::BlockHasHotloop(LOOPS) && Pipe::BlockHasHotloop(LOOPS + 1));
static_assert(tail == (ODD ? ck::TailNumber::Odd : ck::TailNumber::Even) && tail == Pipe::BlockLoopTailNum(steps + 2));

constexpr int waves = BM * BN * BK <= 128 * 128 * 64 * 2 ? 2 : 1;

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::waves) void
ck_gemm_a4w4_blockscale(const xdl::Q* a, const xdl::Q* b, const xdl::E* a_scale, const xdl::E* b_scale, xdl::C* c,
                        int m, int n, int k)
{
    using Gemm = xdl::Gemm;
    const Gemm::Problem problem(m, n, k, k, k / 16, k, k / 16, n, 1);
    __shared__ char first[Gemm::GetSharedMemoryNumberOfByte()];
    __shared__ char second[Gemm::GetSharedMemoryNumberOfByte()];
    Gemm::Run_2Lds<true, ck::InMemoryDataOperationEnum::Set, xdl::tail>(a, a_scale, b, b_scale, c, first, second, problem);
}
