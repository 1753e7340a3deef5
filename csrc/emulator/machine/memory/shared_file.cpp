#include "machine/memory/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "machine/memory/page.h"

namespace apb::emu {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string name_of(const char* kind, const std::uint64_t* key) {
  char text[128];
  std::snprintf(text, sizeof text, "aiter-prebuilt-%s-%016" PRIx64 "%016" PRIx64, kind, key[0], key[1]);
  return text;
}

std::string system_says(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

// The system's name of the open file, which no other process can change.
std::string link_of(int descriptor) {
  char path[64], text[256];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  const ssize_t length = ::readlink(path, text, sizeof text);
  return length < 0 ? std::string() : std::string(text, static_cast<std::size_t>(length));
}

bool write_page(int descriptor, const std::uint8_t* from, std::uint64_t at) {
  for (std::uint64_t done = 0; done < kPage;) {
    const ssize_t wrote = ::pwrite(descriptor, from + done, kPage - done, static_cast<off_t>(at + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<std::uint64_t>(wrote);
  }
  return true;
}

// The touched pages of this process: reading the others would cost as much as having them. All pages where the system does not
// say (it does not even know of a page of the stack).
class TouchedPages {
 public:
  TouchedPages() : descriptor_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {
    const int here = 0;
    trusted_ = descriptor_ >= 0 && read(reinterpret_cast<std::uint64_t>(&here) / kPage) && holds(entries_[0]);
  }
  TouchedPages(const TouchedPages&) = delete;
  TouchedPages& operator=(const TouchedPages&) = delete;
  ~TouchedPages() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool operator()(std::uint64_t address) {
    if (!trusted_) return true;
    const std::uint64_t page = address / kPage;
    if ((page < first_ || page >= first_ + count_) && !read(page)) return true;
    return holds(entries_[page - first_]);
  }

 private:
  static bool holds(std::uint64_t entry) { return (entry >> 62) != 0; }  // in memory, or swapped out
  bool read(std::uint64_t page) {
    const ssize_t bytes = ::pread(descriptor_, entries_, sizeof entries_, static_cast<off_t>(page * sizeof *entries_));
    first_ = page;
    count_ = bytes > 0 ? static_cast<std::uint64_t>(bytes) / sizeof *entries_ : 0;
    return count_ != 0;
  }

  int descriptor_;
  bool trusted_ = false;
  std::uint64_t entries_[512] = {}, first_ = 0, count_ = 0;
};

bool all_zeros(const std::uint8_t* page) { return page[0] == 0 && std::memcmp(page, page + 1, kPage - 1) == 0; }

}  // namespace

SharedFile::SharedFile(SharedFile&& other) noexcept { *this = std::move(other); }

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  std::ranges::copy(other.key_, key_);
  inode_ = other.inode_;
  return *this;
}

SharedFile::~SharedFile() { close(); }

// A program that closes every descriptor it does not know (a daemon) may have opened something else under this number.
bool SharedFile::still_ours() const {
  struct ::stat found{};
  return descriptor_ >= 0 && ::fstat(descriptor_, &found) == 0 && found.st_ino == inode_ && found.st_nlink == 0 &&
         ::fcntl(descriptor_, F_GET_SEALS) == kSeals;
}

void SharedFile::close() {
  if (still_ours()) ::close(descriptor_);
  descriptor_ = -1;
}

SharedFile SharedFile::create(const char* kind, std::uint64_t bytes, std::string& problem) {
  SharedFile made;
  struct ::stat found{};
  if (::getrandom(made.key_, sizeof made.key_, 0) != static_cast<ssize_t>(sizeof made.key_)) {
    problem = system_says("getrandom");
    return made;
  }
  const int descriptor = ::memfd_create(name_of(kind, made.key_).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    problem = system_says("memfd_create");
    return made;
  }
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 || ::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0 ||
      ::fstat(descriptor, &found) != 0) {
    problem = system_says("a file in memory");
    ::close(descriptor);
    return made;
  }
  made.descriptor_ = descriptor;
  made.inode_ = found.st_ino;
  return made;
}

SharedFile SharedFile::open(const FilePlace& place, const char* kind, std::uint64_t bytes, std::string& problem) {
  SharedFile none;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", place.process, place.descriptor);
  // A device or a pipe under that number must neither block nor become this process's terminal. The look through O_PATH opens
  // nothing: only a file with the right name is opened.
  const int look = ::open(path, O_PATH | O_CLOEXEC);
  if (look < 0) {
    problem = system_says(path) + " (the process that made the handle must run, and be this user's)";
    return none;
  }
  const std::string expected = "/memfd:" + name_of(kind, place.key) + " (deleted)";
  const bool right = link_of(look) == expected;
  struct ::stat found{};
  const bool plain = ::fstat(look, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 0;
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", look);
  const int descriptor = right && plain ? ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
  const bool opened = descriptor >= 0 || !right || !plain;
  if (!opened) problem = system_says(path);
  ::close(look);
  if (!opened) return none;
  if (!right || !plain) {
    problem = "process " + std::to_string(place.process) +
              " has freed what the handle was made of, or is another process by now";
    return none;
  }
  if (::fcntl(descriptor, F_GET_SEALS) != kSeals || found.st_size < 0 ||
      static_cast<std::uint64_t>(found.st_size) != bytes) {
    problem = "the file has " + std::to_string(found.st_size) + " bytes, the handle says " + std::to_string(bytes) +
              ", or its size is not sealed";
    ::close(descriptor);
    return none;
  }
  none.descriptor_ = descriptor;
  std::ranges::copy(place.key, none.key_);
  none.inode_ = found.st_ino;
  return none;
}

bool SharedFile::place(FilePlace& out) const {
  if (!still_ours()) return false;
  out.process = ::getpid();
  out.descriptor = descriptor_;
  std::ranges::copy(key_, out.key);
  return true;
}

bool map_shared(const SharedFile& file, std::uint64_t address, std::uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file.descriptor(), 0) == at;
}

bool move_into(const SharedFile& file, std::uint64_t address, std::uint64_t bytes) {
  TouchedPages touched;
  for (std::uint64_t at = 0; at < bytes; at += kPage) {
    if (!touched(address + at)) continue;
    const auto* page = reinterpret_cast<const std::uint8_t*>(address + at);
    if (!all_zeros(page) && !write_page(file.descriptor(), page, at)) return false;
  }
  return map_shared(file, address, bytes);
}

bool map_private(std::uint64_t address, std::uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0) != at) return false;
  ::madvise(at, bytes, MADV_DONTDUMP);
  return true;
}

}  // namespace apb::emu
