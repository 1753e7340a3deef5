// Each sorted row times the smooth scales of its block's expert, as codes with a scale a row, at the place of its token and choice.
//
// A sorted id is choice << 24 | token. v = input[token, choice] * smooth[owners[place / block]]; scales[row] = max(amax(|v|), 1e-10) /
// qmax; out[row] = v / scales[row], rounded to nearest even and cut at qmax. Row is token * choices + choice, or choice * tokens +
// token. Ids of no token or choice are left out, and so are blocks of no expert and places from *valid on.
//
// Build:  T, Q, ALIGNED, BLOCK, ITERS as smooth.hpp has them
// Launch: grid x = sorted ids, block x = BLOCK, static LDS only.
#include "smooth.hpp"

// input[tokens, choices, n] with its strides in elements; smooth[experts, n], ids[places], owners[blocks], out[.., n] are dense.
AP_KERNEL(BLOCK)
void smooth_sorted(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, const float* __restrict__ smooth,
                   const ap::i32* __restrict__ ids, const ap::i32* __restrict__ owners,
                   const ap::i32* __restrict__ valid, float* __restrict__ scales, ap::i32 tokens, ap::i32 choices,
                   ap::i32 experts, ap::i32 blocks, ap::i32 block, ap::i32 transposed, ap::i32 n, ap::i64 token_stride,
                   ap::i64 choice_stride) {
  using namespace ap;
  u32 place = block_x(), owner = place / static_cast<u32>(block);
  if (static_cast<i32>(place) >= *valid || owner >= static_cast<u32>(blocks)) return;
  u32 id = static_cast<u32>(ids[place]), expert = static_cast<u32>(owners[owner]);
  i32 token = static_cast<i32>(id & 0xFFFFFF), choice = static_cast<i32>(id >> 24);
  if (token >= tokens || choice >= choices || expert >= static_cast<u32>(experts)) return;
  i64 row = transposed ? static_cast<i64>(choice) * tokens + token : static_cast<i64>(token) * choices + choice;
  quantise_smoothed(out + row * n, input + token * token_stride + choice * choice_stride,
                    smooth + static_cast<i64>(expert) * n, scales + row, static_cast<u32>(n), 1e-10f);
}
