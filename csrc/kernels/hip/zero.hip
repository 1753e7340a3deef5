// Fills memory with zero bytes, for kernels that add to what is there (`zero = "out"` in a manifest).
//
// Launch: grid x = cdiv(bytes, 16384), block x = 256, no LDS. A workgroup fills 16 KiB, 16 bytes a lane at a time; an address that
//         is not a multiple of 16, and the bytes behind the last 16, are filled one by one.
#include "common.hpp"

AP_KERNEL(256)
void zero_bytes(ap::u8* out, ap::i64 bytes) {
  using namespace ap;
  constexpr i64 kBlock = 16384;
  const i64 start = static_cast<i64>(block_x()) * kBlock;
  const i64 end = start + kBlock < bytes ? start + kBlock : bytes;
  const i64 whole = reinterpret_cast<u64>(out) % 16 == 0 ? start + (end - start) / 16 * 16 : start;
  for (i64 at = start + thread_x() * 16; at < whole; at += 256 * 16) {
    *reinterpret_cast<vec<u32, 4>*>(out + at) = vec<u32, 4>{0, 0, 0, 0};
  }
  for (i64 at = whole + thread_x(); at < end; at += 256) out[at] = 0;
}
