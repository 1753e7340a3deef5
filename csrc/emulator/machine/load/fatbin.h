// Containers around code objects: clang's offload bundles.
#pragma once

#include <string>

#include "isa/instruction.h"
#include "machine/load/bytes.h"

namespace apb::emu {

// `image` itself when it is no container; else the entry for `target` (its processor named exactly, xnack and sramecc
// not against the device). False with `problem`, which lists the entries there are.
[[nodiscard]] bool unwrap(Bytes image, Target target, Bytes& out, std::string& problem);

// The first entry that is for one of our targets, whichever it is.
[[nodiscard]] bool unwrap_any(Bytes image, Bytes& out, std::string& problem);

// The last byte that the headers at the start of `image` claim; 0 when nothing known begins there.
std::uint64_t claimed_bytes(Bytes image);

}  // namespace apb::emu
