#include "machine/dwarf/source_lines.h"

#include <algorithm>
#include <map>
#include <set>

#include "machine/dwarf/dwarf_functions.h"
#include "machine/dwarf/dwarf_lines.h"

namespace apb::emu {
namespace {

// One row of all tables, in the order of addresses.
struct Place {
  std::uint32_t begin = 0, end = 0, file = 0, line = 0, column = 0;
  bool statement = false;
};

// Components of a path, last first, without "." between.
std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> out;
  while (!path.empty()) {
    const std::size_t at = path.rfind('/');
    const std::string_view part = at == std::string_view::npos ? path : path.substr(at + 1);
    if (!part.empty() && part != ".") out.push_back(part);
    path = at == std::string_view::npos ? std::string_view{} : path.substr(0, at);
  }
  return out;
}

}  // namespace

bool same_file(std::string_view one, std::string_view other) {
  const auto a = components(one), b = components(other);
  const std::size_t common = std::min(a.size(), b.size());
  return common != 0 && std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common), b.begin());
}

struct SourceLines::Read {
  static constexpr std::uint32_t kNoNode = ~0u;
  struct Node {
    std::uint32_t span, outer;  // in units.spans, in nodes
    std::uint64_t end;
  };
  struct Change {
    std::uint64_t address;
    std::uint32_t node;  // from there on
  };
  std::vector<std::string> files;  // of all tables; 0 is none
  std::vector<Place> places;       // disjoint
  DebugUnits units;
  std::vector<Node> nodes;
  std::vector<Change> changes;            // by address
  std::vector<std::uint32_t> first_file;  // per unit: its table's file 0 in `files`; 0: it has none
  std::vector<std::uint32_t> file_count;
  std::multimap<std::uint64_t, std::size_t> units_of;  // by line table

  Read(const DebugSections& sections, std::uint64_t code, std::uint64_t bytes)
      : units(read_debug_units(sections)), first_file(units.units.size()), file_count(units.units.size()) {
    files.emplace_back();
    for (std::size_t i = 0; i < units.units.size(); ++i) units_of.emplace(units.units[i].line_table, i);
    for (const LineTable& table : read_line_tables(sections)) add(table, code, bytes);
    std::ranges::stable_sort(places, {}, &Place::begin);
    for (std::size_t i = 0; i + 1 < places.size(); ++i) places[i].end = std::min(places[i].end, places[i + 1].begin);
    std::erase_if(units.spans, [&](FunctionSpan& span) {  // what the linker dropped begins at 0
      if (span.begin < code || span.end > code + bytes) return true;
      span.begin -= code;
      span.end -= code;
      return false;
    });
    nest();
  }

  // Spans as a tree, so that a look costs a binary search: what is inlined into what, from which address on.
  void nest() {
    std::ranges::stable_sort(units.spans, [](const FunctionSpan& a, const FunctionSpan& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.depth < b.depth;
    });
    std::vector<std::uint32_t> open;
    const auto top = [&open] { return open.empty() ? kNoNode : open.back(); };
    const auto close_before = [&](std::uint64_t address) {
      while (!open.empty() && nodes[open.back()].end <= address) {
        const std::uint64_t end = nodes[open.back()].end;
        open.pop_back();
        changes.push_back({end, top()});
      }
    };
    for (std::uint32_t i = 0; i < units.spans.size(); ++i) {
      const FunctionSpan& span = units.spans[i];
      close_before(span.begin);
      if (!open.empty()) {
        const FunctionSpan& outer = units.spans[nodes[open.back()].span];
        if (outer.unit != span.unit || outer.depth >= span.depth) continue;  // functions that were folded into one
      }
      nodes.push_back({i, top(), open.empty() ? span.end : std::min(span.end, nodes[open.back()].end)});
      open.push_back(static_cast<std::uint32_t>(nodes.size() - 1));
      changes.push_back({span.begin, top()});
    }
    close_before(~std::uint64_t{0});
  }

  void add(const LineTable& table, std::uint64_t code, std::uint64_t bytes) {
    const auto base = static_cast<std::uint32_t>(files.size());
    std::string_view directory;
    for (auto [unit, end] = units_of.equal_range(table.offset); unit != end; ++unit) {
      first_file[unit->second] = base;
      file_count[unit->second] = static_cast<std::uint32_t>(table.files.size());
      directory = units.units[unit->second].directory;
    }
    for (const LineFile& file : table.files) files.push_back(file.path(directory));
    for (std::size_t i = 0; i + 1 < table.rows.size(); ++i) {
      const LineRow &row = table.rows[i], &next = table.rows[i + 1];
      if (row.end || row.address < code || row.address >= next.address || next.address > code + bytes) continue;
      places.push_back({static_cast<std::uint32_t>(row.address - code), static_cast<std::uint32_t>(next.address - code),
                        base + row.file, row.line, row.column, row.statement});
    }
  }

  const Place* at(std::uint32_t offset) const {
    const auto after = std::ranges::upper_bound(places, offset, {}, &Place::begin);
    if (after == places.begin() || std::prev(after)->end <= offset) return nullptr;
    return &*std::prev(after);
  }

  // From what is inlined deepest to the function.
  std::vector<const FunctionSpan*> around(std::uint32_t offset) const {
    std::vector<const FunctionSpan*> out;
    const auto after = std::ranges::upper_bound(changes, offset, {}, &Change::address);
    if (after == changes.begin()) return out;
    for (std::uint32_t node = std::prev(after)->node; node != kNoNode; node = nodes[node].outer)
      out.push_back(&units.spans[nodes[node].span]);
    return out;
  }

  std::string file_of(const FunctionSpan& span) const {
    if (first_file[span.unit] == 0 || span.call_file >= file_count[span.unit]) return {};
    return files[first_file[span.unit] + span.call_file];
  }
};

SourceLines::SourceLines(DebugSections sections, std::uint64_t code, std::uint64_t bytes)
    : code_(code), bytes_(bytes), sections_(std::move(sections)) {}

SourceLines::~SourceLines() = default;

const SourceLines::Read& SourceLines::read() const {
  const std::lock_guard guard(mutex_);
  if (!read_) read_ = std::make_unique<Read>(sections_, code_, bytes_);
  return *read_;
}

std::vector<SourceFrame> SourceLines::frames(std::uint32_t offset) const {
  const Read& all = read();
  const Place* place = all.at(offset);
  if (place == nullptr) return {};
  std::vector<SourceFrame> out;
  SourceFrame frame{{}, all.files[place->file], place->line, place->column};
  const auto around = all.around(offset);
  for (const FunctionSpan* span : around) {
    frame.function = all.units.name_of(span->named_by);
    out.push_back(std::move(frame));
    frame = {{}, all.file_of(*span), span->call_line, span->call_column};
    if (!span->inlined) break;
  }
  if (out.empty()) out.push_back(std::move(frame));
  return out;
}

std::string SourceLines::text(std::uint32_t offset) const {
  std::string out;
  for (const SourceFrame& frame : frames(offset)) {
    if (out.empty() && frame.line == 0) return {};
    out += (out.empty() ? "" : ", inlined at ") + frame.file + ":" + std::to_string(frame.line);
    if (!frame.function.empty()) out += " in " + frame.function;
  }
  return out;
}

std::vector<std::uint32_t> SourceLines::places(std::string_view file, std::uint32_t line, std::uint32_t& found) const {
  const Read& all = read();
  std::vector<bool> wanted(all.files.size());
  for (std::size_t i = 1; i < all.files.size(); ++i) wanted[i] = same_file(file, all.files[i]);
  found = 0;
  for (const Place& place : all.places)
    if (wanted[place.file] && place.line >= line && place.statement && (found == 0 || place.line < found))
      found = place.line;
  std::vector<std::uint32_t> out;
  std::set<std::uint64_t> seen;  // entries in which it has a place already; addresses ascend
  for (const Place& place : all.places) {
    if (found == 0 || !wanted[place.file] || place.line != found || !place.statement) continue;
    const auto around = all.around(place.begin);
    const std::uint64_t entry = around.empty() ? ~std::uint64_t{0} : around.front()->entry;
    if (seen.insert(entry).second) out.push_back(place.begin);
  }
  return out;
}

bool SourceLines::within(std::uint32_t offset, std::string_view file, std::uint32_t first, std::uint32_t last) const {
  return std::ranges::any_of(frames(offset), [&](const SourceFrame& frame) {
    return first <= frame.line && frame.line <= last && same_file(file, frame.file);
  });
}

std::vector<std::uint64_t> SourceLines::levels(std::uint32_t offset) const {
  const Read& all = read();
  const Place* place = all.at(offset);
  if (place == nullptr || place->line == 0) return {};
  const auto number = [](std::uint64_t entry, std::uint64_t file, std::uint64_t line) {
    return ((entry * 0x9e3779b97f4a7c15ull ^ file) * 0xff51afd7ed558ccdull ^ line) * 0xc4ceb9fe1a85ec53ull;
  };
  std::vector<std::uint64_t> out;
  std::uint64_t file = place->file, line = place->line;
  for (const FunctionSpan* span : all.around(offset)) {
    out.insert(out.begin(), number(span->entry, file, line));
    file = span->call_file;
    line = span->call_line;
  }
  if (out.empty()) out.push_back(number(0, file, line));
  return out;
}

std::vector<std::string> SourceLines::files() const {
  const Read& all = read();
  return {all.files.begin() + 1, all.files.end()};
}

}  // namespace apb::emu
