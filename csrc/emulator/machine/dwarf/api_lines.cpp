// Source lines for those who have a file and no device.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "apb_emulator.h"
#include "machine/dwarf/debug_sections.h"
#include "machine/dwarf/source_lines.h"
#include "machine/load/elf.h"
#include "machine/load/fatbin.h"
#include "machine/load/functions.h"
#include "machine/output/json.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

char* owned(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::string error_json(const std::string& problem) { return R"({"version": 1, "error": )" + json_text(problem) + "}"; }

std::string frames_json(const std::vector<SourceFrame>& frames) {
  std::string out = "[";
  for (const SourceFrame& frame : frames)
    out += (out.size() > 1 ? ", " : "") + (R"({"function": )" + json_text(frame.function)) + R"(, "file": )" +
           json_text(frame.file) + R"(, "line": )" + std::to_string(frame.line) + R"(, "column": )" +
           std::to_string(frame.column) + "}";
  return out + "]";
}

std::string lines_json(std::span<const std::uint8_t> image) {
  Bytes bytes;
  ElfFile file;
  std::string problem;
  if (!unwrap_any(image, bytes, problem) || !read_elf(bytes, file, problem)) return error_json(problem);
  const ElfSegment* code = executable_segment(file);
  if (code == nullptr) return error_json("no code in the file");
  const SourceLines lines(debug_sections(bytes), code->address, code->file_bytes);
  std::string out = R"({"version": 1, "files": [)";
  const char* separator = "";
  for (const std::string& name : lines.files()) {
    out += separator + json_text(name);
    separator = ", ";
  }
  out += R"(], "lines": [)";
  separator = "";
  std::string last = "[]";
  for (std::uint64_t offset = 0; offset + 4 <= code->file_bytes; offset += 4) {
    std::string frames = frames_json(lines.frames(static_cast<std::uint32_t>(offset)));
    if (frames == last) continue;
    out += separator + (R"({"offset": )" + std::to_string(offset)) + R"(, "frames": )" + frames + "}";
    last = std::move(frames);
    separator = ", ";
  }
  return out + "]}";
}

}  // namespace
}  // namespace apb::emu

using namespace apb::emu;

extern "C" char* apb_emulator_lines(const void* image, size_t bytes) try {
  if (!image) bytes = 0;
  return owned(lines_json({static_cast<const std::uint8_t*>(image), bytes}));
} catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_lines: %s", error.what());
  return nullptr;
}
