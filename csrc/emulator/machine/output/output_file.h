// Files that the library writes when a process ends.
#pragma once

#include <string>
#include <string_view>

namespace apb::emu {

// "%pid%" becomes the process's number, so that children do not write over each other.
std::string with_process(std::string_view path);
// Says in the log what went wrong, with the variable's name.
bool write_output(const char* variable, const std::string& path, std::string_view text);

}  // namespace apb::emu
