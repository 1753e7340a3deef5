#include "machine/trace/trace_record.h"

#include <algorithm>
#include <cstdio>

#include "execute/lines.h"
#include "isa/decode.h"
#include "isa/print.h"
#include "machine/output/json.h"

namespace apb::emu {
namespace {

constexpr unsigned kInRow = 8;  // lanes of a line of text

std::string hexadecimal(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

std::string hexadecimal64(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string numbers(const std::array<std::uint32_t, kLanes>& values, std::uint64_t lanes) {
  std::string out = "[";
  for (; lanes != 0; lanes &= lanes - 1)
    out += (out.size() > 1 ? ", " : "") + std::to_string(values[static_cast<std::size_t>(std::countr_zero(lanes))]);
  return out + "]";
}

// " 0x.." when all are the same, else rows of lanes.
std::string columns(const std::array<std::uint32_t, kLanes>& values, std::uint64_t lanes) {
  const std::uint32_t first = values[static_cast<std::size_t>(std::countr_zero(lanes | 1ull << 63))];
  bool same = true;
  for (std::uint64_t rest = lanes; rest != 0; rest &= rest - 1)
    same = same && values[static_cast<std::size_t>(std::countr_zero(rest))] == first;
  if (same) return " " + hexadecimal(first);
  std::string out;
  unsigned in_row = 0;
  for (std::uint64_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (in_row == 0) out += "\n      [" + std::to_string(lane) + "]";
    out += " " + hexadecimal(values[static_cast<std::size_t>(lane)]);
    in_row = (in_row + 1) % kInRow;
  }
  return out;
}

std::string source_of(const Wave& wave, const Instruction& instruction) {
  const Lines* lines = wave.group->lines;
  return lines != nullptr ? lines->text(instruction.address) : std::string();
}

}  // namespace

std::string TraceRecord::Register::name() const { return print::register_name(kind, index, 1); }

// Every register of an operand once, in order.
void TraceRecord::list(const Operand& operand, std::vector<Value>& to) {
  const bool vector = operand.kind == OperandKind::Vgpr || operand.kind == OperandKind::Accvgpr;
  if (!vector && operand.kind != OperandKind::Sgpr) return;
  const unsigned end = vector ? 256 : sreg::kCount;
  for (unsigned i = operand.index; i < std::min<unsigned>(operand.index + operand.dwords, end); ++i) {
    const Register one{operand.kind, static_cast<std::uint16_t>(i)};
    if (std::ranges::find(to, one, &Value::from) == to.end()) to.push_back({one, {}, {}});
  }
}

void TraceRecord::fill(const Wave& wave, const Register& from, Lanes& to) {
  if (!from.vector()) {
    to[0] = wave.scalar[from.index];
    return;
  }
  const std::uint32_t* row = wave.vector + (from.index + (from.kind == OperandKind::Accvgpr ? 256 : 0)) * kLanes;
  std::copy_n(row, kLanes, to.begin());
}

void TraceRecord::before(const Wave& wave, const Instruction& instruction, bool registers) {
  reads_.clear();
  writes_.clear();
  std::copy(std::begin(wave.scalar), std::end(wave.scalar), scalar_);
  scc_ = wave.scc;
  mode_ = wave.mode.bits;
  registers_ = registers;
  if (!registers) return;
  for (const Operand& operand : instruction.source) list(operand, reads_);
  for (const Operand& operand : instruction.scale) list(operand, reads_);
  for (const Operand& operand : instruction.destination) list(operand, writes_);
  for (Value& value : reads_) fill(wave, value.from, value.before);
  for (Value& value : writes_) fill(wave, value.from, value.before);
}

// VCC of a carry, EXEC, M0, ...: what changed and is no operand.
void TraceRecord::scalars_changed(const Wave& wave) {
  for (std::uint16_t i = 0; i < sreg::kCount; ++i) {
    const Register one{OperandKind::Sgpr, i};
    if (wave.scalar[i] == scalar_[i] || std::ranges::find(writes_, one, &Value::from) != writes_.end()) continue;
    Value value{one, {}, {}};
    value.before[0] = scalar_[i];
    writes_.push_back(value);
  }
}

std::string TraceRecord::text(const Wave& wave, const Instruction& instruction, std::uint64_t launch,
                              std::uint64_t lanes) const {
  const Workgroup& group = *wave.group;
  char head[200];
  std::snprintf(head, sizeof head, ", launch %llu, workgroup (%u, %u, %u), wave %u, code+0x%x, exec 0x%016llx, %s: ",
                static_cast<unsigned long long>(launch), group.id[0], group.id[1], group.id[2], wave.number,
                instruction.address,
                static_cast<unsigned long long>(scalar_[sreg::kExec] | std::uint64_t{scalar_[sreg::kExec + 1]} << 32),
                name(instruction.category));
  std::string out = "kernel " + std::string(group.kernel) + head + disassemble(wave.target, instruction);
  if (const std::string source = source_of(wave, instruction); !source.empty()) out += "  ; " + source;
  out += '\n';
  for (const Value& value : reads_)
    out += "  reads  " + value.from.name() + columns(value.before, value.from.vector() ? lanes : 1) + "\n";
  for (const Value& value : writes_) {
    const std::uint64_t shown = value.from.vector() ? lanes : 1;
    out += "  had    " + value.from.name() + columns(value.before, shown) + "\n";
    out += "  writes " + value.from.name() + columns(value.after, shown) + "\n";
  }
  if (registers_ && wave.scc != scc_) out += std::string("  writes scc ") + (wave.scc ? "1" : "0") + "\n";
  if (registers_ && wave.mode.bits != mode_) out += "  writes mode " + hexadecimal(wave.mode.bits) + "\n";
  if (wave.stop == Stop::Fault) out += "  fault  " + wave.fault.text + "\n";
  return out;
}

std::string TraceRecord::json(const Wave& wave, const Instruction& instruction, std::uint64_t launch,
                              std::uint64_t lanes) const {
  const Workgroup& group = *wave.group;
  const auto pair = [this](int i) {
    return json_text(hexadecimal64(scalar_[i] | std::uint64_t{scalar_[i + 1]} << 32));
  };
  std::string out = R"({"version": 1, "kernel": )" + json_text(group.kernel) + R"(, "launch": )" +
                    std::to_string(launch) + R"(, "workgroup": [)" + std::to_string(group.id[0]) + ", " +
                    std::to_string(group.id[1]) + ", " + std::to_string(group.id[2]) + R"(], "wave": )" +
                    std::to_string(wave.number) + R"(, "pc": )" + std::to_string(instruction.address) +
                    R"(, "instruction": )" + json_text(disassemble(wave.target, instruction)) + R"(, "class": )" +
                    json_text(name(instruction.category)) + R"(, "exec": )" + pair(sreg::kExec) + R"(, "vcc": )" +
                    pair(sreg::kVcc) + R"(, "m0": )" + std::to_string(scalar_[sreg::kM0]) + R"(, "scc": )" +
                    std::to_string(scc_ ? 1 : 0);
  if (const std::string source = source_of(wave, instruction); !source.empty())
    out += R"(, "source": )" + json_text(source);
  if (wave.stop == Stop::Fault) out += R"(, "fault": )" + json_text(wave.fault.text);
  if (!registers_) return out + "}\n";
  out += R"(, "lanes": )" + json_text(hexadecimal64(lanes)) + R"(, "reads": [)";
  const char* separator = "";
  for (const Value& value : reads_) {
    out += separator + (R"({"name": )" + json_text(value.from.name())) + R"(, "values": )" +
           numbers(value.before, value.from.vector() ? lanes : 1) + "}";
    separator = ", ";
  }
  out += R"(], "writes": [)";
  separator = "";
  const auto write = [&](const std::string& register_name, const std::string& had, const std::string& has) {
    out += separator + (R"({"name": )" + json_text(register_name)) + R"(, "before": )" + had + R"(, "after": )" + has +
           "}";
    separator = ", ";
  };
  for (const Value& value : writes_) {
    const std::uint64_t shown = value.from.vector() ? lanes : 1;
    write(value.from.name(), numbers(value.before, shown), numbers(value.after, shown));
  }
  if (wave.scc != scc_) write("scc", scc_ ? "[1]" : "[0]", wave.scc ? "[1]" : "[0]");
  if (wave.mode.bits != mode_)
    write("mode", "[" + std::to_string(mode_) + "]", "[" + std::to_string(wave.mode.bits) + "]");
  return out + "]}\n";
}

std::string TraceRecord::after(const Wave& wave, const Instruction& instruction, std::uint64_t launch,
                               const TraceFilter& filter) {
  if (registers_) scalars_changed(wave);
  for (Value& value : writes_) fill(wave, value.from, value.after);
  return filter.json ? json(wave, instruction, launch, filter.lanes) : text(wave, instruction, launch, filter.lanes);
}

}  // namespace apb::emu
