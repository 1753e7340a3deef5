#include "machine/memory/untrusted.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

namespace apb::emu {
namespace {

constexpr std::size_t kMostVectors = 512;  // half of what one call takes

std::size_t read_plainly(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces)
    if (piece.bytes != 0) std::memcpy(piece.to, piece.from, piece.bytes);
  return kAllRead;
}

// As read_untrusted(), for the pieces of one call.
std::size_t read_some(std::span<const Piece> pieces) {
  static std::atomic<bool> allowed{true};
  if (!allowed.load(std::memory_order_relaxed)) return read_plainly(pieces);
  std::vector<iovec> local, remote;
  std::size_t wanted = 0;
  for (const Piece& piece : pieces) {
    local.push_back({piece.to, piece.bytes});
    remote.push_back({const_cast<void*>(piece.from), piece.bytes});
    wanted += piece.bytes;
  }
  if (wanted == 0) return kAllRead;
  const ssize_t moved = process_vm_readv(getpid(), local.data(), local.size(), remote.data(), remote.size(), 0);
  if (moved < 0 && errno != EFAULT) {
    allowed = false;
    return read_plainly(pieces);
  }
  std::size_t done = moved < 0 ? 0 : static_cast<std::size_t>(moved), wrong = 0;
  if (done == wanted) return kAllRead;
  while (wrong + 1 < pieces.size() && done >= pieces[wrong].bytes) done -= pieces[wrong++].bytes;
  return wrong;
}

}  // namespace

std::size_t read_untrusted(std::span<const Piece> pieces) {
  for (std::size_t first = 0; first < pieces.size(); first += kMostVectors) {
    const auto part = pieces.subspan(first, std::min(kMostVectors, pieces.size() - first));
    if (const std::size_t wrong = read_some(part); wrong != kAllRead) return first + wrong;
  }
  return kAllRead;
}

}  // namespace apb::emu
