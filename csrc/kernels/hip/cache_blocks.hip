// Blocks of paged caches to other blocks of the same cache, in every layer.
//
// Build:  WIDE = 1               16-byte accesses: blocks, their number of bytes and the distances between them are multiples of 16
//                0               bytes
//         BLOCK = 256            threads of a block
//         EACH = 4               accesses of a thread, which are under way at once
// Launch: grid x = cdiv(bytes, BLOCK * EACH * access), y = pairs, z = 2 * layers (keys, values), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

#if WIDE
using access = vec<u32, 4>;
#else
using access = u8;
#endif

}  // namespace ap

// keys, values[layers, blocks, bytes], layers and blocks apart by so many bytes; mapping[pairs, 2]: from, to.
AP_KERNEL(BLOCK)
void copy_blocks(ap::u8* keys, ap::u8* values, const ap::i64* mapping, ap::i32 bytes, ap::i32 blocks, ap::i64 key_layer,
                 ap::i64 value_layer, ap::i64 key_block, ap::i64 value_block) {
  using namespace ap;
  u32 pair = __builtin_amdgcn_workgroup_id_y(), z = __builtin_amdgcn_workgroup_id_z();
  u64 from = static_cast<u64>(mapping[2 * pair]), to = static_cast<u64>(mapping[2 * pair + 1]),
      end = static_cast<u64>(blocks);
  if (from >= end || to >= end) return;
  u8* layer = z % 2 ? values + (z / 2) * value_layer : keys + (z / 2) * key_layer;
  u64 apart = static_cast<u64>(z % 2 ? value_block : key_block);
  auto* source = reinterpret_cast<const access*>(layer + from * apart);
  auto* target = reinterpret_cast<access*>(layer + to * apart);
  u32 first = block_x() * BLOCK * EACH + thread_x(), count = static_cast<u32>(bytes) / sizeof(access);
  access held[EACH];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    u32 at = first + i * BLOCK;
    held[i] = source[at < count ? at : count - 1];  // past the end the last one again
  }
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    u32 at = first + i * BLOCK;
    if (at < count) target[at] = held[i];
  }
}
