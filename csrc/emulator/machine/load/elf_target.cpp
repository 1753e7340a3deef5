// e_flags of code object v4 to v6: which processor, and what it takes for granted of XNACK and SRAMECC.
#include <cstdio>

#include "isa/decode.h"
#include "machine/load/elf.h"

namespace apb::emu {
namespace {

constexpr std::uint32_t kMachGfx942 = 0x4c, kMachGfx950 = 0x4f, kMachGfx94Generic = 0x5f;

// LLVM, AMDGPUUsage, "AMDGPU ELF Header e_flags": for the words of a refusal, and no more.
struct MachineName {
  std::uint32_t mach;
  const char* name;
};
constexpr MachineName kMachineNames[] = {
    {0x28, "gfx801"},       {0x29, "gfx802"},          {0x2a, "gfx803"},          {0x2b, "gfx810"},
    {0x2c, "gfx900"},       {0x2d, "gfx902"},          {0x2e, "gfx904"},          {0x2f, "gfx906"},
    {0x30, "gfx908"},       {0x31, "gfx909"},          {0x32, "gfx90c"},          {0x33, "gfx1010"},
    {0x34, "gfx1011"},      {0x35, "gfx1012"},         {0x36, "gfx1030"},         {0x37, "gfx1031"},
    {0x38, "gfx1032"},      {0x39, "gfx1033"},         {0x3d, "gfx1035"},         {0x3e, "gfx1034"},
    {0x3f, "gfx90a"},       {0x40, "gfx940"},          {0x41, "gfx1100"},         {0x42, "gfx1013"},
    {0x43, "gfx1150"},      {0x44, "gfx1103"},         {0x45, "gfx1036"},         {0x46, "gfx1101"},
    {0x47, "gfx1102"},      {0x48, "gfx1200"},         {0x49, "gfx1250"},         {0x4a, "gfx1151"},
    {0x4b, "gfx941"},       {0x4c, "gfx942"},          {0x4e, "gfx1201"},         {0x4f, "gfx950"},
    {0x51, "gfx9-generic"}, {0x52, "gfx10-1-generic"}, {0x53, "gfx10-3-generic"}, {0x54, "gfx11-generic"},
    {0x55, "gfx1152"},      {0x58, "gfx1153"},         {0x59, "gfx12-generic"},   {0x5f, "gfx9-4-generic"},
};

std::string processor(std::uint32_t flags) {
  const std::uint32_t mach = flags & 0xff;
  for (const MachineName& entry : kMachineNames)
    if (entry.mach == mach) return entry.name;
  char text[32];
  std::snprintf(text, sizeof text, "EF_AMDGPU_MACH 0x%02x", mach);
  return text;
}

enum class Feature : std::uint32_t { Unsupported, Any, Off, On };

const char* suffix(Feature feature) { return feature == Feature::On ? "+" : "-"; }

}  // namespace

bool target_of(std::uint32_t flags, Target& target) {
  const std::uint32_t mach = flags & 0xff;
  target = mach == kMachGfx942 ? Target::Gfx942 : Target::Gfx950;  // the generic target's instructions exist on both
  return mach == kMachGfx942 || mach == kMachGfx950 || mach == kMachGfx94Generic;
}

bool target_fits(std::uint32_t flags, Target target, std::string& isa, std::string& problem) {
  const auto xnack = static_cast<Feature>(flags >> 8 & 3), sramecc = static_cast<Feature>(flags >> 10 & 3);
  const std::string found = processor(flags);
  std::string features;
  if (sramecc >= Feature::Off) features += std::string(":sramecc") + suffix(sramecc);
  if (xnack >= Feature::Off) features += std::string(":xnack") + suffix(xnack);
  isa = "amdgcn-amd-amdhsa--" + found + features;
  const std::uint32_t mach = flags & 0xff;
  const bool same = mach == kMachGfx94Generic || mach == (target == Target::Gfx942 ? kMachGfx942 : kMachGfx950);
  if (same && xnack != Feature::On && sramecc != Feature::Off) return true;
  problem = "the code object is for " + found + features + ", the device is " + std::string(name(target)) +
            ":sramecc+:xnack-";
  return false;
}

}  // namespace apb::emu
