#include "machine/debug/debug_channel.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_sigmask is POSIX
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "machine/debug/debug_commands.h"
#include "machine/debug/debug_state.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::size_t kLongestLine = 1 << 22;  // of a command; a list of breakpoints

int connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int handle = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return -1;
  if (::connect(handle, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return handle;
  const int error = errno;
  ::close(handle);
  errno = error;
  return -1;
}

// The program's handlers run on its own threads.
std::thread without_signals(void (*work)()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread made(work);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace

DebugChannel& DebugChannel::instance() {
  static DebugChannel* const only = new DebugChannel;
  return *only;
}

bool DebugChannel::open() {
  if (process_ == 0) {
    const std::lock_guard guard(opening_);
    if (process_ == 0) connect();
  }
  return process_ == ::getpid() && DebugState::instance().attached();
}

void DebugChannel::connect() {
  const std::string& path = configuration().debug_socket;
  handle_ = connected(path);
  if (handle_ < 0) {
    log(LogLevel::Error,
        "AITER_PREBUILT_EMULATOR_DEBUG: cannot connect to '%s': %s; start the program with aiter-prebuilt-emulator "
        "debug",
        path.c_str(), std::strerror(errno));
    process_ = ::getpid();
    return;
  }
  send(R"({"event": "hello", "version": 1, "process": )" + std::to_string(::getpid()) + "}");
  try {
    DebugState::instance().attach();
    without_signals([] { DebugChannel::instance().serve(); }).detach();
    begun_.wait(false);
  } catch (const std::system_error& error) {
    DebugState::instance().detach();
    log(LogLevel::Error, "AITER_PREBUILT_EMULATOR_DEBUG: no thread for it: %s", error.what());
  }
  process_ = ::getpid();
}

void DebugChannel::send(const std::string& line) {
  const std::lock_guard guard(sending_);
  const std::string whole = line + "\n";
  std::size_t done = 0;
  while (done < whole.size()) {
    const ssize_t sent = ::send(handle_, whole.data() + done, whole.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // serve() sees the end, too
    done += static_cast<std::size_t>(sent);
  }
}

void DebugChannel::begin() {
  begun_ = true;
  begun_.notify_all();
}

// Until the other side is gone; then everybody goes on as if nobody had looked.
void DebugChannel::serve() {
  std::string text;
  char part[4096];
  while (text.size() < kLongestLine) {
    const ssize_t got = ::recv(handle_, part, sizeof part, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
    std::size_t begin_of_line = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin_of_line)) {
      send(answer_command(std::string_view(text).substr(begin_of_line, end - begin_of_line)));
      begin_of_line = end + 1;
    }
    text.erase(0, begin_of_line);
  }
  DebugState::instance().detach();
  begin();
  ::shutdown(handle_, SHUT_RDWR);
}

}  // namespace apb::emu
