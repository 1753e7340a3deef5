// ELF64 as the AMDGPU ABI uses it (LLVM, AMDGPUUsage, "ELF Code Object"). Section headers are only a help: a stripped
// file loads too.
#include "machine/load/elf.h"

#include <algorithm>

namespace apb::emu {
namespace {

constexpr std::uint16_t kMachineAmdgpu = 224, kTypeShared = 3, kTypeRelocatable = 1;
constexpr std::uint8_t kOsAbiHsa = 64, kAbiV4 = 2, kAbiV6 = 4;
constexpr std::uint32_t kSegmentLoad = 1, kSegmentDynamic = 2, kSegmentNote = 4, kFlagExecute = 1;
constexpr std::uint32_t kSectionSymbols = 2, kNoteMetadata = 32;
// One for each linked file. src/aiter_prebuilt/contract/elf.py counts notes and names alike; tests/unit/test_elf_limits.py compares.
constexpr std::size_t kMostNotes = 16;
// A symbol's name may be the end of another's, so names may add up to more than their table: to this many times the file.
constexpr std::uint64_t kSharing = 4;
constexpr std::uint64_t kMostImageBytes = 1ull << 31;  // kernels address their own code and data with 32-bit offsets

struct Header {
  std::uint8_t ident[16];
  std::uint16_t type, machine;
  std::uint32_t version;
  std::uint64_t entry, program_headers, section_headers;
  std::uint32_t flags;
  std::uint16_t header_bytes, program_header_bytes, program_header_count, section_header_bytes, section_header_count,
      section_names;
};
static_assert(sizeof(Header) == 64);

struct ProgramHeader {
  std::uint32_t type, flags;
  std::uint64_t offset, address, physical, file_bytes, memory_bytes, align;
};
static_assert(sizeof(ProgramHeader) == 56);

struct SectionHeader {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, bytes;
  std::uint32_t link, info;
  std::uint64_t align, entry_bytes;
};
static_assert(sizeof(SectionHeader) == 64);

struct Symbol {
  std::uint32_t name;
  std::uint8_t info, other;
  std::uint16_t section;
  std::uint64_t value, bytes;
};
static_assert(sizeof(Symbol) == 24);

struct Rela {
  std::uint64_t offset, info;
  std::int64_t addend;
};
static_assert(sizeof(Rela) == 24);

// The content of PT_DYNAMIC, addresses as in the image.
struct Dynamic {
  std::uint64_t symbols = 0, strings = 0, strings_bytes = 0, hash = 0, gnu_hash = 0, rela = 0, rela_bytes = 0,
                plt_rela = 0, plt_rela_bytes = 0;
};

class ElfReader {
 public:
  ElfReader(Bytes bytes, ElfFile& out, std::string& problem)
      : bytes_(bytes),
        out_(out),
        problem_(problem),
        note_bytes_left_(bytes.size()),
        text_left_(kSharing * bytes.size()) {}

  bool read() {
    out_.bytes = bytes_;
    return header() && segments() && dynamic() && static_symbols();
  }

 private:
  bool fail(std::string text) {
    problem_ = std::move(text);
    return false;
  }

  bool header() {
    if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "\177ELF", 4) != 0)
      return fail("no ELF file: it does not begin with 7f 45 4c 46");
    if (!get(bytes_, 0, header_))
      return fail("truncated: " + std::to_string(bytes_.size()) + " bytes hold no ELF header");
    if (header_.ident[4] != 2 || header_.ident[5] != 1) return fail("no 64-bit little-endian ELF file");
    if (header_.machine != kMachineAmdgpu)
      return fail("ELF machine " + std::to_string(header_.machine) + ", expected 224 (AMDGPU)");
    if (header_.ident[7] != kOsAbiHsa)
      return fail("ELF OS ABI " + std::to_string(header_.ident[7]) + ", expected 64 (AMDGPU_HSA)");
    out_.abi_version = header_.ident[8];
    if (out_.abi_version < kAbiV4 || out_.abi_version > kAbiV6)
      return fail("ABI version " + std::to_string(out_.abi_version) + ", expected 2, 3 or 4 (code object v4, v5, v6)");
    if (header_.type == kTypeRelocatable) return fail("a relocatable file: link it first (ld.lld -shared)");
    if (header_.type != kTypeShared)
      return fail("ELF type " + std::to_string(header_.type) + ", expected 3 (shared object)");
    out_.flags = header_.flags;
    return true;
  }

  bool segments() {
    if (header_.program_header_count && header_.program_header_bytes != sizeof(ProgramHeader))
      return fail("program headers of a size that ELF64 does not have");
    for (std::uint32_t i = 0; i < header_.program_header_count; ++i) {
      ProgramHeader segment;
      Bytes contents;
      if (header_.program_headers > bytes_.size() ||
          !get(bytes_, header_.program_headers + i * sizeof segment, segment))
        return fail("truncated: program header " + std::to_string(i) + " is not there");
      if (segment.type != kSegmentLoad && segment.type != kSegmentDynamic && segment.type != kSegmentNote) continue;
      if (!slice(bytes_, segment.offset, segment.file_bytes, contents))
        return fail("truncated: segment " + std::to_string(i) + " ends at byte " +
                    std::to_string(segment.offset + segment.file_bytes) + " of " + std::to_string(bytes_.size()));
      if (segment.type == kSegmentNote && !notes(contents, segment.align)) return false;
      if (segment.type == kSegmentDynamic) dynamic_ = contents;
      if (segment.type == kSegmentLoad && !load_segment(segment, i)) return false;
    }
    std::ranges::sort(out_.segments, {}, &ElfSegment::address);
    for (std::size_t i = 1; i < out_.segments.size(); ++i)
      if (out_.segments[i - 1].address + out_.segments[i - 1].memory_bytes > out_.segments[i].address)
        return fail("segments overlap");
    if (out_.segments.empty()) return fail("no loadable segment");
    out_.image_bytes = out_.segments.back().address + out_.segments.back().memory_bytes;
    return out_.image_bytes ? true : fail("the loadable segments are empty");
  }

  bool load_segment(const ProgramHeader& segment, std::uint32_t number) {
    if (segment.memory_bytes < segment.file_bytes || segment.address > kMostImageBytes ||
        segment.memory_bytes > kMostImageBytes - segment.address)
      return fail("segment " + std::to_string(number) + " has impossible sizes");
    const bool executable = (segment.flags & kFlagExecute) != 0;
    if (executable && segment.address % 4) return fail("the code is not aligned to 4 bytes");
    if (segment.memory_bytes)
      out_.segments.push_back({segment.offset, segment.address, segment.file_bytes, segment.memory_bytes, executable});
    return true;
  }

  // Names and payloads are padded to 4 bytes, in a segment that is aligned to 8 to 8 bytes. Behind the last note may
  // stand zeros. Thousands of headers that name the same notes would make the walk one of hours.
  bool notes(Bytes bytes, std::uint64_t segment_align) {
    if (bytes.size() > note_bytes_left_) return fail("note segments overlap: together they are larger than the file");
    note_bytes_left_ -= bytes.size();
    const std::uint64_t align = segment_align == 8 ? 8 : 4;
    const auto padded = [align](std::uint64_t size) { return (size + align - 1) / align * align; };
    for (std::uint64_t at = 0; at < bytes.size();) {
      std::uint32_t name_bytes = 0, payload_bytes = 0, type = 0;
      Bytes note_name, payload;
      if (!get(bytes, at, name_bytes) || !get(bytes, at + 4, payload_bytes) || !get(bytes, at + 8, type)) {
        if (std::ranges::all_of(bytes.subspan(at), [](std::uint8_t byte) { return byte == 0; })) return true;
        return fail("truncated: the note at byte " + std::to_string(at) + " of its segment has no header");
      }
      const std::uint64_t payload_at = at + padded(12 + std::uint64_t{name_bytes});
      if (!slice(bytes, at + 12, name_bytes, note_name) || !slice(bytes, payload_at, payload_bytes, payload))
        return fail("truncated: the note at byte " + std::to_string(at) + " of its segment is not all there");
      if (type == kNoteMetadata && name_bytes == 7 && std::memcmp(note_name.data(), "AMDGPU", 7) == 0)
        out_.metadata.push_back(payload);
      if (out_.metadata.size() > kMostNotes) return fail("more than " + std::to_string(kMostNotes) + " metadata notes");
      at = payload_at + padded(payload_bytes);
    }
    return true;
  }

  // File contents from an address to the end of its segment.
  Bytes at_address(std::uint64_t address) const {
    for (const ElfSegment& segment : out_.segments)
      if (address >= segment.address && address - segment.address < segment.file_bytes)
        return bytes_.subspan(segment.offset + (address - segment.address),
                              segment.file_bytes - (address - segment.address));
    return {};
  }

  bool dynamic() {
    Dynamic d;
    std::int64_t tag = 0;
    std::uint64_t value = 0;
    for (std::uint64_t at = 0; get(dynamic_, at, tag) && get(dynamic_, at + 8, value) && tag != 0; at += 16) {
      switch (tag) {
        case 2: d.plt_rela_bytes = value; break;
        case 4: d.hash = value; break;
        case 5: d.strings = value; break;
        case 6: d.symbols = value; break;
        case 7: d.rela = value; break;
        case 8: d.rela_bytes = value; break;
        case 10: d.strings_bytes = value; break;
        case 23: d.plt_rela = value; break;
        case 0x6ffffef5: d.gnu_hash = value; break;
        default: break;
      }
    }
    if (d.symbols && !dynamic_symbols(d)) return false;
    return relocations(d.rela, d.rela_bytes) && relocations(d.plt_rela, d.plt_rela_bytes);
  }

  bool dynamic_symbols(const Dynamic& d) {
    Bytes table = at_address(d.symbols), strings = at_address(d.strings);
    if (d.strings_bytes < strings.size()) strings = strings.first(d.strings_bytes);
    const std::uint64_t count = symbol_count(d);
    if (!slice(table, 0, count * sizeof(Symbol), table))
      return fail("truncated: the dynamic symbol table of " + std::to_string(count) + " symbols is not all there");
    return read_symbols(table, strings, out_.dynamic_symbols);
  }

  // ELF keeps no count beside the table: the hash tables know it.
  std::uint64_t symbol_count(const Dynamic& d) const {
    std::uint32_t chains = 0;
    if (d.hash && get(at_address(d.hash), 4, chains)) return chains;
    const Bytes hash = at_address(d.gnu_hash);
    std::uint32_t buckets = 0, first = 0, bloom = 0, last = 0;
    if (!d.gnu_hash || !get(hash, 0, buckets) || !get(hash, 4, first) || !get(hash, 8, bloom)) return 0;
    const std::uint64_t bucket_at = 16 + std::uint64_t{bloom} * 8, chain_at = bucket_at + std::uint64_t{buckets} * 4;
    for (std::uint64_t i = 0; i < buckets; ++i) {
      std::uint32_t symbol = 0;
      if (!get(hash, bucket_at + i * 4, symbol)) break;
      last = std::max(last, symbol);
    }
    if (last < first) return first;
    for (std::uint32_t chain = 0; get(hash, chain_at + (std::uint64_t{last} - first) * 4, chain) && !(chain & 1);)
      ++last;
    return std::uint64_t{last} + 1;
  }

  bool read_symbols(Bytes table, Bytes strings, std::vector<ElfSymbol>& out) {
    out.reserve(table.size() / sizeof(Symbol));
    for (std::uint64_t at = 0; at + sizeof(Symbol) <= table.size(); at += sizeof(Symbol)) {
      Symbol symbol;
      std::string_view name;
      if (!get(table, at, symbol) || (symbol.name && !symbol_name(strings, symbol.name, name))) {
        return fail(text_left_ ? "a symbol's name lies outside the string table"
                               : "symbols' names overlap: together they are longer than any file's");
      }
      out.push_back({name, symbol.value, symbol.bytes, static_cast<std::uint8_t>(symbol.info & 15),
                     static_cast<std::uint8_t>(symbol.info >> 4), symbol.section});
    }
    return true;
  }

  // No further than all names together may be long; nothing is left when that was the reason.
  bool symbol_name(Bytes strings, std::uint64_t at, std::string_view& name) {
    if (at >= strings.size()) return false;
    const std::uint64_t rest = strings.size() - at;
    if (get_text(strings.subspan(at, std::min(rest, text_left_)), 0, name)) {
      text_left_ -= name.size();
      return true;
    }
    if (rest > text_left_) text_left_ = 0;
    return false;
  }

  bool relocations(std::uint64_t address, std::uint64_t bytes) {
    Bytes table;
    if (bytes == 0) return true;
    if (!slice(at_address(address), 0, bytes, table)) return fail("truncated: the relocation table is not all there");
    for (std::uint64_t at = 0; at + sizeof(Rela) <= table.size(); at += sizeof(Rela)) {
      Rela entry;
      if (!get(table, at, entry)) break;
      out_.relocations.push_back({entry.offset, static_cast<std::uint32_t>(entry.info),
                                  static_cast<std::uint32_t>(entry.info >> 32), entry.addend});
    }
    return true;
  }

  // .symtab knows the local functions that .dynsym leaves out. It is not part of the image: a file without it, or a
  // broken one, still loads.
  bool static_symbols() {
    out_.symbols = out_.dynamic_symbols;
    if (header_.section_header_bytes != sizeof(SectionHeader) || header_.section_headers > bytes_.size()) return true;
    const auto section = [&](std::uint32_t i, SectionHeader& out) {
      return i < header_.section_header_count && get(bytes_, header_.section_headers + i * sizeof out, out);
    };
    for (std::uint32_t i = 0; i < header_.section_header_count; ++i) {
      SectionHeader table, strings;
      Bytes table_bytes, string_bytes;
      if (!section(i, table) || table.type != kSectionSymbols || !section(table.link, strings)) continue;
      if (!slice(bytes_, table.offset, table.bytes, table_bytes) ||
          !slice(bytes_, strings.offset, strings.bytes, string_bytes))
        continue;
      std::vector<ElfSymbol> more;
      if (read_symbols(table_bytes, string_bytes, more))
        out_.symbols.insert(out_.symbols.end(), more.begin(), more.end());
      else
        problem_.clear();
      break;  // ELF has one; many headers on the same bytes would fill memory
    }
    return true;
  }

  Bytes bytes_, dynamic_;
  ElfFile& out_;
  std::string& problem_;
  std::uint64_t note_bytes_left_, text_left_;
  Header header_{};
};

}  // namespace

bool read_elf(Bytes bytes, ElfFile& out, std::string& problem) { return ElfReader(bytes, out, problem).read(); }

}  // namespace apb::emu
