// One file that is read in pieces for as long as the process lives, whatever happens to its name and its bytes meanwhile.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.h"

namespace apb {

// Nothing is mapped: a file that is copied over, and is shorter for a moment, would end the process (SIGBUS) at the first
// touch of a page behind its end. A file that is replaced by another under its name stays the one that was opened.
class OpenFile {
 public:
  OpenFile() = default;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  // Opens `path`, without waiting for anybody; an Error (BundleDamaged) names the path and the reason. Call once.
  [[nodiscard]] bool open(const std::string& path, Error& error);

  // Bytes that are inside the file as it was opened. False when they cannot be read, with `reason` in words. Any thread.
  [[nodiscard]] bool read(std::uint64_t offset, std::size_t size, void* out, std::string& reason) const;

  // Describes changes to the file since it was opened; empty when there are none.
  std::string change() const;

  // The size when the file was opened.
  std::uint64_t size() const { return static_cast<std::uint64_t>(opened_.st_size); }

 private:
  // The handle, or another on the same file when somebody has closed it; -1 when the file is not to be had any more.
  int handle() const;

  std::string path_;
  struct ::stat opened_ = {};
  mutable std::atomic<int> handle_{-1};
};

}  // namespace apb
