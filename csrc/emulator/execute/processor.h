// The vector instructions of the processor that are used.
#pragma once

#include <cstdint>
#include <string_view>

namespace apb::emu {

enum class Vectors : std::uint8_t { Avx2, Avx512 };

// The vector instructions of the processor and its operating system. Avx512: F, BW, CD, DQ and VL, as compilers' x86-64-v4.
Vectors processor_vectors() noexcept;
// The vector instructions in use: the widest ones, unless use_vectors() set less. Results are the same bits.
Vectors widest_vectors();
void use_vectors(Vectors vectors);
// "avx2" or, on a processor that has it, "avx512".
bool read_vectors(std::string_view word, Vectors& out);

}  // namespace apb::emu
