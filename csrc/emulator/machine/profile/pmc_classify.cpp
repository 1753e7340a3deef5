// The counters of an instruction. They are chosen by mnemonic where the counter's own text does so: "ADD/SUB instructions on
// float32".
#include <algorithm>
#include <string_view>

#include "isa/decode.h"
#include "machine/profile/pmc_events.h"

namespace apb::emu {
namespace {

using std::string_view;

constexpr std::uint8_t kQuarterRate =
    16;  // transcendentals and 32-bit integer products go through a quarter of the ALUs

struct Words {
  string_view verb, type;  // "add" and "f32" of v_pk_add_f32
};

Words words_of(string_view name) {
  name.remove_prefix(std::min(name.size(), string_view("v_").size()));
  if (name.starts_with("pk_")) name.remove_prefix(3);
  const std::size_t last = name.rfind('_');
  if (last == string_view::npos) return {name, {}};
  return {name.substr(0, name.find('_')), name.substr(last + 1)};
}

bool one_of(string_view word, std::initializer_list<string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

// f16, f32, f64: 0, 1, 2.
int float_of(string_view type) { return type == "f16" ? 0 : type == "f32" ? 1 : type == "f64" ? 2 : -1; }

Event typed(Event first, int type) { return static_cast<Event>(static_cast<int>(first) + type); }

void classify_valu(string_view name, OpcodeClass& out) {
  out.unit = Unit::Vector;
  out.add(Event::Valu);
  const auto [verb, type] = words_of(name);
  if (verb == "cvt") return out.add(Event::Convert);
  if (const int kind = float_of(type); kind >= 0) {
    if (one_of(verb, {"exp", "log", "rcp", "rsq", "sqrt", "sin", "cos"})) {
      out.cycles = kQuarterRate;
      return out.add(typed(Event::TransF16, kind));
    }
    if (one_of(verb, {"add", "sub", "subrev"})) return out.add(typed(Event::AddF16, kind));
    if (verb == "mul") return out.add(typed(Event::MulF16, kind));
    if (one_of(verb, {"fma", "fmac", "fmamk", "fmaak", "mad", "mac", "madmk", "madak"}))
      return out.add(typed(Event::FmaF16, kind));
    return;
  }
  if (name.starts_with("v_mul_lo_u32") || name.starts_with("v_mul_hi_u32") || name.starts_with("v_mul_hi_i32"))
    out.cycles = kQuarterRate;
  if (one_of(type, {"u64", "i64"}) || name.starts_with("v_mad_u64") || name.starts_with("v_mad_i64"))
    return out.add(Event::Int64);
  if (one_of(type, {"u32", "i32", "u24", "i24"})) out.add(Event::Int32);
}

void classify_smem(const Instruction& i, string_view name, OpcodeClass& out) {
  out.unit = Unit::ScalarMemory;
  out.add(Event::Smem);
  if (i.category == Category::Atomic) return out.add(Event::ScalarAtomic);
  if (name.starts_with("s_dcache")) return out.add(Event::ScalarCacheControl);
  if (!name.starts_with("s_load") && !name.starts_with("s_buffer_load")) return;
  const auto ends = [&](string_view end) { return name.ends_with(end); };
  out.add(ends("x16")  ? Event::ScalarRead16
          : ends("x8") ? Event::ScalarRead8
          : ends("x4") ? Event::ScalarRead4
          : ends("x2") ? Event::ScalarRead2
                       : Event::ScalarRead1);
}

void classify_ds(string_view name, OpcodeClass& out) {
  if (name == "ds_nop") return;
  out.unit = Unit::Lds;
  out.add(Event::Lds);
  if (name.starts_with("ds_read")) return out.add(Event::LdsLoad);
  if (name.starts_with("ds_write")) return out.add(Event::LdsStore);
  if (name.find("permute") == string_view::npos && !name.starts_with("ds_swizzle")) out.add(Event::LdsAtomic);
}

// Atomics that return are reads, others writes: the counters' text does not say.
void classify_memory(const Instruction& i, OpcodeClass& out) {
  const bool flat = i.encoding == Encoding::Flat || i.encoding == Encoding::Global || i.encoding == Encoding::Scratch;
  if (i.category == Category::Other) return;  // buffer_inv, buffer_wbl2
  out.unit = i.encoding == Encoding::Flat ? Unit::Flat : Unit::Memory;
  if (flat) out.add(Event::FlatEncoded);
  if (i.encoding == Encoding::Flat) {
    out.add(Event::FlatSegment);  // among LDS's when a lane's address is there
  }
  if (i.category == Category::Atomic) {
    out.add(i.sc0 ? Event::VmemRead : Event::VmemWrite);
    return out.add(flat ? Event::FlatAtomic : Event::BufferAtomic);
  }
  if (i.category == Category::VmemStore) {
    out.add(Event::VmemWrite);
    return out.add(flat ? Event::FlatWrite : Event::BufferWrite);
  }
  out.add(Event::VmemRead);
  out.add(flat ? Event::FlatRead : Event::BufferRead);
  if (i.lds) out.add(flat ? Event::FlatReadLds : Event::BufferReadLds);
}

void classify_scalar(const Instruction& i, OpcodeClass& out) {
  if (i.category == Category::Branch) {
    out.unit = Unit::Branch;
    out.add(Event::Branch);
  } else if (i.category == Category::Salu) {
    out.unit = Unit::Scalar;
    out.add(Event::Salu);
  } else if (i.opcode == Opcode::S_SENDMSG || i.opcode == Opcode::S_ENDPGM) {
    // A card counts one for each wave of a kernel without s_sendmsg: its end is a message, too.
    out.unit = Unit::Branch;
    out.add(Event::SendMessage);
  }
}

}  // namespace

OpcodeClass classify(const Instruction& i) {
  OpcodeClass out;
  out.known = true;
  out.add(Event::Instructions);
  const string_view name = mnemonic(i.opcode);
  switch (i.encoding) {
    case Encoding::Smem: classify_smem(i, name, out); break;
    case Encoding::Ds: classify_ds(name, out); break;
    case Encoding::Flat:
    case Encoding::Global:
    case Encoding::Scratch:
    case Encoding::Mubuf:
    case Encoding::Mtbuf: classify_memory(i, out); break;
    default:
      if (i.category == Category::Mfma) {
        out.unit = Unit::Matrix;
        out.add(Event::Valu);  // matrix instructions are among the VALU's
        out.add(Event::Matrix);
      } else if (i.category == Category::Valu) {
        classify_valu(name, out);
      } else {
        classify_scalar(i, out);
      }
  }
  return out;
}

}  // namespace apb::emu
