// One line on standard error per message.
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "machine/output/json.h"
#include "machine/settings/configuration.h"

namespace apb::emu {

void log(LogLevel level, const char* format, ...) {
  if (level == LogLevel::Off || level > configuration().log) return;
  std::string line = "aiter-prebuilt-emulator: ";
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  if (length > 0) {
    const std::size_t start = line.size();
    line.resize(start + static_cast<std::size_t>(length) + 1);
    std::vsnprintf(line.data() + start, static_cast<std::size_t>(length) + 1, format, again);
    line.pop_back();  // the terminating zero
  }
  make_printable(line);
  line += '\n';
  va_end(again);
  // One write per line: lines of several threads and processes do not mix. Nobody to tell when standard error is
  // closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace apb::emu
