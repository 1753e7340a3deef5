// Typed buffer accesses: buffer_load/store_format_* (formats and component selection from the resource) and tbuffer_*
// (formats from the instruction, components in their own places; those that the format lacks are 0).
#include "buffer.h"

#include <bit>

#include "buffer_convert.h"
#include "buffer_resource.h"
#include "lanes.h"
#include "memory_direct.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

struct Typed {
  const DataFormat* format;
  unsigned numeric;
  std::array<std::uint8_t, 4> select;  // as in the resource
};

// False: a format that this library cannot convert; the wave has stopped.
bool typed(Wave& wave, const Instruction& instruction, const BufferResource& resource, Typed& out) {
  const bool own = instruction.encoding == Encoding::Mtbuf;
  const unsigned data = own ? instruction.data_format : resource.data_format;
  out.numeric = own ? instruction.number_format : resource.number_format;
  out.format = &data_format(data);
  out.select = resource.select;
  if (own)
    for (unsigned i = 0; i < 4; ++i) out.select[i] = static_cast<std::uint8_t>(i < out.format->components ? 4 + i : 0);
  if (!resource.bound || convertible(data, out.numeric)) return true;
  raise(wave, FaultKind::UnknownInstruction, -1,
        "buffer access with data format %u and number format %u, which is not implemented", data, out.numeric);
  return false;
}

bool reach_element(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) {
  if (!reachable(wave, lane, address, bytes)) return false;
  if (wave.observer) wave.observer->global(wave, lane, address, bytes);
  return wave.stop != Stop::Fault;
}

// Bits [first, first + bits) of an element.
std::uint32_t component(std::uint64_t element, unsigned first, unsigned bits) {
  if (bits == 32 || bits == 16 || bits == 8) {
    std::uint32_t raw = 0;
    std::memcpy(&raw, reinterpret_cast<const void*>(element + first / 8), bits / 8);
    return raw;
  }
  return read_host<std::uint32_t>(element) >> first & ((1u << bits) - 1);
}

// The four components of one lane as the register receives them. `element` 0: out of range.
void convert(const Typed& type, std::uint64_t element, std::uint32_t* out) {
  std::uint32_t memory[4] = {};
  unsigned first = 0;
  for (unsigned c = 0; c < type.format->components && element; first += type.format->bits[c++]) {
    memory[c] = from_memory(component(element, first, type.format->bits[c]), type.format->bits[c], type.numeric);
  }
  const std::uint32_t one = is_integer(type.numeric) ? 1 : 0x3f800000;
  for (int i = 0; i < 4; ++i) out[i] = type.select[i] >= 4 ? memory[type.select[i] - 4] : type.select[i] == 1 ? one : 0;
}

// Floats become f16, integers keep their low 16 bits.
std::uint32_t to_d16(std::uint32_t value, unsigned numeric) {
  return (is_integer(numeric) ? value : f32_to_f16(std::bit_cast<float>(value))) & 0xffff;
}
std::uint32_t from_d16(std::uint32_t half, unsigned numeric) {
  if (numeric == number::Uint) return half;
  if (numeric == number::Sint)
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(half)));
  return f16_to_f32_bits(half);
}

// Whole elements only: in range or not ("all or nothing").
bool load_components(Wave& wave, const BufferAccess& access, const Typed& type, std::uint32_t (*out)[4]) {
  const std::uint32_t bytes = type.format->bytes;
  for (std::uint64_t rest = wave.exec(); rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const bool inside = access.in_range(l, 0, bytes);
    if (inside && !reach_element(wave, l, access.address(l, 0), bytes)) return false;
    if (inside) count_read(wave, 1, bytes);
    convert(type, inside ? access.address(l, 0) : 0, out[l]);
  }
  return true;
}

enum class Width : std::uint8_t { full, d16, D16High };

template <int N, Width W>
void load(Wave& wave, const Instruction& instruction) {
  const BufferOperands operands = buffer_load_operands(instruction);
  const BufferAccess access(wave, instruction, operands, true);
  Typed type;
  std::uint32_t value[kLanes][4];
  if (!typed(wave, instruction, access.resource(), type) || !load_components(wave, access, type, value)) return;
  std::uint32_t* rows = wave.row(*operands.data);
  for_lanes(wave.exec(), [&](int l) {
    if constexpr (W == Width::full) {
      for (int i = 0; i < N; ++i) rows[i * kLanes + l] = value[l][i];
    } else {
      for (int i = 0; i < N; ++i) {
        std::uint32_t& to = rows[i / 2 * kLanes + l];
        const std::uint32_t half = to_d16(value[l][i], type.numeric);
        const bool upper = W == Width::D16High || i % 2;
        const std::uint32_t other = i % 2                    ? to & 0xffff
                                    : kD16LoadKeepsOtherHalf ? to & (upper ? 0xffff : 0xffff0000)
                                                             : 0;
        to = other | (upper ? half << 16 : half);
      }
    }
  });
}

void load_to_lds(Wave& wave, const Instruction& instruction) {
  const BufferAccess access(wave, instruction, buffer_load_operands(instruction), true);
  Typed type;
  std::uint32_t value[kLanes][4], row[kLanes] = {};
  if (!typed(wave, instruction, access.resource(), type) || !load_components(wave, access, type, value)) return;
  for_lanes(wave.exec(), [&](int l) { row[l] = value[l][0]; });
  write_direct<Shape{4}>(wave, instruction, row);
}

// Writes the components that the instruction brings and the format has; false: packed fields would have to be kept,
// which the ISA does not describe.
bool store_element(const Typed& type, const std::uint32_t* value, int given, std::uint64_t element) {
  std::uint32_t memory[4] = {};
  unsigned have = 0;
  for (int i = 0; i < given; ++i) {
    if (type.select[i] < 4) continue;
    const unsigned c = type.select[i] - 4u;
    if (c >= type.format->components) continue;
    memory[c] = to_memory(value[i], type.format->bits[c], type.numeric);
    have |= 1u << c;
  }
  const bool packed = type.format->bits[0] % 8 || type.format->bits[1] % 8;
  if (packed && have != (1u << type.format->components) - 1) return false;
  unsigned first = 0;
  std::uint32_t word = 0;
  for (unsigned c = 0; c < type.format->components; first += type.format->bits[c++]) {
    if (packed)
      word |= memory[c] << first;
    else if (have >> c & 1)
      std::memcpy(reinterpret_cast<void*>(element + first / 8), &memory[c], type.format->bits[c] / 8);
  }
  if (packed) write_host(element, word);
  return true;
}

template <int N, Width W>
void store(Wave& wave, const Instruction& instruction) {
  const BufferOperands operands = buffer_store_operands(instruction);
  const BufferAccess access(wave, instruction, operands, true);
  Typed type;
  if (!typed(wave, instruction, access.resource(), type)) return;
  const std::uint32_t *rows = wave.row(*operands.data), bytes = type.format->bytes;
  for (std::uint64_t rest = wave.exec(); rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (!access.in_range(l, 0, bytes)) continue;
    const std::uint64_t at = access.address(l, 0);
    if (!reach_element(wave, l, at, bytes)) return;
    std::uint32_t value[4] = {};
    for (int i = 0; i < N; ++i) {
      if constexpr (W == Width::full) {
        value[i] = rows[i * kLanes + l];
      } else {
        const std::uint32_t both = rows[i / 2 * kLanes + l];
        value[i] = from_d16(W == Width::D16High || i % 2 ? both >> 16 : both & 0xffff, type.numeric);
      }
    }
    if (!store_element(type, value, N, at)) {
      raise(wave, FaultKind::UnknownInstruction, l, "typed store of %d components to a packed format with %u", N,
            unsigned{type.format->components});
      return;
    }
    count_written(wave, 1, bytes);
  }
}

#define APB_FORMATS(PREFIX)                                                                                        \
  {Opcode::PREFIX##_LOAD_FORMAT_X, load<1, Width::full>}, {Opcode::PREFIX##_LOAD_FORMAT_XY, load<2, Width::full>}, \
      {Opcode::PREFIX##_LOAD_FORMAT_XYZ, load<3, Width::full>},                                                    \
      {Opcode::PREFIX##_LOAD_FORMAT_XYZW, load<4, Width::full>},                                                   \
      {Opcode::PREFIX##_LOAD_FORMAT_D16_X, load<1, Width::d16>},                                                   \
      {Opcode::PREFIX##_LOAD_FORMAT_D16_XY, load<2, Width::d16>},                                                  \
      {Opcode::PREFIX##_LOAD_FORMAT_D16_XYZ, load<3, Width::d16>},                                                 \
      {Opcode::PREFIX##_LOAD_FORMAT_D16_XYZW, load<4, Width::d16>},                                                \
      {Opcode::PREFIX##_STORE_FORMAT_X, store<1, Width::full>},                                                    \
      {Opcode::PREFIX##_STORE_FORMAT_XY, store<2, Width::full>},                                                   \
      {Opcode::PREFIX##_STORE_FORMAT_XYZ, store<3, Width::full>},                                                  \
      {Opcode::PREFIX##_STORE_FORMAT_XYZW, store<4, Width::full>},                                                 \
      {Opcode::PREFIX##_STORE_FORMAT_D16_X, store<1, Width::d16>},                                                 \
      {Opcode::PREFIX##_STORE_FORMAT_D16_XY, store<2, Width::d16>},                                                \
      {Opcode::PREFIX##_STORE_FORMAT_D16_XYZ, store<3, Width::d16>}, {                                             \
    Opcode::PREFIX##_STORE_FORMAT_D16_XYZW, store<4, Width::d16>                                                   \
  }

}  // namespace

bool bind_buffer_format(Instruction& instruction) {
  static const MemoryTable rows{
      APB_FORMATS(BUFFER),
      APB_FORMATS(TBUFFER),
      {Opcode::BUFFER_LOAD_FORMAT_D16_HI_X, load<1, Width::D16High>},
      {Opcode::BUFFER_STORE_FORMAT_D16_HI_X, store<1, Width::D16High>},
  };
  static const MemoryTable direct{{Opcode::BUFFER_LOAD_FORMAT_X, load_to_lds}};
  return instruction.lds ? direct.bind(instruction) : rows.bind(instruction);
}

}  // namespace apb::emu
