#include "machine/output/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "machine/settings/configuration.h"

namespace apb::emu {

std::string with_process(std::string_view path) {
  constexpr std::string_view kProcess = "%pid%";
  std::string out(path);
  for (std::size_t at = out.find(kProcess); at != std::string::npos; at = out.find(kProcess))
    out.replace(at, kProcess.size(), std::to_string(::getpid()));
  return out;
}

bool write_output(const char* variable, const std::string& path, std::string_view text) {
  // Not fopen: it would wait for the reader of a named pipe, at the end of the process.
  const int handle = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  std::FILE* file = handle < 0 ? nullptr : ::fdopen(handle, "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) != 0) written = false;
  if (!written) log(LogLevel::Error, "%s: cannot write '%s': %s", variable, path.c_str(), std::strerror(errno));
  return written;
}

}  // namespace apb::emu
