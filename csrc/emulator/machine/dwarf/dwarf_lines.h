// Line tables: which line of which file each address comes from (DWARF 4 and 5, 6.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/dwarf/dwarf_forms.h"

namespace apb::emu {

struct LineRow {
  std::uint64_t address = 0;  // as in the file
  std::uint32_t file = 0;     // in LineTable::files
  std::uint32_t line = 0, column = 0;
  bool statement = false;  // a place at which to stop
  bool end = false;        // the first address behind a sequence
};

struct LineFile {
  std::string_view directory, name;
  // Joined; `base`: the folder of the compile, for what is relative to it.
  std::string path(std::string_view base) const;
};

struct LineTable {
  std::uint64_t offset = 0;  // in .debug_line: how a unit of .debug_info names it
  std::uint16_t version = 0;
  std::vector<LineFile> files;  // by the number of the table: version 4 counts from 1
  std::vector<LineRow> rows;    // sequence by sequence, addresses ascending within one
};

// All tables of the section that can be read; the first that cannot ends it.
std::vector<LineTable> read_line_tables(const DebugSections& sections);

}  // namespace apb::emu
