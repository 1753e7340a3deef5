#include "machine/dwarf/dwarf_functions.h"

#include <algorithm>
#include <map>

#include "machine/dwarf/dwarf_ranges.h"

namespace apb::emu {
namespace {

namespace tag {
constexpr std::uint64_t kCompileUnit = 0x11, kInlined = 0x1d, kSubprogram = 0x2e, kPartialUnit = 0x3c;
}
namespace attribute {
constexpr std::uint64_t kName = 0x03, kStatements = 0x10, kLow = 0x11, kHigh = 0x12, kDirectory = 0x1b, kOrigin = 0x31,
                        kSpecification = 0x47, kRanges = 0x55, kCallColumn = 0x57, kCallFile = 0x58, kCallLine = 0x59,
                        kLinkageName = 0x6e, kStrOffsetsBase = 0x72, kAddrBase = 0x73, kRnglistsBase = 0x74;
}
namespace unit_type {
constexpr std::uint8_t kType = 2, kSkeleton = 4, kSplit = 5, kSplitType = 6;
}
constexpr std::uint64_t kImplicit = 0x21;  // DW_FORM_implicit_const: its value stands in the abbreviation
constexpr std::uint32_t kMostDepth = 4096;
constexpr int kMostOrigins = 8;  // abstract origin, specification, ...
// The limits of all units and range lists together, and of all abbreviations, times the number of bytes. Units share tables, and
// a file may make many of them share a long one.
constexpr std::uint64_t kSharing = 32, kTables = 4, kLeastWork = 1 << 20;
constexpr std::size_t kMostSpans = 1 << 22;

struct Attribute {
  std::uint64_t name, form;
  std::int64_t implicit;
};
struct Abbreviation {
  std::uint64_t tag = 0;
  bool children = false;
  std::vector<Attribute> attributes;
};
using Abbreviations = std::map<std::uint64_t, Abbreviation>;

struct Entry {
  std::uint64_t offset = 0, tag = 0;
  DwarfValue name, linkage_name, origin, low, high, ranges, directory, statements, call_file, call_line, call_column;
  DwarfValue str_offsets_base, addr_base, rnglists_base;

  DwarfValue* slot(std::uint64_t attribute) {
    switch (attribute) {
      case attribute::kName: return &name;
      case attribute::kLinkageName: return &linkage_name;
      case attribute::kOrigin:
      case attribute::kSpecification: return &origin;
      case attribute::kLow: return &low;
      case attribute::kHigh: return &high;
      case attribute::kRanges: return &ranges;
      case attribute::kDirectory: return &directory;
      case attribute::kStatements: return &statements;
      case attribute::kCallFile: return &call_file;
      case attribute::kCallLine: return &call_line;
      case attribute::kCallColumn: return &call_column;
      case attribute::kStrOffsetsBase: return &str_offsets_base;
      case attribute::kAddrBase: return &addr_base;
      case attribute::kRnglistsBase: return &rnglists_base;
      default: return nullptr;
    }
  }
};

class InfoReader {
 public:
  InfoReader(const DebugSections& sections, DebugUnits& out)
      : sections_(sections),
        out_(out),
        work_left_(kLeastWork + kSharing * (sections.info.size() + sections.rnglists.size() + sections.ranges.size())),
        tables_left_(kTables * sections.abbrev.size()) {}

  void read() {
    DwarfCursor all(sections_.info);
    while (!all.done()) {
      const std::uint64_t offset = all.at();
      unit_ = {};
      DwarfCursor c = all.unit(unit_.wide);
      unit_.offset = offset;
      if (!all.good() || !read_unit(c)) break;
    }
    std::ranges::sort(out_.names, {}, &DebugName::entry);
  }

 private:
  bool spend(std::uint64_t amount = 1) {
    if (amount > work_left_) return false;
    work_left_ -= amount;
    return true;
  }

  // Split units and type units have no code here.
  bool read_unit(DwarfCursor c) {
    unit_.version = c.fixed<std::uint16_t>();
    if (!c.good()) return false;
    if (unit_.version < 2 || unit_.version > 5) return true;
    std::uint64_t table = 0;
    if (unit_.version == 5) {
      const auto type = c.fixed<std::uint8_t>();
      unit_.address_bytes = c.fixed<std::uint8_t>();
      table = c.offset(unit_.wide);
      if (type == unit_type::kSkeleton || type == unit_type::kSplit) c.skip(8);
      if (type == unit_type::kType || type == unit_type::kSplitType) return true;
    } else {
      table = c.offset(unit_.wide);
      unit_.address_bytes = c.fixed<std::uint8_t>();
    }
    if (!c.good() || unit_.address_bytes == 0 || unit_.address_bytes > 8) return false;
    // DWARF 5's tables begin here, behind their headers, unless the unit says otherwise.
    unit_.str_offsets_base = unit_.addr_base = unit_.wide ? 16 : 8;
    const Abbreviations* abbreviations = abbreviations_at(table);
    return abbreviations != nullptr && entries(c, *abbreviations);
  }

  const Abbreviations* abbreviations_at(std::uint64_t offset) {
    if (const auto known = tables_.find(offset); known != tables_.end()) return &known->second;
    DwarfCursor c(sections_.abbrev, offset);
    Abbreviations& table = tables_[offset];
    while (c.good() && tables_left_ != 0) {
      const std::uint64_t code = c.uleb();
      if (code == 0) return c.good() ? &table : nullptr;
      Abbreviation abbreviation;
      abbreviation.tag = c.uleb();
      abbreviation.children = c.fixed<std::uint8_t>() != 0;
      while (c.good() && tables_left_ != 0) {
        --tables_left_;
        Attribute attribute{c.uleb(), c.uleb(), 0};
        if (attribute.form == kImplicit) attribute.implicit = c.sleb();
        if (attribute.name == 0 && attribute.form == 0) break;
        abbreviation.attributes.push_back(attribute);
      }
      table[code] = std::move(abbreviation);
    }
    return nullptr;
  }

  bool entries(DwarfCursor c, const Abbreviations& abbreviations) {
    std::uint32_t depth = 0;
    while (!c.done() && spend()) {
      Entry entry;
      entry.offset = c.at();
      const std::uint64_t code = c.uleb();
      if (code == 0) {
        if (depth <= 1) return true;
        --depth;
        continue;
      }
      const auto found = abbreviations.find(code);
      if (found == abbreviations.end() || !values(c, found->second, entry)) return false;
      if (depth == 0) {
        begin_unit(entry);
      } else {
        keep(entry, depth);
      }
      if (found->second.children && ++depth > kMostDepth) return false;
      if (depth == 0) return true;  // a unit without children
    }
    return c.good() && c.done();
  }

  bool values(DwarfCursor& c, const Abbreviation& abbreviation, Entry& entry) {
    entry.tag = abbreviation.tag;
    if (entry.tag == tag::kCompileUnit || entry.tag == tag::kPartialUnit) bases(c, abbreviation);
    for (const Attribute& attribute : abbreviation.attributes) {
      DwarfValue value;
      if (!spend() || !read_form(c, attribute.form, attribute.implicit, unit_, sections_, value)) return false;
      if (DwarfValue* slot = entry.slot(attribute.name)) *slot = value;
    }
    return true;
  }

  // Names of the unit itself are read with bases that stand behind them: so the bases are looked for first.
  void bases(DwarfCursor c, const Abbreviation& abbreviation) {
    for (const Attribute& attribute : abbreviation.attributes) {
      DwarfValue value;
      if (!read_form(c, attribute.form, attribute.implicit, unit_, sections_, value)) return;
      if (value.kind != ValueKind::Section) continue;
      if (attribute.name == attribute::kStrOffsetsBase) unit_.str_offsets_base = value.number;
      if (attribute.name == attribute::kAddrBase) unit_.addr_base = value.number;
      if (attribute.name == attribute::kRnglistsBase) unit_.rnglists_base = value.number;
    }
  }

  void begin_unit(const Entry& entry) {
    DebugUnit unit;
    unit.directory = entry.directory.text;
    if (entry.statements.kind != ValueKind::None) unit.line_table = entry.statements.number;
    unit_.low = entry.low.number;
    out_.units.push_back(unit);
  }

  void keep(const Entry& entry, std::uint32_t depth) {
    if (entry.tag != tag::kSubprogram && entry.tag != tag::kInlined) return;
    const std::string_view name = entry.name.text.empty() ? entry.linkage_name.text : entry.name.text;
    out_.names.push_back({entry.offset, entry.origin.number, name});
    FunctionSpan span;
    span.depth = depth;
    span.entry = span.named_by = entry.offset;
    span.inlined = entry.tag == tag::kInlined;
    span.call_file = static_cast<std::uint32_t>(entry.call_file.number);
    span.call_line = static_cast<std::uint32_t>(entry.call_line.number);
    span.call_column = static_cast<std::uint32_t>(entry.call_column.number);
    span.unit = static_cast<std::uint32_t>(out_.units.size() - 1);
    if (entry.ranges.kind != ValueKind::None)
      return each_range(entry.ranges, unit_, sections_, work_left_,
                        [&](std::uint64_t begin, std::uint64_t end) { add(span, begin, end); });
    if (entry.low.kind != ValueKind::Address) return;
    const bool length = entry.high.kind != ValueKind::Address;
    add(span, entry.low.number, length ? entry.low.number + entry.high.number : entry.high.number);
  }

  void add(FunctionSpan& span, std::uint64_t begin, std::uint64_t end) {
    if (begin >= end || out_.spans.size() == kMostSpans) return;
    span.begin = begin;
    span.end = end;
    out_.spans.push_back(span);
  }

  const DebugSections& sections_;
  DebugUnits& out_;
  std::uint64_t work_left_, tables_left_;
  DwarfUnit unit_;
  std::map<std::uint64_t, Abbreviations> tables_;
};

}  // namespace

std::string_view DebugUnits::name_of(std::uint64_t entry) const {
  for (int i = 0; i < kMostOrigins; ++i) {
    const auto found = std::ranges::lower_bound(names, entry, {}, &DebugName::entry);
    if (found == names.end() || found->entry != entry) return {};
    if (!found->name.empty()) return found->name;
    entry = found->origin;
  }
  return {};
}

DebugUnits read_debug_units(const DebugSections& sections) {
  DebugUnits units;
  InfoReader(sections, units).read();
  return units;
}

}  // namespace apb::emu
