// The sections of DWARF 4 and 5 that say where code comes from, and the values that stand in them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "machine/dwarf/dwarf_cursor.h"

namespace apb::emu {

// Copies: the file that a program loads may be gone when somebody asks for a line.
struct DebugSections {
  std::vector<std::uint8_t> abbrev, addr, info, line, line_str, ranges, rnglists, str, str_offsets;
};

// The facts of a unit on which its values depend.
struct DwarfUnit {
  std::uint64_t offset = 0;  // of the unit in .debug_info
  std::uint16_t version = 0;
  std::uint8_t address_bytes = 8;
  bool wide = false;  // 64-bit DWARF
  std::uint64_t str_offsets_base = 0, addr_base = 0, rnglists_base = 0;
  std::uint64_t low = 0;  // base of its range lists
};

enum class ValueKind : std::uint8_t { None, Number, Text, Address, Reference, Section, Index, Other };

struct DwarfValue {
  ValueKind kind = ValueKind::None;
  std::uint64_t number = 0;  // a reference: offset in .debug_info; an index: of a range list
  std::string_view text;
};

// One value of the form `code`. False: a form that is not known, so that nothing behind it can be read; `cursor` fails then, too.
[[nodiscard]] bool read_form(DwarfCursor& cursor, std::uint64_t code, std::int64_t implicit, const DwarfUnit& unit,
                             const DebugSections& sections, DwarfValue& out);

}  // namespace apb::emu
