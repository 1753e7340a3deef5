#include "processor.h"

#include <cpuid.h>

#include <atomic>

namespace apb::emu {
namespace {

// Bits of CPUID 7.0 EBX: AVX-512 F, DQ, CD, BW, VL.
constexpr unsigned kWide = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
constexpr unsigned kSaves = 1u << 27;   // CPUID 1 ECX: XGETBV can be asked
constexpr std::uint32_t kSaved = 0xe6;  // XCR0: the operating system keeps masks and all of the 32 wide registers

// By hand: the compiler's own answer needs a part of its library that not every one links into a shared library.
std::uint32_t saved_registers() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

Vectors processor_vectors() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSaves) == 0) return Vectors::Avx2;
  if ((saved_registers() & kSaved) != kSaved) return Vectors::Avx2;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b & kWide) != kWide) return Vectors::Avx2;
  return Vectors::Avx512;
}

namespace {
std::atomic<Vectors> used{processor_vectors()};
}  // namespace

Vectors widest_vectors() { return used.load(std::memory_order_relaxed); }
void use_vectors(Vectors vectors) { used.store(vectors, std::memory_order_relaxed); }

bool read_vectors(std::string_view word, Vectors& out) {
  if (word != "avx2" && word != "avx512") return false;
  out = word == "avx2" ? Vectors::Avx2 : Vectors::Avx512;
  return out <= processor_vectors();
}

}  // namespace apb::emu
