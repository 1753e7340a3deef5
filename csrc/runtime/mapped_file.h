// One file mapped for reading. Pages come in when they are touched, and processes share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.h"

namespace apb {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Maps all of `path`; an Error (BundleDamaged) names the path and the system's reason. An empty file maps to size 0.
  [[nodiscard]] bool open(const std::string& path, Error& error);

  // Copies bytes inside the file: by reading until settle(), from the mapping after it. Some kernels map the whole huge
  // page around the first byte touched; a bundle that is only opened shall not cost 2 MB. False when it is shorter now.
  [[nodiscard]] bool copy(std::size_t offset, std::size_t size, void* out) const;
  // Gives the file's handle back; the mapping stays.
  void settle();

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  int handle_ = -1;
};

}  // namespace apb
