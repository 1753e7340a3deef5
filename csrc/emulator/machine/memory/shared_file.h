// A piece of memory that other processes may map, found by what a HIP handle holds. Whoever opens one trusts nothing of it: the
// handle may be any 64 bytes, the process gone, its number and its descriptor somebody else's by now.
#pragma once

#include <cstdint>
#include <string>

namespace apb::emu {

// The place of a shared file. `key` is random, and the file's name: it alone proves that it is the right one.
struct FilePlace {
  std::int32_t process = 0, descriptor = -1;
  std::uint64_t key[2] = {};
};

// The kind of memory's files.
inline constexpr const char* kMemoryKind = "memory";

class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  // `kind`: a word of its name, so that a handle of one kind never opens a file of another. `bytes` of zeros, which can be
  // neither more nor fewer ever after: no access to a mapping of it ends in SIGBUS. Invalid with `problem` (the system's words).
  static SharedFile create(const char* kind, std::uint64_t bytes, std::string& problem);
  // A file of another process, once its name, its seals and its size are what they must be.
  static SharedFile open(const FilePlace& place, const char* kind, std::uint64_t bytes, std::string& problem);

  bool valid() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  // For a handle of the calling process, which may be a child of the one that made the file. False: the program has closed the
  // descriptor, and nobody would find the file.
  bool place(FilePlace& out) const;
  bool same_as(const SharedFile& other) const { return key_[0] == other.key_[0] && key_[1] == other.key_[1]; }

 private:
  bool still_ours() const;
  void close();

  int descriptor_ = -1;
  std::uint64_t key_[2] = {}, inode_ = 0;
};

// Puts the file's pages at [address, address + bytes), whatever is mapped there; whole pages.
bool map_shared(const SharedFile& file, std::uint64_t address, std::uint64_t bytes);
// The same after the file has got what these pages hold: nothing that reads them sees a difference.
bool move_into(const SharedFile& file, std::uint64_t address, std::uint64_t bytes);
// Private zeros there again.
bool map_private(std::uint64_t address, std::uint64_t bytes);

}  // namespace apb::emu
