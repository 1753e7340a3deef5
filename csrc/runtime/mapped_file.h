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

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace apb
