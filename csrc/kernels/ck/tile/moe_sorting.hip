// The lists of a fused mixture of experts: choices by expert, each expert's padded to whole units; `buffer` becomes 0.
//
// Launch: grid x = 1 + workgroups that zero, block x = 256, dynamic LDS (rows + 2) * (experts + 1) * 4 bytes, at least
// (2 * experts + 66) * 4: `rows` are the tokens of a step, a multiple of 8. A row of the buffer is whole 16 bytes.
// MASKED: `mask` says which experts are here; `local`, if it is not null, how many of the tokens, from none to all.
#include "moe_sorting.hpp"

namespace tile {

using Sorting = MoeSorting<bool(MASKED)>;

static_assert(Sorting::kBlockSize == 256, "the manifest's block");

extern __shared__ int lds[];

}  // namespace tile

extern "C" __global__ __launch_bounds__(256) void ck_tile_moe_sorting(int* sorted_ids, float* sorted_weights,
                                                                      int* sorted_experts, int* valid, void* buffer,
                                                                      const int* ids, const float* weights,
                                                                      const int* mask, const int* local, int tokens,
                                                                      int choices, int experts, int unit, int columns,
                                                                      int column_bytes, int rows) {
  // A wave sums counts, those of the 64 experts behind the last one, too: it drops them, and reads them first.
  if (blockIdx.x == 0) {
    for (int i = static_cast<int>(threadIdx.x); i < 2 * experts + 66; i += 256) tile::lds[i] = 0;
    __syncthreads();
  }
  tile::Sorting::Kargs args{};
  args.p_topk_ids = ids;
  args.p_weights = weights;
  args.p_local_expert_mask = mask;
  args.p_sorted_token_ids = sorted_ids;
  args.p_sorted_weights = sorted_weights;
  args.p_sorted_expert_ids = sorted_experts;
  args.p_total_tokens_post_pad = valid;
  args.p_moe_buf = buffer;
  // ck_tile's own instance for a number on the device takes it as it is: more tokens than LDS has rows for.
  args.tokens = local ? ck_tile::max(0, ck_tile::min(*local, tokens)) : tokens;
  args.num_experts = experts;
  args.moe_buf_interm_dim = columns;
  args.moe_buf_elem_bytes = column_bytes;
  args.smem_rows = rows + tile::other_rows;
  args.unit_size_mdiv = ck_tile::mdiv(static_cast<unsigned>(unit));
  args.topk_mdiv = ck_tile::mdiv(static_cast<unsigned>(choices));
  args.expert_mdiv = ck_tile::mdiv(static_cast<unsigned>(experts));
  tile::Sorting{}(args);
}
