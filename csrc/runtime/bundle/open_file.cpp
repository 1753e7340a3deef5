#include "bundle/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace apb {
namespace {

using Facts = struct ::stat;

// A named pipe is not waited for, and no terminal becomes the process's own.
int open_to_read(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }

bool same_file(const Facts& a, const Facts& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool same_time(const ::timespec& a, const ::timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool fail(const std::string& path, std::string found, Error& error) {
  return error.set(ErrorKind::BundleDamaged, cat("open the bundle ", path), std::move(found),
                   "Reinstall the wheel that owns this file");
}

}  // namespace

OpenFile::~OpenFile() {
  Facts now = {};
  const int mine = handle_.load();
  if (mine >= 0 && ::fstat(mine, &now) == 0 && same_file(now, opened_)) ::close(mine);
}

bool OpenFile::open(const std::string& path, Error& error) {
  path_ = path;
  const int file = open_to_read(path);
  if (file < 0) return fail(path, cat("the file cannot be opened: ", system_error_text(errno)), error);
  if (::fstat(file, &opened_) != 0) {
    fail(path, cat("the file's size cannot be read: ", system_error_text(errno)), error);
    ::close(file);
    return false;
  }
  if (!S_ISREG(opened_.st_mode)) {
    ::close(file);
    return fail(path, "it is not a regular file", error);
  }
  handle_.store(file);
  return true;
}

int OpenFile::handle() const {
  Facts now = {};
  int mine = handle_.load();
  if (mine >= 0 && ::fstat(mine, &now) == 0 && same_file(now, opened_)) return mine;
  // A program that becomes a daemon closes all handles, and the number may be another file's by now: it is not ours to close.
  const int again = open_to_read(path_);
  if (again < 0) return -1;
  if (::fstat(again, &now) != 0 || !same_file(now, opened_)) {
    ::close(again);
    return -1;
  }
  if (handle_.compare_exchange_strong(mine, again)) return again;
  ::close(again);
  return mine;
}

bool OpenFile::read(std::uint64_t offset, std::size_t size, void* out, std::string& reason) const {
  const int file = handle();
  if (file < 0) {
    reason = "its handle was closed, and its name is another file's or nobody's now";
    return false;
  }
  auto* to = static_cast<std::uint8_t*>(out);
  while (size != 0) {
    const ::ssize_t got = ::pread(file, to, size, static_cast<::off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      reason = got == 0 ? cat("it ends before byte ", offset + size) : system_error_text(errno);
      return false;
    }
    to += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::string OpenFile::change() const {
  Facts now = {};
  const int file = handle();
  if (file < 0 || ::fstat(file, &now) != 0) return {};
  if (now.st_size != opened_.st_size) {
    return cat("the file changed since it was opened: it had ", opened_.st_size, " bytes and has ", now.st_size);
  }
  return same_time(now.st_mtim, opened_.st_mtim) ? std::string() : "the file changed since it was opened";
}

}  // namespace apb
