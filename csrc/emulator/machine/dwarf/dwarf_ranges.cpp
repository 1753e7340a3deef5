// DWARF 5, 2.17.3 and 7.25; DWARF 4, 2.17.3.
#include "machine/dwarf/dwarf_ranges.h"

namespace apb::emu {
namespace {

namespace range_list {
constexpr std::uint8_t kBasex = 1, kStartxEndx = 2, kStartxLength = 3, kOffsetPair = 4, kBase = 5, kStartEnd = 6,
                       kStartLength = 7;
}

using Take = std::function<void(std::uint64_t, std::uint64_t)>;

class RangeReader {
 public:
  RangeReader(const DwarfUnit& unit, const DebugSections& sections, std::uint64_t& work_left, const Take& take)
      : unit_(unit), sections_(sections), work_left_(work_left), take_(take), base_(unit.low) {}

  void read(std::uint64_t at) {
    DwarfCursor c(sections_.rnglists, at);
    while (spend() && entry(c) && c.good()) {
    }
  }

  // Up to DWARF 4: pairs, closed by two zeros; the largest address says that a base follows.
  void read_old(std::uint64_t at) {
    DwarfCursor c(sections_.ranges, at);
    const unsigned bits = 8u * unit_.address_bytes;
    const std::uint64_t largest = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    while (spend()) {
      const std::uint64_t begin = c.sized(unit_.address_bytes), end = c.sized(unit_.address_bytes);
      if (!c.good() || (begin == 0 && end == 0)) return;
      if (begin == largest)
        base_ = end;
      else
        take_(base_ + begin, base_ + end);
    }
  }

 private:
  bool spend() {
    if (work_left_ == 0) return false;
    --work_left_;
    return true;
  }

  // False: the end, or what is not known.
  bool entry(DwarfCursor& c) {
    std::uint64_t begin = 0;
    switch (c.fixed<std::uint8_t>()) {
      case range_list::kBasex: base_ = address(c.uleb()); return true;
      case range_list::kBase: base_ = c.sized(unit_.address_bytes); return true;
      case range_list::kOffsetPair:
        begin = base_ + c.uleb();
        take_(begin, base_ + c.uleb());
        return true;
      case range_list::kStartxEndx:
        begin = address(c.uleb());
        take_(begin, address(c.uleb()));
        return true;
      case range_list::kStartxLength:
        begin = address(c.uleb());
        take_(begin, begin + c.uleb());
        return true;
      case range_list::kStartEnd:
        begin = c.sized(unit_.address_bytes);
        take_(begin, c.sized(unit_.address_bytes));
        return true;
      case range_list::kStartLength:
        begin = c.sized(unit_.address_bytes);
        take_(begin, begin + c.uleb());
        return true;
      default: return false;
    }
  }

  std::uint64_t address(std::uint64_t index) const {
    if (index > sections_.addr.size()) return 0;
    DwarfCursor c(sections_.addr, unit_.addr_base + index * unit_.address_bytes);
    return c.sized(unit_.address_bytes);
  }

  const DwarfUnit& unit_;
  const DebugSections& sections_;
  std::uint64_t& work_left_;
  const Take& take_;
  std::uint64_t base_;
};

}  // namespace

void each_range(const DwarfValue& where, const DwarfUnit& unit, const DebugSections& sections, std::uint64_t& work_left,
                const Take& take) {
  RangeReader reader(unit, sections, work_left, take);
  if (unit.version < 5) return reader.read_old(where.number);
  if (where.kind != ValueKind::Index) return reader.read(where.number);
  if (where.number > sections.rnglists.size()) return;
  DwarfCursor offsets(sections.rnglists, unit.rnglists_base + where.number * (unit.wide ? 8 : 4));
  const std::uint64_t at = unit.rnglists_base + offsets.offset(unit.wide);
  if (offsets.good()) reader.read(at);
}

}  // namespace apb::emu
