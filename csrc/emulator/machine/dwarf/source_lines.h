// Source lines of a code object, read when somebody first asks for one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "execute/lines.h"
#include "machine/dwarf/dwarf_forms.h"

namespace apb::emu {

struct SourceFrame {
  std::string function, file;
  std::uint32_t line = 0, column = 0;
};

class SourceLines final : public Lines {
 public:
  // `code`: address of the executable segment in the file, `bytes` its size. Offsets below count from there.
  SourceLines(DebugSections sections, std::uint64_t code, std::uint64_t bytes);
  SourceLines(const SourceLines&) = delete;
  SourceLines& operator=(const SourceLines&) = delete;
  ~SourceLines() override;

  // The line, then the calls through which it was inlined; line 0: code of no line. Empty: nothing is known.
  std::vector<SourceFrame> frames(std::uint32_t offset) const;
  std::string text(std::uint32_t offset) const override;
  // Finds the places to stop for a line: the first instruction of it, or of the next line that has one, in each function (inlined
  // ones each). `found`: that line, 0 for none.
  std::vector<std::uint32_t> places(std::string_view file, std::uint32_t line, std::uint32_t& found) const;
  // Is it of one of the lines first to last of `file`, or inlined from there?
  bool within(std::uint32_t offset, std::string_view file, std::uint32_t first, std::uint32_t last) const;
  // A number for the line in the function, and one for each that is inlined there, the outermost first: equal for instructions that
  // come from the same line of the same call. Empty: code of no line.
  std::vector<std::uint64_t> levels(std::uint32_t offset) const;
  std::vector<std::string> files() const;

 private:
  struct Read;
  const Read& read() const;

  const std::uint64_t code_, bytes_;
  mutable std::mutex mutex_;
  mutable DebugSections sections_;
  mutable std::unique_ptr<Read> read_;
};

// One names the other's end: "x.hip" and "/home/me/x.hip", "a/x.hip" and "/home/me/a/./x.hip".
bool same_file(std::string_view one, std::string_view other);

}  // namespace apb::emu
