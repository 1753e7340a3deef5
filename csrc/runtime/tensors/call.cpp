#include "tensors/call.h"

#include "errors.h"

namespace apb {

int dtype_number(std::uint32_t packed) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (pack_dtype(kDTypes[i]) == packed) return static_cast<int>(i);
  }
  return -1;
}

std::string dtype_text(std::uint32_t packed) {
  const int number = dtype_number(packed);
  if (number >= 0) return kDTypes[static_cast<std::size_t>(number)].name;
  return cat("DLPack type code ", packed & 0xff, ", ", (packed >> 8) & 0xff, " bits, ", packed >> 16, " lanes");
}

std::string memory_text(DLDeviceType type) {
  if (type == kDLCPU) return "a tensor on the CPU";
  return cat("memory of DLPack device type ", static_cast<std::int32_t>(type));
}

}  // namespace apb
