// Reads the stored parts of a bundle: bounds and hashes, zstd frames, and the dictionaries that frames share.
// src/aiter_prebuilt/contract/bundle.py specifies the bytes. Only the file is touched, and state under a lock that nobody waits
// for. So any thread may call this, with or without the GIL.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bundle/open_file.h"
#include "bundle_layout.h"

namespace apb {

// Page-aligned bytes from malloc: code objects are large, and running out of memory must be an error, not an abort.
class Bytes {
 public:
  [[nodiscard]] bool allocate(std::size_t size);
  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::uint8_t* data) const;
  };
  std::unique_ptr<std::uint8_t, Free> data_;
  std::size_t size_ = 0;
};

class Frames {
 public:
  // `file` and `dictionaries` outlive this. Reads the table of code objects. `problem` says what is wrong.
  [[nodiscard]] bool open(const OpenFile& file, std::span<const layout::Stored> dictionaries, const layout::Root& root,
                          std::string& problem);

  // The decoded bytes of a part with a hash of its own, at least `least` of them, in memory aligned to 8 bytes.
  [[nodiscard]] bool region(const layout::Stored& stored, std::uint64_t least, const std::string& what,
                            std::vector<std::uint64_t>& out, std::string& problem) const;

  // The decoded bytes of a code object; the caller compares their hash.
  [[nodiscard]] bool code_object(std::uint32_t index, Bytes& out, std::string& problem) const;

 private:
  // The common part of `Stored` and `CodeObject`, and the place of the stored bytes.
  struct Frame {
    std::uint64_t offset;
    std::uint32_t stored_size;
    std::uint32_t raw_size;
    std::uint32_t dictionary;
    std::uint32_t encoding;
  };

  bool check(const Frame& frame, std::uint32_t most, const std::string& what, std::string& problem) const;
  // A copy of the stored bytes, their hash checked: a file changed in place later cannot change what was checked.
  bool read_part(const layout::Stored& stored, std::uint64_t least, std::uint32_t most, const std::string& what,
                 Bytes& copy, std::string& problem) const;
  bool decode(const Frame& frame, std::span<const std::uint8_t> stored, const std::string& what, std::uint8_t* out,
              std::string& problem) const;
  // `size` bytes at `offset`, which are inside the file.
  bool fetch(std::uint64_t offset, std::size_t size, const std::string& what, Bytes& copy, std::string& problem) const;
  std::shared_ptr<const Bytes> dictionary(std::uint32_t index, std::string& problem) const;
  std::shared_ptr<const Bytes> decode_dictionary(std::uint32_t index, std::string& problem) const;
  void keep(std::uint32_t index, std::shared_ptr<const Bytes> content) const;

  const OpenFile* file_ = nullptr;
  std::span<const layout::Stored> dictionaries_;
  std::vector<Frame> table_;

  // The dictionaries used last, the latest first.
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::uint32_t, std::shared_ptr<const Bytes>>> kept_;
};

}  // namespace apb
