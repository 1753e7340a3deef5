// Bytes of LDS that nobody has written, and those that two waves touch without a barrier between them.
#include "machine/check/shadow.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "machine/check/findings.h"

namespace apb::emu {

namespace {

constexpr std::uint8_t kNobody = 0, kSeveral = 255;

// Tells whether each of the bytes is nobody's, `mark`'s or `also`'s. Sizes of one lane's access are unrolled, long ranges
// vectorised.
template <std::uint32_t Size> bool own(const std::uint8_t* first, std::uint32_t bytes, std::uint8_t mark,
                                       std::uint8_t also) {
  const std::uint32_t count = Size != 0 ? Size : bytes;
  int foreign = 0;
  for (std::uint32_t b = 0; b < count; ++b) {
    foreign |=
        static_cast<int>(first[b] != kNobody) & static_cast<int>(first[b] != mark) & static_cast<int>(first[b] != also);
  }
  return foreign == 0;
}
bool own(const std::uint8_t* first, std::uint32_t bytes, std::uint8_t mark, std::uint8_t also = kNobody) {
  switch (bytes) {
    case 4: return own<4>(first, bytes, mark, also);
    case 8: return own<8>(first, bytes, mark, also);
    case 16: return own<16>(first, bytes, mark, also);
    default: return own<0>(first, bytes, mark, also);
  }
}

// Also for writers of the same value.
template <std::uint32_t Size> void add_mark(std::uint8_t* first, std::uint32_t bytes, std::uint8_t mark) {
  const std::uint32_t count = Size != 0 ? Size : bytes;
  for (std::uint32_t b = 0; b < count; ++b)
    first[b] = (static_cast<int>(first[b] == kNobody) | static_cast<int>(first[b] == mark)) != 0 ? mark : kSeveral;
}

// Tells whether all bytes of Count words are 1.
template <typename Word, int Count> bool all_set(const std::uint8_t* first) {
  Word missing = 0;
  for (int i = 0; i < Count; ++i) {
    Word word;
    std::memcpy(&word, first + i * static_cast<int>(sizeof word), sizeof word);
    missing |= word ^ static_cast<Word>(0x0101010101010101u);
  }
  return missing == 0;
}

void fill(std::uint8_t* first, std::uint32_t bytes, std::uint8_t value) {
  switch (bytes) {
    case 4: std::memset(first, value, 4); break;
    case 8: std::memset(first, value, 8); break;
    case 16: std::memset(first, value, 16); break;
    default: std::memset(first, value, bytes);
  }
}

std::string who(std::uint8_t mark) {
  return mark == kSeveral ? "other waves have" : "wave " + std::to_string(mark - 1) + " has";
}

}  // namespace

Shadow::Shadow(bool initialised, bool races, std::uint32_t lds_bytes) : initialised_(initialised), races_(races) {
  if (initialised_) written_.resize(lds_bytes);
  if (races_) {
    writer_.resize(lds_bytes);
    reader_.resize(lds_bytes);
  }
}

bool Shadow::initialised(std::uint32_t address, std::uint32_t bytes) const {
  const std::uint8_t* first = written_.data() + address;
  switch (bytes) {
    case 4: return all_set<std::uint32_t, 1>(first);
    case 8: return all_set<std::uint64_t, 1>(first);
    case 16: return all_set<std::uint64_t, 2>(first);
    default: return std::memchr(first, 0, bytes) == nullptr;
  }
}

void Shadow::note_read(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark) {
  std::uint8_t* first = reader_.data() + address;
  switch (bytes) {
    case 4: add_mark<4>(first, bytes, mark); break;
    case 8: add_mark<8>(first, bytes, mark); break;
    case 16: add_mark<16>(first, bytes, mark); break;
    default: add_mark<0>(first, bytes, mark);
  }
  note_range(address, address + bytes);
}

void Shadow::note_range(std::uint32_t first, std::uint32_t end) {
  low_ = std::min(low_, first);
  high_ = std::max(high_, end);
}

bool Shadow::read(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark) {
  if (initialised_ && !initialised(address, bytes)) return false;
  if (!races_) return true;
  if (!own(writer_.data() + address, bytes, mark, kSeveral)) return false;
  note_read(address, bytes, mark);
  return true;
}

bool Shadow::write(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark) {
  if (races_) {
    if (!own(writer_.data() + address, bytes, mark) || !own(reader_.data() + address, bytes, mark)) return false;
    fill(writer_.data() + address, bytes, mark);
    note_range(address, address + bytes);
  }
  if (initialised_) fill(written_.data() + address, bytes, 1);
  return true;
}

void Shadow::share(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark) {
  add_mark<0>(writer_.data() + address, bytes, mark);
  note_range(address, address + bytes);
  if (initialised_) fill(written_.data() + address, bytes, 1);
}

bool Shadow::atomic(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark) {
  return read(address, bytes, mark);
}

bool Shadow::noted(LdsAccess access, std::uint32_t address, std::uint32_t bytes, std::uint8_t mark) {
  switch (access) {
    case LdsAccess::Read: return read(address, bytes, mark);
    case LdsAccess::Write: return write(address, bytes, mark);
    case LdsAccess::Atomic: return atomic(address, bytes, mark);
  }
  return true;
}

// Count words of a lane at once where all bytes of each are alike, which is nearly always; others byte by byte.
template <typename Word, int Count, bool Writes>
std::uint64_t Shadow::words(LdsAccess access, const std::uint32_t* address, std::uint64_t active, std::uint8_t mark) {
  constexpr Word kOnes = static_cast<Word>(0x0101010101010101u), kAll = static_cast<Word>(~Word{0});
  constexpr auto kBytes = static_cast<std::uint32_t>(sizeof(Word) * Count);
  const Word own_mark = static_cast<Word>(kOnes * mark);
  std::uint32_t low = ~0u, high = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const std::uint32_t at = address[lane];
    Word writer[Count] = {}, reader[Count] = {}, written[Count], marks[Count];
    std::memcpy(writer, writer_.data() + at, sizeof writer);
    std::memcpy(reader, reader_.data() + at, sizeof reader);
    bool plain = true;
    if constexpr (Writes) {
      for (int w = 0; w < Count; ++w) {
        plain &= (writer[w] == 0 || writer[w] == own_mark) && (reader[w] == 0 || reader[w] == own_mark);
        marks[w] = own_mark;
        written[w] = kOnes;
      }
      if (plain) {
        std::memcpy(writer_.data() + at, marks, sizeof marks);
        if (initialised_) std::memcpy(written_.data() + at, written, sizeof written);
      }
    } else {
      if (initialised_) std::memcpy(written, written_.data() + at, sizeof written);
      for (int w = 0; w < Count; ++w) {
        const bool alone = reader[w] == 0 || reader[w] == own_mark;
        plain &= (writer[w] == 0 || writer[w] == own_mark || writer[w] == kAll) &&
                 (alone || reader[w] == static_cast<Word>((reader[w] & 0xff) * kOnes)) &&
                 (!initialised_ || written[w] == kOnes);
        marks[w] = alone ? own_mark : kAll;
      }
      if (plain) std::memcpy(reader_.data() + at, marks, sizeof marks);
    }
    if (!plain && !noted(access, at, kBytes, mark)) {
      refused |= std::uint64_t{1} << lane;
      continue;
    }
    low = std::min(low, at);
    high = std::max(high, at + kBytes);
  }
  note_range(low, high);
  return refused;
}

std::uint64_t Shadow::lanes(LdsAccess access, const std::uint32_t* address, std::uint64_t active, std::uint32_t bytes,
                            std::uint8_t mark) {
  const bool writes = access == LdsAccess::Write;
  if (races_) {
    switch (bytes) {
      case 4:
        return writes ? words<std::uint32_t, 1, true>(access, address, active, mark)
                      : words<std::uint32_t, 1, false>(access, address, active, mark);
      case 8:
        return writes ? words<std::uint64_t, 1, true>(access, address, active, mark)
                      : words<std::uint64_t, 1, false>(access, address, active, mark);
      case 16:
        return writes ? words<std::uint64_t, 2, true>(access, address, active, mark)
                      : words<std::uint64_t, 2, false>(access, address, active, mark);
      default: break;
    }
  }
  std::uint64_t refused = 0;
  for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (!noted(access, address[lane], bytes, mark)) refused |= std::uint64_t{1} << lane;
  }
  return refused;
}

void Shadow::explain(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes, std::uint8_t mark,
                     const char* what) const {
  const bool writes = *what == 'w';
  for (std::uint32_t b = address; b < address + bytes; ++b) {
    if (initialised_ && !writes && written_[b] == 0) {
      find(wave, FaultKind::LdsUninitialised, lane,
           "%s %u bytes at LDS address 0x%x: nobody in this workgroup has written byte 0x%x", what, bytes, address, b);
    } else if (races_ && writer_[b] != kNobody && writer_[b] != mark && (writes || writer_[b] != kSeveral)) {
      find(wave, FaultKind::LdsRace, lane,
           "%s %u bytes at LDS address 0x%x, of which %s written byte 0x%x since the last barrier", what, bytes,
           address, who(writer_[b]).c_str(), b);
    } else if (races_ && writes && reader_[b] != kNobody && reader_[b] != mark) {
      find(wave, FaultKind::LdsRace, lane,
           "%s %u bytes at LDS address 0x%x, of which %s read byte 0x%x since the last barrier", what, bytes, address,
           who(reader_[b]).c_str(), b);
    }
  }
}

void Shadow::barrier() {
  if (low_ < high_) {
    std::memset(writer_.data() + low_, kNobody, high_ - low_);
    std::memset(reader_.data() + low_, kNobody, high_ - low_);
  }
  low_ = ~0u;
  high_ = 0;
}

void Shadow::reset() {
  barrier();
  std::fill(written_.begin(), written_.end(), std::uint8_t{0});
}

}  // namespace apb::emu
