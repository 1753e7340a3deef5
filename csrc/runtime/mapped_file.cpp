#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace apb {
namespace {

bool fail(const std::string& path, const char* what, Error& error) {
  return error.set(ErrorKind::BundleDamaged, cat("opening the bundle ", path),
                   cat(what, ": ", system_error_text(errno)), "Reinstall the wheel that owns this file");
}

}  // namespace

MappedFile::~MappedFile() {
  settle();
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

bool MappedFile::open(const std::string& path, Error& error) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(path, "the file cannot be opened", error);
  struct stat facts = {};
  if (::fstat(file, &facts) != 0) {
    fail(path, "the file's size cannot be read", error);
    ::close(file);
    return false;
  }
  if (!S_ISREG(facts.st_mode)) {
    ::close(file);
    errno = EINVAL;
    return fail(path, "not a regular file", error);
  }
  void* mapped = nullptr;
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size != 0) mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED) {
    fail(path, "the file cannot be mapped", error);
    ::close(file);
    return false;
  }
  handle_ = file;
  data_ = static_cast<const std::uint8_t*>(mapped);
  size_ = size;
  return true;
}

bool MappedFile::copy(std::size_t offset, std::size_t size, void* out) const {
  if (handle_ < 0) {
    std::memcpy(out, data_ + offset, size);
    return true;
  }
  auto* to = static_cast<std::uint8_t*>(out);
  while (size != 0) {
    const ::ssize_t got = ::pread(handle_, to, size, static_cast<::off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::size_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

void MappedFile::settle() {
  if (handle_ >= 0) ::close(handle_);
  handle_ = -1;
}

}  // namespace apb
