// Device properties. Numbers of silicon (clocks, bus, caches) are AMD's published ones for the cards; sizes come from
// the configuration.
#include "properties.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "isa/decode.h"
#include "machine/settings/visible.h"

namespace apb::emu::hip {
namespace {

constexpr int kL2Bytes = 4 << 20;                // of one XCC
constexpr int kRegistersPerUnit = 4 * 512 * 64;  // four SIMDs of 512 rows of 64 lanes

struct CardRow {
  Target target;
  std::uint32_t compute_units;
  Card card;
};  // compute_units 0: any other number
constexpr CardRow kCards[] = {
    {Target::Gfx942, 80, {"AMD Instinct MI308X", 9, 4, 1420000, 1300000, 8192, 4, 0x74a2}},
    {Target::Gfx942, 228, {"AMD Instinct MI300A", 9, 4, 2100000, 1300000, 8192, 6, 0x74a0}},
    {Target::Gfx942, 0, {"AMD Instinct MI300X", 9, 4, 2100000, 1300000, 8192, 8, 0x74a1}},
    {Target::Gfx950, 0, {"AMD Instinct MI355X", 9, 5, 2400000, 2000000, 8192, 8, 0x75a3}},
};

hipDeviceArch_t arch() {
  hipDeviceArch_t out{};
  out.hasGlobalInt32Atomics = out.hasGlobalFloatAtomicExch = out.hasSharedInt32Atomics = out.hasSharedFloatAtomicExch =
      1;
  out.hasFloatAtomicAdd = out.hasGlobalInt64Atomics = out.hasSharedInt64Atomics = out.hasDoubles = 1;
  out.hasWarpVote = out.hasWarpBallot = out.hasWarpShuffle = out.hasThreadFenceSystem = out.has3dGrid = 1;
  return out;
}

// Members that both layouts have under one name.
template <class Properties>
void fill_common(Properties& out, const Device& device) {
  const Card& silicon = card(device);
  std::snprintf(out.name, sizeof out.name, "%s", silicon.name);
  // SRAM error correction is always on and XNACK off on these cards as delivered.
  std::snprintf(out.gcnArchName, sizeof out.gcnArchName, "%s:sramecc+:xnack-",
                std::string(name(device.configuration.target)).c_str());
  out.totalGlobalMem = device.configuration.memory;
  out.sharedMemPerBlock = out.maxSharedMemoryPerMultiProcessor = device.lds_bytes();
  out.regsPerBlock = kRegistersPerUnit / 2;  // the driver counts the architectural half
  out.warpSize = 64;
  out.memPitch = static_cast<std::size_t>(std::min<std::uint64_t>(device.configuration.memory, INT_MAX));
  out.maxThreadsPerBlock = 1024;
  std::fill(std::begin(out.maxThreadsDim), std::end(out.maxThreadsDim), 1024);
  out.maxGridSize[0] = INT_MAX;
  out.maxGridSize[1] = out.maxGridSize[2] = 65536;
  out.clockRate = silicon.clock_khz;
  out.memoryClockRate = silicon.memory_clock_khz;
  out.memoryBusWidth = silicon.memory_bus;
  out.totalConstMem = INT_MAX;
  out.major = silicon.major;
  out.minor = silicon.minor;
  out.textureAlignment = out.texturePitchAlignment = 256;
  out.multiProcessorCount = static_cast<int>(device.configuration.compute_units);
  out.l2CacheSize = kL2Bytes;
  out.maxThreadsPerMultiProcessor = 2048;
  out.clockInstructionRate = 100000;  // s_memrealtime counts at 100 MHz
  out.arch = arch();
  out.concurrentKernels = out.canMapHostMemory = out.isLargeBar = out.ECCEnabled = 1;
  out.cooperativeLaunch = out.cooperativeMultiDeviceLaunch = out.cooperativeMultiDeviceUnmatchedFunc = 1;
  out.cooperativeMultiDeviceUnmatchedGridDim = out.cooperativeMultiDeviceUnmatchedBlockDim = 1;
  out.cooperativeMultiDeviceUnmatchedSharedMem = 1;
  out.pciBusID = pci_bus(device);
  out.asicRevision = 1;
  out.managedMemory = out.directManagedMemAccessFromHost = out.concurrentManagedAccess = 1;
}

}  // namespace

const Card& card(const Device& device) {
  for (const CardRow& row : kCards) {
    const bool fits = row.compute_units == 0 || row.compute_units == device.configuration.compute_units;
    if (row.target == device.configuration.target && fits) return row.card;
  }
  return kCards[2].card;
}

hipUUID uuid(const Device& device) {
  hipUUID out{};
  const std::string text = uuid_text(device.configuration);
  std::memcpy(out.bytes, text.data(), sizeof out.bytes);
  return out;
}

std::string pci_bus_id(const Device& device) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", static_cast<unsigned>(pci_bus(device)) & 0xff);
  return text;
}

hipDeviceProp_tR0600 properties(const Device& device) {
  hipDeviceProp_tR0600 out{};
  fill_common(out, device);
  out.uuid = uuid(device);
  out.asyncEngineCount = 8;
  out.deviceOverlap = 1;
  out.unifiedAddressing = 1;
  out.persistingL2CacheMaxSize = out.l2CacheSize;
  out.streamPrioritiesSupported = out.globalL1CacheSupported = out.localL1CacheSupported = 1;
  out.sharedMemPerMultiprocessor =
      static_cast<std::size_t>(device.lds_bytes()) * device.configuration.compute_units;  // as the driver reports it
  out.sharedMemPerBlockOptin = device.lds_bytes();
  out.regsPerMultiprocessor = out.regsPerBlock;
  out.hostNativeAtomicSupported = 1;
  out.maxBlocksPerMultiProcessor = 2;
  out.hostRegisterSupported = 1;
  out.memoryPoolsSupported = 1;
  out.ipcEventSupported = 1;
  return out;
}

hipDeviceProp_tR0000 old_properties(const Device& device) {
  hipDeviceProp_tR0000 out{};
  fill_common(out, device);
  out.gcnArch = device.configuration.target == Target::Gfx950 ? 950 : 942;
  return out;
}

}  // namespace apb::emu::hip
