// The layout is that of clang-offload-bundler: magic, count, then offset, size, length of the id and the id per entry.
#include "machine/load/fatbin.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "isa/decode.h"

namespace apb::emu {
namespace {

constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__", kCompressedMagic = "CCOB";
constexpr std::uint64_t kMostEntries = 1024, kMostIdBytes = 4096;

struct Entry {
  std::uint64_t offset = 0, bytes = 0;
  std::string_view id;  // "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "host-x86_64-unknown-linux-gnu-"
};

bool begins_with(Bytes image, std::string_view magic) {
  return image.size() >= magic.size() && std::memcmp(image.data(), magic.data(), magic.size()) == 0;
}

bool read_entries(Bytes image, std::vector<Entry>& out) {
  std::uint64_t count = 0, at = kBundleMagic.size();
  if (!get(image, at, count) || count > kMostEntries) return false;
  at += 8;
  for (std::uint64_t i = 0; i < count; ++i) {
    Entry entry;
    std::uint64_t id_bytes = 0;
    Bytes id;
    if (!get(image, at, entry.offset) || !get(image, at + 8, entry.bytes) || !get(image, at + 16, id_bytes) ||
        id_bytes > kMostIdBytes || !slice(image, at + 24, id_bytes, id))
      return false;
    entry.id = {reinterpret_cast<const char*>(id.data()), id.size()};
    out.push_back(entry);
    at += 24 + id_bytes;
  }
  return true;
}

// The processor with its features: what follows the last '-' that is no feature's sign.
std::string_view processor(std::string_view id) {
  const std::size_t at = id.rfind("gfx");
  return at == std::string_view::npos ? std::string_view{} : id.substr(at);
}

bool suits(std::string_view id, std::string_view target) {
  const std::string_view found = processor(id);
  if (!found.starts_with(target) || id.starts_with("host")) return false;
  const std::string_view features = found.substr(target.size());
  return (features.empty() || features[0] == ':') && features.find("xnack+") == std::string_view::npos &&
         features.find("sramecc-") == std::string_view::npos;
}

bool pick(Bytes image, const std::vector<std::string_view>& targets, Bytes& out, std::string& problem) {
  out = image;
  if (begins_with(image, kCompressedMagic)) {
    problem = "a compressed offload bundle (CCOB): unbundle it first, or compile with --no-offload-compress";
    return false;
  }
  if (!begins_with(image, kBundleMagic)) return true;
  std::vector<Entry> entries;
  if (!read_entries(image, entries)) {
    problem = "truncated: the offload bundle's table of entries is not all there";
    return false;
  }
  std::string found, asked;
  for (const std::string_view target : targets) {
    asked += (asked.empty() ? "" : " or ") + std::string(target);
    for (const Entry& entry : entries) {
      if (!suits(entry.id, target)) continue;
      if (slice(image, entry.offset, entry.bytes, out)) return true;
      problem = "truncated: entry " + std::string(entry.id) + " of the offload bundle is not all there";
      return false;
    }
  }
  for (const Entry& entry : entries) found += (found.empty() ? "" : ", ") + std::string(entry.id);
  problem = "the offload bundle has nothing for " + asked + ": it holds " + (found.empty() ? "no entries" : found);
  return false;
}

std::uint64_t claimed_by_elf(Bytes image) {
  std::uint64_t programs = 0, sections = 0, end = 64;
  std::uint16_t program_bytes = 0, programs_count = 0, section_bytes = 0, sections_count = 0;
  if (!get(image, 32, programs) || !get(image, 40, sections) || !get(image, 54, program_bytes) ||
      !get(image, 56, programs_count) || !get(image, 58, section_bytes) || !get(image, 60, sections_count))
    return image.size();
  const auto include = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (offset + bytes >= offset) end = std::max(end, offset + bytes);
  };
  include(programs, std::uint64_t{program_bytes} * programs_count);
  include(sections, std::uint64_t{section_bytes} * sections_count);
  // Loadable segments alone: what the others name lies in these, and where it does not nobody says that it is there.
  for (std::uint64_t i = 0; i < programs_count; ++i) {
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t type = 0;
    constexpr std::uint32_t kLoad = 1;
    const std::uint64_t at = programs + i * program_bytes;
    if (at >= programs && get(image, at, type) && type == kLoad && get(image, at + 8, offset) &&
        get(image, at + 32, bytes))
      include(offset, bytes);
  }
  for (std::uint64_t i = 0; i < sections_count; ++i) {
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t type = 0;
    const std::uint64_t at = sections + i * section_bytes;
    constexpr std::uint32_t kNoBits = 8;
    if (at >= sections && get(image, at + 4, type) && type != kNoBits && get(image, at + 24, offset) &&
        get(image, at + 32, bytes))
      include(offset, bytes);
  }
  return end;
}

}  // namespace

bool unwrap(Bytes image, Target target, Bytes& out, std::string& problem) {
  return pick(image, {name(target), "gfx9-4-generic"}, out, problem);
}

bool unwrap_any(Bytes image, Bytes& out, std::string& problem) {
  return pick(image, {name(Target::Gfx942), name(Target::Gfx950), "gfx9-4-generic"}, out, problem);
}

std::uint64_t claimed_bytes(Bytes image) {
  if (begins_with(image, "\177ELF")) return claimed_by_elf(image);
  if (begins_with(image, kCompressedMagic))
    return std::min<std::uint64_t>(image.size(), 32);  // enough to be refused by name
  if (!begins_with(image, kBundleMagic)) return 0;
  std::vector<Entry> entries;
  std::uint64_t end = kBundleMagic.size() + 8;
  if (!read_entries(image, entries)) return image.size();
  for (const Entry& entry : entries) {
    const std::uint64_t id_end =
        static_cast<std::uint64_t>(entry.id.data() - reinterpret_cast<const char*>(image.data())) + entry.id.size();
    end = std::max(end, id_end);
    if (entry.offset + entry.bytes >= entry.offset) end = std::max(end, entry.offset + entry.bytes);
  }
  return end;
}

}  // namespace apb::emu
