// Products of sorted tokens with their experts' matrices, whose rows and columns lie as AITER's shuffle_weight has them.
// STAGE 1: c[token, choice] = act(a[token] * gate of the expert) * (a[token] * up). STAGE 2: c[token] += the product of
// a[token, choice], by atomic additions. Weights of sorted ids multiply sums where WEIGHED, scales where SCALED.
#include "moe_stage.hpp"

namespace xdl {

constexpr bool first = STAGE == 1;

constexpr Version pipeline = version(PIPE);

// Elements of 16 bytes, and instructions of a wave along the rows and the columns of a tile.
constexpr int run  = 16 / int(sizeof(X));
constexpr int down = BM / (16 * WM), across = BN / (16 * WN);

// Threads along the rows and the columns of a store, and columns that each stores at once.
constexpr int store_columns = first ? 8 : BN / 2 / across;
constexpr int store_rows    = BLOCK / store_columns;
constexpr int store_width   = first ? 16 / int(sizeof(O)) : 2;

using Gemm = ck::GridwiseMoeGemm<
    Row, Col, ck::Tuple<Row, Col, Row>, Row,
    X, X, float, float, ck::Tuple<float, float, float>, O,
    Same, Same, Rounded, Spec::Default,
    BLOCK, BM, BN, BK, run, run, 16, 16, down, across,
    S<BK / run, BLOCK * run / BK, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, run, run, false, 0,
    S<BK / run, BLOCK * run / BK, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, run, run, false, 0,
    2, across, S<1, store_rows, 1, store_columns>, S<store_width, 1, 1, 1>,
    intrawave, pipeline, ACT, false, first, bool(WEIGHED), bool(SCALED), ck::index_t, X>;

// The manifest's when: K has more than two steps where there is a hot loop, else one or two; an even or an odd number of them.
using Pipe = Gemm::BlockwiseGemmPipe;
constexpr int steps = (HOT ? 4 : 2) - ODD;
constexpr ck::TailNumber tail = Pipe::BlockLoopTailNum(steps);
static_assert(PIPE == 1 || PIPE == 3, "others have other tails");
static_assert(Pipe::BlockHasHotloop(steps) == bool(HOT) && !Pipe::BlockHasHotloop(2) && Pipe::BlockHasHotloop(3));
static_assert(tail == (ODD ? ck::TailNumber::Odd : ck::TailNumber::Even));
static_assert(tail == Pipe::BlockLoopTailNum(steps + 2) && tail == Pipe::BlockLoopTailNum(steps + 98));

constexpr auto how = first ? ck::InMemoryDataOperationEnum::Set : ck::InMemoryDataOperationEnum::AtomicAdd;
constexpr int waves = moe_occupancy<X>(BM, BN, BK, BLOCK, WN, first ? 2 : 1);

__device__ __forceinline__ void run_moe(const int* ids, const int* experts, const int* valid, const X* a, const X* b,
    const float* a_scale, const float* b_scale, const float* weights, O* c, int tokens, int topk, int rows, int n, int k)
{
    const Gemm::Problem problem(tokens, topk, rows, n, k, k, k, {0, 0, 0}, n, 1);
    // CK's epilogue asks these two pointers whether there are scales: here the compiler knows.
    Gemm::DsGridPointer others;
    others(ck::Number<0>{}) = SCALED ? a_scale : nullptr;
    others(ck::Number<1>{}) = SCALED ? b_scale : nullptr;
    others(ck::Number<2>{}) = WEIGHED ? weights : nullptr;
    if(SCALED)
        __builtin_assume(a_scale != nullptr && b_scale != nullptr);
    __shared__ char shared[Gemm::GetSharedMemoryNumberOfByte()];
    if constexpr(pipeline == Version::v1)
        Gemm::Run<bool(HOT), how, tail>(ids, experts, valid, a, b, others, c, shared, problem, Same{}, Same{}, Rounded{});
    else
    {
        __shared__ char second[Gemm::GetSharedMemoryNumberOfByte()];
        Gemm::Run_2Lds<bool(HOT), how, tail>(
            ids, experts, valid, a, b, others, c, shared, second, problem, Same{}, Same{}, Rounded{});
    }
}

} // namespace xdl

extern "C" __global__ __launch_bounds__(BLOCK, xdl::waves) void
ck_moe_stage(const int* ids, const int* experts, const int* valid, const xdl::X* a, const xdl::X* b, const float* a_scale,
             const float* b_scale, const float* weights, xdl::O* c, int tokens, int topk, int rows, int n, int k)
{
    xdl::run_moe(ids, experts, valid, a, b, a_scale, b_scale, weights, c, tokens, topk, rows, n, k);
}
