// Every kernel of a file, from its metadata and its descriptors: what a launch goes by.
#pragma once

#include <string>
#include <vector>

#include "machine/load/bytes.h"
#include "machine/load/elf.h"
#include "machine/load/metadata.h"

namespace apb::emu {

// Kernels in the order of the metadata, then those that have a descriptor alone (hand-written objects).
// `image`: the loaded segments; `code`: the executable one, null when the file has none. A kernel's `descriptor` is its
// offset in the image.
[[nodiscard]] bool read_kernels(const ElfFile& file, Bytes image, const ElfSegment* code,
                                std::vector<DescribedKernel>& out, std::string& problem);

// The same without a device, as JSON: {"version": 1, "isa", "code_object", "kernels": [...]} or {"version": 1, "error"}.
std::string metadata_json(Bytes image);

}  // namespace apb::emu
