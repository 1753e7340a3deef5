#pragma once

#include "machine/dwarf/dwarf_forms.h"
#include "machine/load/bytes.h"

namespace apb::emu {

// The debug sections of an ELF file that has been read as one; all are empty when it has no line tables, or they are compressed.
DebugSections debug_sections(Bytes file);

}  // namespace apb::emu
