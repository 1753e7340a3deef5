// Section headers are no part of what is loaded: a file whose headers are broken has no lines, and runs.
#include "machine/dwarf/debug_sections.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kHeadersAt = 40, kHeaderBytesAt = 58, kHeaderCountAt = 60,
                        kNamesAt = 62;  // in the file's header
constexpr std::uint64_t kHeaderBytes = 64, kCompressed = 0x800;
constexpr std::uint32_t kNoBits = 8;

struct Section {
  std::uint32_t name = 0, type = 0;
  std::uint64_t flags = 0, offset = 0, bytes = 0;
};

bool read_section(Bytes file, std::uint64_t headers, std::uint32_t index, Section& out) {
  if (headers > file.size()) return false;
  const std::uint64_t at = headers + index * kHeaderBytes;
  return get(file, at, out.name) && get(file, at + 4, out.type) && get(file, at + 8, out.flags) &&
         get(file, at + 24, out.offset) && get(file, at + 32, out.bytes);
}

std::vector<std::uint8_t>* named(DebugSections& sections, std::string_view name) {
  if (name == ".debug_abbrev") return &sections.abbrev;
  if (name == ".debug_addr") return &sections.addr;
  if (name == ".debug_info") return &sections.info;
  if (name == ".debug_line") return &sections.line;
  if (name == ".debug_line_str") return &sections.line_str;
  if (name == ".debug_ranges") return &sections.ranges;
  if (name == ".debug_rnglists") return &sections.rnglists;
  if (name == ".debug_str") return &sections.str;
  if (name == ".debug_str_offsets") return &sections.str_offsets;
  return nullptr;
}

}  // namespace

DebugSections debug_sections(Bytes file) {
  DebugSections out;
  std::uint64_t headers = 0;
  std::uint16_t header_bytes = 0, count = 0, names_index = 0;
  Section names;
  Bytes name_bytes;
  if (!get(file, kHeadersAt, headers) || !get(file, kHeaderBytesAt, header_bytes) || header_bytes != kHeaderBytes ||
      !get(file, kHeaderCountAt, count) || !get(file, kNamesAt, names_index) ||
      !read_section(file, headers, names_index, names) || !slice(file, names.offset, names.bytes, name_bytes))
    return out;
  for (std::uint32_t i = 0; i < count; ++i) {
    Section section;
    std::string_view name;
    Bytes contents;
    if (!read_section(file, headers, i, section) || section.type == kNoBits || (section.flags & kCompressed) != 0 ||
        !get_text(name_bytes, section.name, name) || !name.starts_with(".debug_") ||
        !slice(file, section.offset, section.bytes, contents))
      continue;
    std::vector<std::uint8_t>* to = named(out, name);
    if (to != nullptr && to->empty()) to->assign(contents.begin(), contents.end());
  }
  return out.line.empty() ? DebugSections{} : out;
}

}  // namespace apb::emu
