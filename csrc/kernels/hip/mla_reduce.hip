// Parts of attention over a latent cache made one: each part has the mean of its values and the logarithm of its sum of exponentials.
//
// Build:  OUT = bf16 | f16       element type of the result
//         COLUMNS = 512 | 128    of a row; 512 when it is not said
// Launch: grid x = heads, grid y = batches or tiles, block x = 128, no LDS. A lane has 4 columns: 128 / (COLUMNS / 4) rows at once.
#include "common.hpp"

#ifndef COLUMNS
#define COLUMNS 512
#endif

namespace ap {

using elem = OUT;
using quad = vec<float, 4>;
inline constexpr i32 kColumns = COLUMNS;
inline constexpr i32 kLanes = kColumns / 4;
inline constexpr i32 kRows = 128 / kLanes;
inline constexpr float kLog2e = 1.44269504088896341f;
inline constexpr float kLn2 = 0.693147180559945309f;

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
AP_INLINE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
AP_INLINE i32 clamp(i32 x, i32 least, i32 most) { return x < least ? least : x > most ? most : x; }

// One row: `count` parts, part i in row `row(i)` of `parts` and `lse`, nowhere where that is below 0. A part that saw no key has a
// logarithm of -inf, and is not read; with none at all the result is 0, its logarithm -inf. exp2 and log2 are within 1 ulp.
template <typename Row>
AP_INLINE void merge(elem* out, float* out_lse, const float* parts, const float* lse, i64 heads, i64 head, i32 count,
                     Row row) {
  const i32 lane = static_cast<i32>(thread_x()) % kLanes;
  auto log_of = [=](i32 i) {
    const i64 from = row(i);
    return from < 0 ? -__builtin_inff() : lse[from * heads + head];
  };
  float top = -__builtin_inff();
  for (i32 i = 0; i < count; ++i) top = max_num(top, log_of(i));
  quad sum = {0.0f, 0.0f, 0.0f, 0.0f};
  float total = 0.0f;
  for (i32 i = 0; i < count; ++i) {
    float own = log_of(i);
    float weight = own == -__builtin_inff() ? 0.0f : __builtin_amdgcn_exp2f((own - top) * kLog2e);
    if (weight != 0.0f) {
      sum += weight * reinterpret_cast<const quad*>(parts + (row(i) * heads + head) * kColumns)[lane];
    }
    total += weight;
  }
  float scale = total == 0.0f ? 0.0f : 1.0f / total;
  vec<elem, 4> whole;
#pragma unroll
  for (int i = 0; i < 4; ++i) whole[i] = to_elem<elem>(sum[i] * scale);
  reinterpret_cast<vec<elem, 4>*>(out)[lane] = whole;
  if (out_lse != nullptr && lane == 0) {
    *out_lse = total == 0.0f ? -__builtin_inff() : top + __builtin_amdgcn_logf(total) * kLn2;
  }
}

}  // namespace ap

#if COLUMNS == 512
// out[tokens, heads, 512] of parts[tokens, splits, heads, 512]. Blocks of `keys` keys of a context go to the splits in turn; a query
// sees the keys up to its own place, the last query of a batch all of them.
AP_KERNEL(128)
void mla_splits(ap::elem* out, float* out_lse, const float* parts, const float* lse, const ap::i32* queries,
                const ap::i32* contexts, ap::i32 splits, ap::i32 heads, ap::i32 keys) {
  using namespace ap;
  const i64 head = block_x();
  const i32 batch = block_y();
  const i32 first = queries[batch], end = queries[batch + 1];
  for (i64 token = first; token < end; ++token) {
    i32 seen = contexts[batch + 1] - contexts[batch] - (end - 1 - static_cast<i32>(token));
    i32 blocks = seen > 0 ? (seen + keys - 1) / keys : 0;
    i64 place = token * heads + head;
    merge(out + place * kColumns, out_lse + place, parts, lse, heads, head, blocks < splits ? blocks : splits,
          [=](i32 i) { return token * splits + i; });
  }
}
#endif

// out[tokens, heads, COLUMNS] with strides of parts[rows, heads, COLUMNS]. Tile t merges the rows map[indptr[t]] to
// map[indptr[t + 1] - 1] and what follows each, into the tokens final_map[t][0] to final_map[t][1] - 1; without final_map tiles have
// as many tokens as the first two rows are apart. A tile of less than two rows is none: its tokens stay as they are. What the lists
// say of rows, tokens and `sources` of `map` that are not there is not done. Launch: grid z = `groups`, which share a tile's tokens.
AP_KERNEL(128)
void mla_tiles(ap::elem* out, float* out_lse, const float* parts, const float* lse, const ap::i32* indptr,
               const ap::i32* final_map, const ap::i32* map, ap::i32 heads, ap::i64 out_token, ap::i64 out_head,
               ap::i64 rows, ap::i32 tokens, ap::i32 sources, ap::i32 groups) {
  using namespace ap;
  const i64 head = block_x();
  const i32 tile = static_cast<i32>(block_y());
  const i32 start = clamp(indptr[tile], 0, sources), count = clamp(indptr[tile + 1], 0, sources) - start;
  if (count < 2) return;
  map += start;
  const i64 length = static_cast<i64>(map[1]) - map[0];
  const i64 first = final_map != nullptr ? final_map[2 * tile] : tile * length;
  const i64 end = final_map != nullptr ? final_map[2 * tile + 1] : first + length;
  const i64 own = static_cast<i64>(block_z()) * kRows + static_cast<i32>(thread_x()) / kLanes;
  for (i64 token = first + own; token < end && token < tokens; token += groups * kRows) {
    if (token < 0) continue;
    merge(out + token * out_token + head * out_head, out_lse == nullptr ? nullptr : out_lse + token * heads + head,
          parts, lse, heads, head, count, [=](i32 i) {
            const i64 row = map[i] + (token - first);
            return row < rows ? row : -1;
          });
  }
}
