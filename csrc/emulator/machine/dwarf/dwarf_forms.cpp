// DWARF 5, 7.5.6: how a value of each form is encoded.
#include "machine/dwarf/dwarf_forms.h"

namespace apb::emu {
namespace {

namespace form {
constexpr std::uint64_t kAddr = 0x01, kBlock2 = 0x03, kBlock4 = 0x04, kData2 = 0x05, kData4 = 0x06, kData8 = 0x07,
                        kString = 0x08, kBlock = 0x09, kBlock1 = 0x0a, kData1 = 0x0b, kFlag = 0x0c, kSdata = 0x0d,
                        kStrp = 0x0e, kUdata = 0x0f, kRefAddr = 0x10, kRef1 = 0x11, kRef2 = 0x12, kRef4 = 0x13,
                        kRef8 = 0x14, kRefUdata = 0x15, kIndirect = 0x16, kSecOffset = 0x17, kExprloc = 0x18,
                        kFlagPresent = 0x19, kStrx = 0x1a, kAddrx = 0x1b, kRefSup4 = 0x1c, kStrpSup = 0x1d,
                        kData16 = 0x1e, kLineStrp = 0x1f, kRefSig8 = 0x20, kImplicitConst = 0x21, kLoclistx = 0x22,
                        kRnglistx = 0x23, kRefSup8 = 0x24, kStrx1 = 0x25, kStrx4 = 0x28, kAddrx1 = 0x29, kAddrx4 = 0x2c;
}

std::string_view text_at(const std::vector<std::uint8_t>& section, std::uint64_t offset) {
  std::string_view found;
  return get_text(section, offset, found) ? found : std::string_view{};
}

std::string_view indexed_text(std::uint64_t index, const DwarfUnit& unit, const DebugSections& sections) {
  const unsigned bytes = unit.wide ? 8 : 4;
  if (index > sections.str_offsets.size() / bytes) return {};
  DwarfCursor cursor(sections.str_offsets, unit.str_offsets_base + index * bytes);
  const std::uint64_t at = cursor.offset(unit.wide);
  return cursor.good() ? text_at(sections.str, at) : std::string_view{};
}

std::uint64_t indexed_address(std::uint64_t index, const DwarfUnit& unit, const DebugSections& sections) {
  if (index > sections.addr.size() / unit.address_bytes) return 0;
  DwarfCursor cursor(sections.addr, unit.addr_base + index * unit.address_bytes);
  return cursor.sized(unit.address_bytes);
}

// Sizes of .. forms that end in 1, 2, 3, 4.
unsigned step(std::uint64_t code, std::uint64_t first) { return static_cast<unsigned>(code - first + 1); }

bool read_text(DwarfCursor& c, std::uint64_t code, const DwarfUnit& unit, const DebugSections& sections,
               DwarfValue& out) {
  out.kind = ValueKind::Text;
  if (code == form::kString)
    out.text = c.text();
  else if (code == form::kStrp)
    out.text = text_at(sections.str, c.offset(unit.wide));
  else if (code == form::kLineStrp)
    out.text = text_at(sections.line_str, c.offset(unit.wide));
  else if (code == form::kStrx)
    out.text = indexed_text(c.uleb(), unit, sections);
  else if (code >= form::kStrx1 && code <= form::kStrx4)
    out.text = indexed_text(c.sized(step(code, form::kStrx1)), unit, sections);
  else
    return false;
  return true;
}

bool read_address(DwarfCursor& c, std::uint64_t code, const DwarfUnit& unit, const DebugSections& sections,
                  DwarfValue& out) {
  out.kind = ValueKind::Address;
  if (code == form::kAddr)
    out.number = c.sized(unit.address_bytes);
  else if (code == form::kAddrx)
    out.number = indexed_address(c.uleb(), unit, sections);
  else if (code >= form::kAddrx1 && code <= form::kAddrx4)
    out.number = indexed_address(c.sized(step(code, form::kAddrx1)), unit, sections);
  else
    return false;
  return true;
}

bool read_reference(DwarfCursor& c, std::uint64_t code, const DwarfUnit& unit, DwarfValue& out) {
  out.kind = ValueKind::Reference;
  switch (code) {
    case form::kRef1: out.number = unit.offset + c.sized(1); return true;
    case form::kRef2: out.number = unit.offset + c.sized(2); return true;
    case form::kRef4: out.number = unit.offset + c.sized(4); return true;
    case form::kRef8: out.number = unit.offset + c.sized(8); return true;
    case form::kRefUdata: out.number = unit.offset + c.uleb(); return true;
    case form::kRefAddr: out.number = c.offset(unit.wide); return true;
    default: return false;
  }
}

bool read_number(DwarfCursor& c, std::uint64_t code, std::int64_t implicit, const DwarfUnit& unit, DwarfValue& out) {
  out.kind = ValueKind::Number;
  switch (code) {
    case form::kFlag:
    case form::kData1: out.number = c.sized(1); return true;
    case form::kData2: out.number = c.sized(2); return true;
    case form::kData4: out.number = c.sized(4); return true;
    case form::kData8: out.number = c.sized(8); return true;
    case form::kUdata: out.number = c.uleb(); return true;
    case form::kSdata: out.number = static_cast<std::uint64_t>(c.sleb()); return true;
    case form::kFlagPresent: out.number = 1; return true;
    case form::kImplicitConst: out.number = static_cast<std::uint64_t>(implicit); return true;
    case form::kSecOffset:
      out.kind = ValueKind::Section;
      out.number = c.offset(unit.wide);
      return true;
    case form::kLoclistx:
    case form::kRnglistx:
      out.kind = ValueKind::Index;
      out.number = c.uleb();
      return true;
    default: return false;
  }
}

// Skips a value that no reader here needs.
bool pass_over(DwarfCursor& c, std::uint64_t code, const DwarfUnit& unit, DwarfValue& out) {
  out.kind = ValueKind::Other;
  switch (code) {
    case form::kBlock1: c.skip(c.sized(1)); return true;
    case form::kBlock2: c.skip(c.sized(2)); return true;
    case form::kBlock4: c.skip(c.sized(4)); return true;
    case form::kBlock:
    case form::kExprloc: c.skip(c.uleb()); return true;
    case form::kData16: c.skip(16); return true;
    case form::kRefSup4: c.skip(4); return true;
    case form::kRefSig8:
    case form::kRefSup8: c.skip(8); return true;
    case form::kStrpSup: c.offset(unit.wide); return true;
    default: return false;
  }
}

}  // namespace

bool read_form(DwarfCursor& cursor, std::uint64_t code, std::int64_t implicit, const DwarfUnit& unit,
               const DebugSections& sections, DwarfValue& out) {
  out = {};
  if (code == form::kIndirect) code = cursor.uleb();  // of an indirect one 7.5.3 allows no second
  const bool known = read_text(cursor, code, unit, sections, out) || read_address(cursor, code, unit, sections, out) ||
                     read_reference(cursor, code, unit, out) || read_number(cursor, code, implicit, unit, out) ||
                     pass_over(cursor, code, unit, out);
  if (!known) cursor.fail();
  return cursor.good();
}

}  // namespace apb::emu
