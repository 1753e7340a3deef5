// hipDeviceGetAttribute: HIP 6 and 7's numbers. (HIP 5 numbered otherwise; no symbol tells the two apart, so this is
// HIP 6's.)
#include <algorithm>
#include <climits>

#include "properties.h"

namespace apb::emu::hip {
namespace {

using Properties = hipDeviceProp_tR0600;
constexpr int kAmd = 10000;  // first AMD-specific number

int clamp(std::uint64_t value) { return static_cast<int>(std::min<std::uint64_t>(value, INT_MAX)); }

// Numbers below 10000: those that CUDA has too, in alphabetical order as HIP declares them. 21 (luid), 64 and 86 are
// unused.
struct CommonAttribute {
  int number;
  int (*read)(const Properties& p);
};
constexpr CommonAttribute kCommonAttributes[] = {
    {0, [](const Properties& p) { return p.ECCEnabled; }},
    {1, [](const Properties& p) { return p.accessPolicyMaxWindowSize; }},
    {2, [](const Properties& p) { return p.asyncEngineCount; }},
    {3, [](const Properties& p) { return p.canMapHostMemory; }},
    {4, [](const Properties& p) { return p.canUseHostPointerForRegisteredMem; }},
    {5, [](const Properties& p) { return p.clockRate; }},
    {6, [](const Properties& p) { return p.computeMode; }},
    {7, [](const Properties& p) { return p.computePreemptionSupported; }},
    {8, [](const Properties& p) { return p.concurrentKernels; }},
    {9, [](const Properties& p) { return p.concurrentManagedAccess; }},
    {10, [](const Properties& p) { return p.cooperativeLaunch; }},
    {11, [](const Properties& p) { return p.cooperativeMultiDeviceLaunch; }},
    {12, [](const Properties& p) { return p.deviceOverlap; }},
    {13, [](const Properties& p) { return p.directManagedMemAccessFromHost; }},
    {14, [](const Properties& p) { return p.globalL1CacheSupported; }},
    {15, [](const Properties& p) { return p.hostNativeAtomicSupported; }},
    {16, [](const Properties& p) { return p.integrated; }},
    {17, [](const Properties& p) { return p.isMultiGpuBoard; }},
    {18, [](const Properties& p) { return p.kernelExecTimeoutEnabled; }},
    {19, [](const Properties& p) { return p.l2CacheSize; }},
    {20, [](const Properties& p) { return p.localL1CacheSupported; }},
    {22, [](const Properties& p) { return static_cast<int>(p.luidDeviceNodeMask); }},
    {23, [](const Properties& p) { return p.major; }},
    {24, [](const Properties& p) { return p.managedMemory; }},
    {25, [](const Properties& p) { return p.maxBlocksPerMultiProcessor; }},
    {26, [](const Properties& p) { return p.maxThreadsDim[0]; }},
    {27, [](const Properties& p) { return p.maxThreadsDim[1]; }},
    {28, [](const Properties& p) { return p.maxThreadsDim[2]; }},
    {29, [](const Properties& p) { return p.maxGridSize[0]; }},
    {30, [](const Properties& p) { return p.maxGridSize[1]; }},
    {31, [](const Properties& p) { return p.maxGridSize[2]; }},
    {55, [](const Properties& p) { return p.maxThreadsDim[0]; }},
    {56, [](const Properties& p) { return p.maxThreadsPerBlock; }},
    {57, [](const Properties& p) { return p.maxThreadsPerMultiProcessor; }},
    {58, [](const Properties& p) { return clamp(p.memPitch); }},
    {59, [](const Properties& p) { return p.memoryBusWidth; }},
    {60, [](const Properties& p) { return p.memoryClockRate; }},
    {61, [](const Properties& p) { return p.minor; }},
    {62, [](const Properties& p) { return p.multiGpuBoardGroupID; }},
    {63, [](const Properties& p) { return p.multiProcessorCount; }},
    {65, [](const Properties& p) { return p.pageableMemoryAccess; }},
    {66, [](const Properties& p) { return p.pageableMemoryAccessUsesHostPageTables; }},
    {67, [](const Properties& p) { return p.pciBusID; }},
    {68, [](const Properties& p) { return p.pciDeviceID; }},
    {69, [](const Properties& p) { return p.pciDomainID; }},
    {70, [](const Properties& p) { return p.persistingL2CacheMaxSize; }},
    {71, [](const Properties& p) { return p.regsPerBlock; }},
    {72, [](const Properties& p) { return p.regsPerMultiprocessor; }},
    {73, [](const Properties& p) { return clamp(p.reservedSharedMemPerBlock); }},
    {74, [](const Properties& p) { return clamp(p.sharedMemPerBlock); }},
    {75, [](const Properties& p) { return clamp(p.sharedMemPerBlockOptin); }},
    {76, [](const Properties& p) { return clamp(p.sharedMemPerMultiprocessor); }},
    {77, [](const Properties& p) { return p.singleToDoublePrecisionPerfRatio; }},
    {78, [](const Properties& p) { return p.streamPrioritiesSupported; }},
    {79, [](const Properties& p) { return clamp(p.surfaceAlignment); }},
    {80, [](const Properties& p) { return p.tccDriver; }},
    {81, [](const Properties& p) { return clamp(p.textureAlignment); }},
    {82, [](const Properties& p) { return clamp(p.texturePitchAlignment); }},
    {83, [](const Properties& p) { return clamp(p.totalConstMem); }},
    {84, [](const Properties& p) { return clamp(p.totalGlobalMem); }},
    {85, [](const Properties& p) { return p.unifiedAddressing; }},
    {87, [](const Properties& p) { return p.warpSize; }},
    {88, [](const Properties& p) { return p.memoryPoolsSupported; }},
    {89, [](const Properties&) { return 0; }},  // virtual memory management: not here
    {90, [](const Properties& p) { return p.hostRegisterSupported; }},
    {91, [](const Properties& p) { return static_cast<int>(p.memoryPoolSupportedHandleTypes); }},
};

bool common_attribute(int attribute, const Properties& p, int& out) {
  for (const CommonAttribute& row : kCommonAttributes) {
    if (row.number != attribute) continue;
    out = row.read(p);
    return true;
  }
  // 32..38 surfaces and 39..54 textures: Instinct cards have no image instructions, every limit is 0.
  out = 0;
  return attribute >= 32 && attribute <= 54;
}

bool amd_attribute(int attribute, const Device& device, const Properties& p, int& out) {
  switch (attribute - kAmd) {
    case 0: out = p.clockInstructionRate; return true;
    case 2: out = clamp(p.maxSharedMemoryPerMultiProcessor); return true;
    case 7:
    case 8:
    case 9:
    case 10: out = p.cooperativeMultiDeviceLaunch; return true;  // its grids may differ: kernel, grid, block, LDS
    case 11: out = p.isLargeBar; return true;
    case 12: out = p.asicRevision; return true;
    case 13:                        // hipStreamWaitValue: not here
    case 14: out = 0; return true;  // images
    case 15: out = p.multiProcessorCount; return true;
    case 16: out = 1; return true;       // fine-grained memory: all of it is
    case 17: out = 100000; return true;  // wall_clock64() counts at 100 MHz
    case 18: out = card(device).xccs; return true;
    case 19: out = 512; return true;  // registers of a work item at most, both files
    case 20: out = card(device).pci_chip; return true;
    default: return false;
  }
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipDeviceGetAttribute(int* out, int attribute, int ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    const hipDeviceProp_tR0600 all = properties(*device);
    int value = 0;
    const bool known =
        attribute < kAmd ? common_attribute(attribute, all, value) : amd_attribute(attribute, *device, all, value);
    if (!known) return fail(hipErrorInvalidValue, "there is no attribute %d", attribute);
    *out = value;
    return hipSuccess;
  });
}
