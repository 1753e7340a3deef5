#include "buffer_resource.h"

#include "operands.h"

namespace apb::emu {

BufferResource BufferResource::decode(const std::uint32_t* words, bool typed) {
  BufferResource r{};
  r.base = words[0] | static_cast<std::uint64_t>(words[1] & 0xffff) << 32;
  r.stride = words[1] >> 16 & 0x3fff;
  r.swizzle = words[1] >> 31;
  r.records = words[2];
  for (int i = 0; i < 4; ++i) r.select[i] = words[3] >> (3 * i) & 7;
  r.number_format = words[3] >> 12 & 7;
  r.data_format = words[3] >> 15 & 15;
  r.index_stride = 8u << (words[3] >> 21 & 3);
  r.add_thread = words[3] >> 23 & 1;
  // Data format 0 means "not bound", for instructions too that bring their own format (9.1.4). So does a resource of
  // zeros.
  r.bound = r.data_format != 0 || (r.add_thread && !typed);
  return r;
}

BufferAccess::BufferAccess(const Wave& wave, const Instruction& instruction, const BufferOperands& operands, bool typed)
    : resource_(BufferResource::decode(wave.scalar + operands.resource->index, typed)),
      scalar_offset_(read32(wave, *operands.scalar)),
      start_(resource_.base + scalar_offset_) {
  const bool indexed = instruction.idxen, vector_offset = instruction.offen;
  // The ISA documents give one formula for all. AMD's simulator, changed to what gfx950 was measured to do (rocm-systems pull
  // request 10928), swizzles only where the lane number is added, and a linear access with an index of its own does not add it.
  // HipKittens' GEMMs, right on MI355X, set the bit for raw accesses.
  resource_.swizzle = resource_.swizzle && resource_.add_thread;
  adds_lane_ = resource_.add_thread && (resource_.swizzle || !indexed);
  // With it, untyped accesses take four more bits of stride from the data format.
  if (adds_lane_ && !typed) resource_.stride |= static_cast<std::uint32_t>(resource_.data_format) << 14;
  // Raw: SGPR, VGPR and instruction offset together against num_records in bytes. The ISA document says it as
  // "buffer_offset >= num_records - sgpr_offset"; AITER's attention kernels step through K and V with the SGPR offset
  // and count on it, and AMD's own simulator was changed to it after measurements on gfx950 (rocm-systems pull request
  // 10928). LLVM's "soffset is excluded from bounds checking" is only what compilers may rely on.
  // Structured: the index against num_records in records. Private: no check.
  check_ = resource_.add_thread && !indexed ? Check::None : indexed && resource_.stride ? Check::Index : Check::Offset;

  // The index comes first when there are both.
  const std::uint32_t* rows = indexed || vector_offset ? wave.row(*operands.address) : nullptr;
  const std::uint32_t* offsets = vector_offset ? rows + (indexed ? kLanes : 0) : nullptr;
  const auto constant = static_cast<std::uint32_t>(instruction.offset);
  for (std::uint64_t& offset : offset_) offset = constant;
  if (offsets)  // these two are added in 32 bits, the SGPR offset in more
    for (int l = 0; l < kLanes; ++l) offset_[l] = constant + offsets[l];
  if (!indexed && !resource_.add_thread) {
    for (int l = 0; l < kLanes; ++l) linear_[l] = start_ + offset_[l];
    return;  // the usual case, in which nobody asks for the index
  }
  for (int l = 0; l < kLanes; ++l)
    index_[l] = (indexed ? rows[l] : 0) + (adds_lane_ ? static_cast<std::uint32_t>(l) : 0);
  for (int l = 0; l < kLanes; ++l)
    linear_[l] = start_ + offset_[l] + static_cast<std::uint64_t>(index_[l]) * resource_.stride;
}

std::uint64_t BufferAccess::whole(std::uint64_t active, std::uint32_t bytes) const {
  if (!resource_.bound || resource_.swizzle) return 0;
  if (check_ == Check::None) return active;
  if (check_ == Check::Offset && active == kAllLanes) {
    std::uint64_t highest = 0;
    for (const std::uint64_t offset : offset_) highest = std::max(highest, offset);
    if (highest + scalar_offset_ + bytes <= resource_.records) return kAllLanes;
  }
  std::uint64_t mask = 0;
  for (int l = 0; l < kLanes; ++l) mask |= static_cast<std::uint64_t>(in_range(l, 0, bytes)) << l;
  return mask & active;
}

// Records of `stride` bytes, `index_stride` of them interleaved by elements of 4 bytes: gfx9 has no element size field.
std::uint64_t BufferAccess::swizzled(int lane, std::uint32_t piece) const {
  constexpr std::uint64_t kElement = 4;
  const std::uint64_t offset = offset_[lane] + piece, index = index_[lane], group = resource_.index_stride;
  const std::uint64_t place = (index / group * resource_.stride + offset / kElement * kElement) * group +
                              index % group * kElement + offset % kElement;
  return start_ + place;
}

}  // namespace apb::emu
