#include "machine/dwarf/dwarf_lines.h"

#include <algorithm>

namespace apb::emu {
namespace {

constexpr std::uint64_t kContentPath = 1, kContentDirectory = 2;
constexpr std::size_t kMostFiles = 1 << 20, kMostRows = 1 << 22;  // of a table; a file that says more is nobody's

namespace standard {
constexpr std::uint8_t kExtended = 0, kCopy = 1, kAdvancePc = 2, kAdvanceLine = 3, kSetFile = 4, kSetColumn = 5,
                       kNegateStatement = 6, kBasicBlock = 7, kConstAddPc = 8, kFixedAdvancePc = 9, kPrologueEnd = 10,
                       kEpilogueBegin = 11;
}
namespace extended {
constexpr std::uint8_t kEndSequence = 1, kSetAddress = 2;
}

class LineReader {
 public:
  LineReader(const DebugSections& sections, DwarfCursor cursor, bool wide, LineTable& out)
      : sections_(sections), c_(cursor), out_(out) {
    unit_.wide = wide;
  }

  bool read() {
    if (!header()) return false;
    c_.skip(program_ - std::min(program_, c_.at()));  // what a later version may have added to the header
    if (c_.at() != program_) return false;
    start();
    while (!c_.done()) step();
    return c_.good();
  }

 private:
  bool header() {
    out_.version = unit_.version = c_.fixed<std::uint16_t>();
    if (out_.version < 2 || out_.version > 5) return false;
    if (out_.version == 5) {
      unit_.address_bytes = c_.fixed<std::uint8_t>();
      c_.skip(1);  // size of a segment selector
      if (unit_.address_bytes == 0 || unit_.address_bytes > 8) return false;
    }
    const std::uint64_t bytes = c_.offset(unit_.wide);
    if (bytes > c_.left()) return false;
    program_ = c_.at() + bytes;
    unit_length_ = c_.fixed<std::uint8_t>();
    if (out_.version >= 4) c_.skip(1);  // operations of an instruction: one, but for VLIW
    default_statement_ = c_.fixed<std::uint8_t>() != 0;
    line_base_ = c_.fixed<std::int8_t>();
    line_range_ = c_.fixed<std::uint8_t>();
    opcode_base_ = c_.fixed<std::uint8_t>();
    if (!c_.good() || line_range_ == 0 || opcode_base_ == 0) return false;
    for (unsigned code = 1; code < opcode_base_; ++code) lengths_[code] = c_.fixed<std::uint8_t>();
    return c_.good() && (out_.version == 5 ? entries() : old_entries());
  }

  // DWARF 5: a table of directories and one of files, each with a list of what its entries consist of.
  bool entries() {
    std::vector<LineFile> directories;
    return table(directories, nullptr) && table(out_.files, &directories);
  }

  bool table(std::vector<LineFile>& out, const std::vector<LineFile>* directories) {
    struct Part {
      std::uint64_t content, form;
    };
    std::vector<Part> parts(c_.fixed<std::uint8_t>());
    for (Part& part : parts) part = {c_.uleb(), c_.uleb()};
    const std::uint64_t count = c_.uleb();
    if (!c_.good() || (count != 0 && parts.empty()) || count > std::min<std::uint64_t>(c_.left(), kMostFiles))
      return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      LineFile file;
      for (const Part& part : parts) {
        DwarfValue value;
        if (!read_form(c_, part.form, 0, unit_, sections_, value)) return false;
        if (part.content == kContentPath) file.name = value.text;
        if (part.content == kContentDirectory && directories != nullptr && value.number < directories->size())
          file.directory = (*directories)[value.number].name;
      }
      out.push_back(file);
    }
    return c_.good();
  }

  // Up to DWARF 4: lists of texts, each closed by an empty one; number 0 is the compile's folder, and no file.
  bool old_entries() {
    std::vector<std::string_view> directories{{}};
    for (std::string_view name = c_.text(); c_.good() && !name.empty(); name = c_.text()) directories.push_back(name);
    out_.files.emplace_back();
    for (std::string_view name = c_.text(); c_.good() && !name.empty(); name = c_.text()) {
      const std::uint64_t directory = c_.uleb();
      c_.uleb();  // when it was changed
      c_.uleb();  // its bytes
      out_.files.push_back({directory < directories.size() ? directories[directory] : std::string_view{}, name});
    }
    return c_.good();
  }

  void start() {
    row_ = {};
    row_.file = row_.line = 1;
    row_.statement = default_statement_;
  }

  void emit() {
    LineRow row = row_;
    if (row.file >= out_.files.size()) row.file = row.line = 0;
    if (out_.files.empty()) return;
    if (out_.rows.size() == kMostRows) return c_.fail();
    out_.rows.push_back(row);
  }

  void advance(std::uint64_t operations) { row_.address += operations * unit_length_; }
  void advance_line(std::int64_t lines) {
    row_.line = static_cast<std::uint32_t>(row_.line + static_cast<std::uint64_t>(lines));
  }

  void step() {
    const auto code = c_.fixed<std::uint8_t>();
    if (code >= opcode_base_) {
      const unsigned adjusted = code - opcode_base_;
      advance(adjusted / line_range_);
      advance_line(line_base_ + static_cast<int>(adjusted % line_range_));
      return emit();
    }
    switch (code) {
      case standard::kExtended: return extended_step();
      case standard::kCopy: return emit();
      case standard::kAdvancePc: return advance(c_.uleb());
      case standard::kAdvanceLine: return advance_line(c_.sleb());
      case standard::kSetFile: row_.file = static_cast<std::uint32_t>(c_.uleb()); return;
      case standard::kSetColumn: row_.column = static_cast<std::uint32_t>(c_.uleb()); return;
      case standard::kNegateStatement: row_.statement = !row_.statement; return;
      case standard::kConstAddPc: return advance((255u - opcode_base_) / line_range_);
      case standard::kFixedAdvancePc: row_.address += c_.fixed<std::uint16_t>(); return;
      case standard::kBasicBlock:
      case standard::kPrologueEnd:
      case standard::kEpilogueBegin: return;
      default:  // of a later version, or of an instruction set: its operands are numbers
        for (unsigned i = 0; i < lengths_[code] && c_.good(); ++i) c_.uleb();
    }
  }

  void extended_step() {
    const std::uint64_t bytes = c_.uleb(), end = c_.at() + std::min(bytes, c_.left());
    if (bytes == 0 || bytes > c_.left()) return c_.fail();
    const auto code = c_.fixed<std::uint8_t>();
    if (code == extended::kSetAddress)
      row_.address = c_.sized(static_cast<unsigned>(std::min<std::uint64_t>(bytes - 1, 9)));
    if (code == extended::kEndSequence) {
      row_.end = true;
      emit();
      start();
    }
    if (c_.good()) c_.skip(end - c_.at());
  }

  const DebugSections& sections_;
  DwarfCursor c_;
  LineTable& out_;
  DwarfUnit unit_;
  LineRow row_;
  std::uint64_t program_ = 0;  // where it begins
  std::uint8_t unit_length_ = 1, line_range_ = 1, opcode_base_ = 1;
  std::int8_t line_base_ = 0;
  bool default_statement_ = false;
  std::uint8_t lengths_[256] = {};
};

}  // namespace

std::string LineFile::path(std::string_view base) const {
  std::string out;
  for (const std::string_view part : {base, directory, name}) {
    if (part.empty()) continue;
    if (part.front() == '/') out.clear();
    if (!out.empty() && out.back() != '/') out += '/';
    out += part;
  }
  return out;
}

std::vector<LineTable> read_line_tables(const DebugSections& sections) {
  std::vector<LineTable> tables;
  DwarfCursor all(sections.line);
  while (!all.done()) {
    LineTable table;
    bool wide = false;
    table.offset = all.at();
    const DwarfCursor unit = all.unit(wide);
    if (!all.good()) break;
    LineReader(sections, unit, wide, table).read();  // what it read before something was wrong is right
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace apb::emu
