#include "bundle/zstd_decoder.h"

#include <zstd.h>

#include <memory>

#include "errors.h"

namespace apb {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

bool zstd_decode(std::span<const std::uint8_t> frame, std::span<const std::uint8_t> dictionary, std::uint8_t* out,
                 std::size_t raw_size, std::string& problem) {
  const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) {
    problem = "no memory for a zstd context";
    return false;
  }
  // A prefix is raw content for one frame; a "dictionary" would be parsed when it happens to start with zstd's magic.
  if (!dictionary.empty()) {
    const std::size_t status = ZSTD_DCtx_refPrefix(context.get(), dictionary.data(), dictionary.size());
    if (ZSTD_isError(status) != 0) {
      problem = ZSTD_getErrorName(status);
      return false;
    }
  }
  const std::size_t size = ZSTD_decompressDCtx(context.get(), out, raw_size, frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) {
    problem = ZSTD_getErrorName(size);
    return false;
  }
  if (size != raw_size) {
    problem = cat("the frame decodes to ", size, " bytes, not ", raw_size);
    return false;
  }
  return true;
}

}  // namespace apb
