#include "machine/debug/debug_look.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "isa/decode.h"
#include "machine/output/json.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20, kMostInstructions = 1 << 14, kRows = 512;

void append_hex(std::string& to, const std::uint8_t* bytes, std::size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < count; ++i) {
    to += kDigits[bytes[i] >> 4];
    to += kDigits[bytes[i] & 15];
  }
}

// The host's memory may have gone since the launch began: the kernel looks whether it is there.
class Reader {
 public:
  Reader() {
    if (::pipe(ends_) != 0) ends_[0] = ends_[1] = -1;
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }
  // The number of readable bytes, of at most 4096.
  std::size_t read(std::uint64_t address, std::uint8_t (&to)[4096], std::size_t bytes) const {
    const std::size_t to_page = 4096 - address % 4096;
    const ssize_t sent = ::write(ends_[1], reinterpret_cast<const void*>(address), std::min(bytes, to_page));
    if (sent <= 0) return 0;
    std::size_t done = 0;
    while (done < static_cast<std::size_t>(sent)) {
      const ssize_t got = ::read(ends_[0], to + done, static_cast<std::size_t>(sent) - done);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  int ends_[2] = {-1, -1};
};

std::string frame_json(const SourceFrame& frame, const char* kernel) {
  return R"({"function": )" + json_text(frame.function.empty() ? kernel : frame.function) + R"(, "file": )" +
         json_text(frame.file) + R"(, "line": )" + std::to_string(frame.line) + R"(, "column": )" +
         std::to_string(frame.column) + "}";
}

const char* state_of(const Wave& wave) {
  switch (wave.stop) {
    case Stop::Barrier: return "at a barrier";
    case Stop::Fault: return "fault";
    default: return "runs";
  }
}

}  // namespace

bool DebugLook::fail(std::string text) {
  problem = std::move(text);
  return false;
}

const LiveGroup* DebugLook::group_of(std::uint64_t serial) {
  const auto found = std::ranges::find(live, serial, &LiveGroup::serial);
  if (found != live.end()) return *found;
  fail("workgroup number " + std::to_string(serial) + " does not run");
  return nullptr;
}

const LiveGroup::Seat* DebugLook::seat_of(std::uint64_t serial, std::uint64_t number) {
  const LiveGroup* group = group_of(serial);
  if (group == nullptr) return nullptr;
  if (number < group->seats.size() && group->seats[number].wave != nullptr) return &group->seats[number];
  fail("wave " + std::to_string(number) + " of workgroup number " + std::to_string(serial) + " does not run");
  return nullptr;
}

bool DebugLook::waves() {
  out = R"(, "waves": [)";
  const char* separator = "";
  for (const LiveGroup* group : live) {
    for (std::size_t number = 0; number < group->seats.size(); ++number) {
      const LiveGroup::Seat& seat = group->seats[number];
      if (seat.wave == nullptr) continue;
      out += separator + (R"({"group": )" + std::to_string(group->serial)) + R"(, "wave": )" + std::to_string(number) +
             R"(, "kernel": )" + json_text(group->group->kernel) + R"(, "device": )" +
             std::to_string(group->code->object->device) + R"(, "workgroup": [)" + std::to_string(group->group->id[0]) +
             ", " + std::to_string(group->group->id[1]) + ", " + std::to_string(group->group->id[2]) +
             R"(], "state": )" + json_text(state_of(*seat.wave)) + "}";
      separator = ", ";
    }
  }
  out += "]";
  return true;
}

bool DebugLook::frames(std::uint64_t serial, std::uint64_t number) {
  const LiveGroup::Seat* seat = seat_of(serial, number);
  if (seat == nullptr) return false;
  const LiveGroup& group = *group_of(serial);
  const CodeObject& code = *group.code->object;
  const std::uint32_t offset = group.offset(*seat);
  const char* kernel = group.group->kernel;
  std::string text = "outside the code";
  if (offset / 4 < code.instructions.size() && code.instructions[offset / 4].dwords != 0)
    text = disassemble(code.target, code.instructions[offset / 4]);
  out = R"(, "address": )" + std::to_string(code.code + offset) + R"(, "offset": )" + std::to_string(offset) +
        R"(, "kernel": )" + json_text(kernel) + R"(, "instruction": )" + json_text(text) + R"(, "frames": [)";
  const char* separator = "";
  if (code.lines) {
    for (const SourceFrame& frame : code.lines->frames(offset)) {
      out += separator + frame_json(frame, kernel);
      separator = ", ";
    }
  }
  out += "]";
  return true;
}

bool DebugLook::scalars(std::uint64_t serial, std::uint64_t number) {
  const LiveGroup::Seat* seat = seat_of(serial, number);
  if (seat == nullptr) return false;
  const Wave& wave = *seat->wave;
  out = R"(, "scalars": [)";
  for (int i = 0; i < sreg::kCount; ++i) out += (i != 0 ? ", " : "") + std::to_string(wave.scalar[i]);
  const Kernel& kernel = *group_of(serial)->dispatch->kernel;
  const std::uint32_t accumulation = kernel.vgprs - std::min(kernel.accum_offset, kernel.vgprs);
  out += R"(], "scc": )" + std::to_string(wave.scc ? 1 : 0) + R"(, "mode": )" + std::to_string(wave.mode.bits) +
         R"(, "vgprs": )" + std::to_string(kernel.vgprs - accumulation) + R"(, "agprs": )" +
         std::to_string(accumulation) + R"(, "sgprs": )" + std::to_string(kernel.sgprs) + R"(, "lds": )" +
         std::to_string(wave.group->lds_bytes) + R"(, "text": )" + json_text(wave.fault.text);
  return true;
}

bool DebugLook::rows(std::uint64_t serial, std::uint64_t number, std::uint64_t first, std::uint64_t count) {
  const LiveGroup::Seat* seat = seat_of(serial, number);
  if (seat == nullptr) return false;
  if (first >= kRows || count > kRows - first)
    return fail("rows " + std::to_string(first) + " to " + std::to_string(first + count) + ": there are 512");
  out = R"(, "rows": [)";
  for (std::uint64_t row = first; row < first + count; ++row) {
    out += row == first ? "[" : ", [";
    for (int lane = 0; lane < kLanes; ++lane)
      out += (lane != 0 ? ", " : "") + std::to_string(seat->wave->vector[row * kLanes + static_cast<unsigned>(lane)]);
    out += "]";
  }
  out += "]";
  return true;
}

bool DebugLook::lds(std::uint64_t serial, std::uint64_t address, std::uint64_t count) {
  const LiveGroup* group = group_of(serial);
  if (group == nullptr) return false;
  const std::uint64_t bytes = group->group->lds_bytes;
  const std::uint64_t there = address >= bytes ? 0 : std::min({count, bytes - address, kMostBytes});
  out = R"(, "bytes": ")";
  if (there != 0) append_hex(out, group->group->lds + address, there);
  out += "\"";
  return true;
}

bool DebugLook::memory(std::uint64_t address, std::uint64_t count) {
  Range range;
  const auto reachable = [&](const LiveGroup* group) { return group->dispatch->memory.find(address, 1, range); };
  if (std::ranges::none_of(live, reachable)) return fail("no allocation that the kernel may touch is there");
  const Reader reader;
  std::uint64_t left = std::min({count, range.end - address, kMostBytes});
  out = R"(, "bytes": ")";
  while (left != 0) {
    std::uint8_t part[4096];
    const std::size_t got = reader.read(address, part, std::min<std::uint64_t>(left, sizeof part));
    if (got == 0) break;
    append_hex(out, part, got);
    address += got;
    left -= got;
  }
  out += "\"";
  return true;
}

bool DebugLook::code(std::uint64_t address, std::uint64_t before, std::uint64_t count) {
  const auto holds = [&](const LiveGroup* group) {
    const CodeObject& code = *group->code->object;
    return address >= code.code && (address - code.code) / 4 < code.instructions.size();
  };
  const auto found = std::ranges::find_if(live, holds);
  if (found == live.end()) return fail("no code that runs is there");
  const CodeObject& code = *(*found)->code->object;
  std::uint64_t at = (address - code.code) / 4;
  std::uint64_t back = std::min(before, kMostInstructions);
  for (std::uint64_t i = at; i > 0 && back != 0;)
    if (code.instructions[--i].execute != nullptr) {
      at = i;
      --back;
    }
  out = R"(, "missing_before": )" + std::to_string(back) + R"(, "instructions": [)";
  const char* separator = "";
  for (std::uint64_t done = 0; done < std::min(count, kMostInstructions) && at < code.instructions.size(); ++done) {
    const Instruction& one = code.instructions[at];
    const std::uint64_t dwords = std::max<std::uint64_t>(one.dwords, 1);
    const auto offset = static_cast<std::uint32_t>(at * 4);
    out += separator + (R"({"address": )" + std::to_string(code.code + offset)) + R"(, "offset": )" +
           std::to_string(offset) + R"(, "text": )" +
           json_text(one.dwords != 0 ? disassemble(code.target, one) : "undecodable") + R"(, "bytes": ")";
    const std::uint64_t bytes = std::min<std::uint64_t>(dwords, code.instructions.size() - at) * 4;
    append_hex(out, reinterpret_cast<const std::uint8_t*>(code.code + offset), bytes);
    out += "\"";
    if (const auto frames = code.lines ? code.lines->frames(offset) : std::vector<SourceFrame>{}; !frames.empty())
      out += R"(, "file": )" + json_text(frames.front().file) + R"(, "line": )" + std::to_string(frames.front().line);
    out += "}";
    separator = ", ";
    at += dwords;
  }
  out += "]";
  return true;
}

bool DebugLook::files() {
  std::vector<std::string> all;
  for (const LiveGroup* group : live)
    if (group->code->object->lines)
      for (const std::string& name : group->code->object->lines->files())
        if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  out = R"(, "files": [)";
  for (const std::string& name : all) out += (&name == &all.front() ? "" : ", ") + json_text(name);
  out += "]";
  return true;
}

}  // namespace apb::emu
