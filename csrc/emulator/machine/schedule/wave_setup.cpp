// LLVM, AMDGPUUsage, "Initial Kernel Execution State", for gfx942 and gfx950: packed work-item ids, architected flat
// scratch (so no scratch offset register), workgroup ids in SGPRs.
#include "machine/schedule/wave_setup.h"

#include <algorithm>
#include <bit>

#include "machine/load/descriptor.h"
#include "machine/load/program.h"

namespace apb::emu {
namespace {

constexpr std::uint32_t kStatusInWorkgroup = 1u << 11, kStatusValid = 1u << 16;
constexpr int kMostUserSgprs = 16;

// Writes registers one after the other; what would run past the user SGPRs is dropped, as the hardware does.
class ScalarWriter {
 public:
  explicit ScalarWriter(Wave& wave) : wave_(wave) {}
  void put(std::uint32_t value) {
    if (next_ < sreg::kFlatScratch) wave_.scalar[next_++] = value;
  }
  void put64(std::uint64_t value) {
    put(static_cast<std::uint32_t>(value));
    put(static_cast<std::uint32_t>(value >> 32));
  }
  void seek(int index) { next_ = index; }
  int next() const { return next_; }

 private:
  Wave& wave_;
  int next_ = 0;
};

void user_registers(ScalarWriter& out, const Dispatch& d) {
  const Kernel& kernel = *d.kernel;
  const unsigned properties = kernel.properties;
  if (properties & property::kPrivateSegmentBuffer) {
    out.put64(0);  // with architected flat scratch nothing is behind it: a descriptor of no records
    out.put64(0);
  }
  if (properties & property::kDispatchPtr) out.put64(reinterpret_cast<std::uint64_t>(&d.packet));
  if (properties & property::kQueuePtr) out.put64(0);
  if (properties & property::kErnargPtr) out.put64(reinterpret_cast<std::uint64_t>(d.kernarg));
  if (properties & property::kDispatchId) out.put64(0);
  if (properties & property::kFlatScratchInit) out.put64(0);
  if (properties & property::kPrivateSegmentSize) out.put(d.scratch_bytes);
  for (std::uint32_t i = 0; i < kernel.preload_length && out.next() < kMostUserSgprs; ++i) {
    std::uint32_t dword = kPoison;
    const std::uint32_t at = (kernel.preload_offset + i) * 4;
    if (at + 4 <= d.kernarg_bytes) std::memcpy(&dword, d.kernarg + at, 4);
    out.put(dword);
  }
}

// v0: x in bits 9:0, y in 19:10, z in 29:20; dimensions that the kernel did not ask for read as 0.
void work_item_ids(Wave& wave, Dim3 block, std::uint32_t number, std::uint32_t wanted) {
  const std::uint32_t first = number * kLanes;
  std::uint32_t x = first % block.x, y = first / block.x % block.y, z = first / block.x / block.y;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    wave.vector[lane] = (x & 0x3ff) | (wanted >= 1 ? (y & 0x3ff) << 10 : 0) | (wanted >= 2 ? (z & 0x3ff) << 20 : 0);
    if (++x < block.x) continue;
    x = 0;
    if (++y < block.y) continue;
    y = 0;
    ++z;
  }
}

void poison_registers(Wave& wave, const Kernel& kernel) {
  // Vector operands may name what lies beyond accum_offset: see RegisterCheck.
  const std::uint32_t vgprs = std::min(kernel.vgprs, 256u),
                      accvgprs = std::min(kernel.vgprs - std::min(kernel.accum_offset, kernel.vgprs), 256u);
  std::fill_n(wave.vector, std::size_t{vgprs} * kLanes, kPoison);
  std::fill_n(wave.vector + 256 * kLanes, std::size_t{accvgprs} * kLanes, kPoison);
  std::ranges::fill(wave.scalar, kPoison);
}

// HW_ID as HIP's __smid() reads it: WAVE_ID [3:0] and SIMD_ID [5:4], the wave's slot; CU_ID [11:8] and SE_ID [15:13], its compute unit in
// one of an XCC's four shader engines; TG_ID [19:16], the workgroup's slot there.
void write_hardware_id(Wave& wave, const Dispatch& d, const Workgroup& group, std::uint32_t number) {
  constexpr std::uint32_t kEngines = 4, kSimds = 4;
  const Place at =
      place_of(d, group.id[0] + std::uint64_t{d.grid.x} * (group.id[1] + std::uint64_t{d.grid.y} * group.id[2]));
  const std::uint32_t slot = at.slot * d.waves_per_workgroup() + number;
  wave.xcc_id = at.xcc;
  wave.hardware_id = (slot / kSimds & 15) | (slot % kSimds) << 4 | (at.unit / kEngines & 15) << 8 |
                     (at.unit % kEngines) << 13 | (at.slot & 15) << 16;
}

}  // namespace

std::uint32_t xccs_of(std::uint32_t compute_units) { return compute_units >= 128 ? 8 : compute_units >= 64 ? 4 : 1; }

Place place_of(const Dispatch& d, std::uint64_t linear) {
  const std::uint32_t xccs = xccs_of(d.compute_units), units = std::max(d.compute_units / xccs, 1u);
  const std::uint64_t turn = linear / xccs;
  return {static_cast<std::uint32_t>(linear % xccs), static_cast<std::uint32_t>(turn % units),
          static_cast<std::uint32_t>(turn / units % d.workgroups_per_unit)};
}

void start_wave(Wave& wave, const Dispatch& d, Workgroup& group, Dim3 block, std::uint32_t number) {
  const Kernel& kernel = *d.kernel;
  const CodeObject& object = *kernel.object;
  poison_registers(wave, kernel);
  work_item_ids(wave, block, number, rsrc::workitem_ids(kernel.rsrc2));
  ScalarWriter scalars(wave);
  user_registers(scalars, d);
  // System registers follow the count that the descriptor names, whether or not all of them were filled.
  scalars.seek(static_cast<int>(rsrc::user_sgprs(kernel.rsrc2)));
  for (int dimension = 0; dimension < 3; ++dimension)
    if (rsrc::workgroup_id(kernel.rsrc2, dimension)) scalars.put(group.id[dimension]);
  if (rsrc::workgroup_info(kernel.rsrc2)) scalars.put((number == 0 ? 1u << 31 : 0) | group.waves);

  wave.code_base = object.code;
  wave.code_dwords = static_cast<std::uint32_t>(object.instructions.size());
  wave.pc = kernel.entry / 4;
  wave.scc = false;
  wave.stop = Stop::None;
  wave.mode.bits = rsrc::float_mode(kernel.rsrc1) | (rsrc::dx10_clamp(kernel.rsrc1) ? 1u << 8 : 0) |
                   (rsrc::ieee_mode(kernel.rsrc1) ? 1u << 9 : 0) | (rsrc::fp16_overflow(kernel.rsrc1) ? 1u << 23 : 0);
  wave.target = object.target;
  wave.number = static_cast<std::uint8_t>(number);
  wave.group = &group;
  wave.memory = &d.memory;
  wave.recent = {};
  wave.scratch_bytes = d.scratch_bytes;
  wave.executed = 0;
  wave.status = kStatusInWorkgroup | kStatusValid;
  wave.trap_status = 0;
  wave.current = nullptr;
  wave.set_pair(sreg::kFlatScratch, reinterpret_cast<std::uint64_t>(wave.scratch));
  const std::uint32_t items = block.x * block.y * block.z - number * kLanes;
  wave.set_pair(sreg::kExec, items >= kLanes ? ~0ull : (1ull << items) - 1);
  write_hardware_id(wave, d, group, number);
}

}  // namespace apb::emu
