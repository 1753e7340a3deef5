// Maps each address to its function and its inlined calls (.debug_info, DWARF 4 and 5).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "machine/dwarf/dwarf_forms.h"

namespace apb::emu {

struct FunctionSpan {
  std::uint64_t begin = 0, end = 0;  // addresses as in the file
  std::uint32_t depth = 0;           // of the entry in its unit's tree: what is inlined lies deeper
  std::uint64_t entry = 0;           // offset of the entry: one for each place at which a function is inlined
  std::uint64_t named_by = 0;        // offset of the entry that has the name
  bool inlined = false;
  std::uint32_t call_file = 0, call_line = 0, call_column = 0;  // where it was inlined
  std::uint32_t unit = 0;                                       // in DebugUnits::units
};

struct DebugUnit {
  std::uint64_t line_table = ~std::uint64_t{0};  // offset in .debug_line
  std::string_view directory;                    // of the compile
};

struct DebugName {
  std::uint64_t entry = 0, origin = 0;  // an entry without a name has that of its origin
  std::string_view name;
};

struct DebugUnits {
  std::vector<DebugUnit> units;
  std::vector<FunctionSpan> spans;
  std::vector<DebugName> names;  // by entry

  std::string_view name_of(std::uint64_t entry) const;  // empty: it has none
};

// All units that can be read; the first that cannot ends it.
DebugUnits read_debug_units(const DebugSections& sections);

}  // namespace apb::emu
