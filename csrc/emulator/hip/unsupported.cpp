// The rest of HIP's interface: it is there, says that it does nothing, and what was asked for.
#include "runtime.h"

namespace apb::emu::hip {
namespace {

hipError_t unsupported(const char* name, std::atomic<bool>& said) {
  return entry(name, [&] {
    if (said.exchange(true)) return hipErrorNotSupported;
    return fail(hipErrorNotSupported, "the emulator does not have this");
  });
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

// Arguments lie in registers and on the caller's stack: a function that reads none fits every signature that returns a
// hipError_t.
#define X(NAME)                           \
  APB_HIP hipError_t NAME(void) {         \
    static std::atomic<bool> said{false}; \
    return unsupported(#NAME, said);      \
  }
#include "unsupported.inc"
#undef X

// Registration of things that kernels for these targets cannot have; nothing is returned, so the log is all.
#define X(NAME)                           \
  APB_HIP void NAME(void) {               \
    static std::atomic<bool> said{false}; \
    (void)unsupported(#NAME, said);       \
  }
X(__hipRegisterManagedVar)
X(__hipRegisterSurface)
X(__hipRegisterTexture)
#undef X

APB_HIP hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }
