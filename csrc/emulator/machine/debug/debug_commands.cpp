#include "machine/debug/debug_commands.h"

#include <charconv>
#include <cstdint>
#include <vector>

#include "machine/debug/debug_channel.h"
#include "machine/debug/debug_look.h"
#include "machine/debug/debug_state.h"
#include "machine/output/json.h"

namespace apb::emu {
namespace {

using Fields = std::vector<std::string_view>;

Fields split(std::string_view line) {
  Fields fields;
  while (true) {
    const std::size_t at = line.find('\t');
    fields.push_back(line.substr(0, at));
    if (at == std::string_view::npos) return fields;
    line.remove_prefix(at + 1);
  }
}

bool read_number(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

class Command {
 public:
  explicit Command(std::string_view line) : fields_(split(line)) {}

  std::string answer() {
    const bool done = fields_.size() >= 2 && (control(fields_[1]) || look(fields_[1]));
    if (!done && problem_.empty()) problem_ = "not understood";
    std::uint64_t number = 0;
    if (!read_number(fields_[0], number)) number = 0;
    const std::string begin = R"({"reply": )" + std::to_string(number);
    return begin + (problem_.empty() ? out_ : R"(, "error": )" + json_text(problem_)) + "}";
  }

 private:
  bool fail(const char* text) {
    problem_ = text;
    return true;
  }
  // The argument as a number; 0 with a problem when it is none.
  std::uint64_t argument(std::size_t index) {
    std::uint64_t value = 0;
    if (index + 2 >= fields_.size() || !read_number(fields_[index + 2], value)) problem_ = "a number is missing";
    return value;
  }

  bool control(std::string_view verb) {
    DebugState& state = DebugState::instance();
    if (verb == "go") return DebugChannel::instance().begin(), true;
    if (verb == "detach") return state.detach(), true;
    if (verb == "faults") return state.stop_on_fault(argument(0) != 0), true;
    if (verb == "entry") return state.stop_at_entry(), true;
    if (verb == "pause") return state.pause(), true;
    if (verb == "continue") return state.resume() || fail("nothing stands still");
    if (verb == "breakpoints") return breakpoints();
    if (verb == "step") return step();
    return false;
  }

  bool step() {
    const std::uint64_t group = argument(0), wave = argument(1);
    const std::string_view word = fields_.size() > 4 ? fields_[4] : "";
    const StepKind kind = word == "in"     ? StepKind::In
                          : word == "over" ? StepKind::Over
                          : word == "out"  ? StepKind::Out
                                           : StepKind::Instruction;
    if (!problem_.empty()) return true;
    return DebugState::instance().step(group, static_cast<std::uint32_t>(wave), kind) ||
           fail("the wave does not stand still: it has ended, or all go on");
  }

  bool breakpoints() {
    constexpr std::size_t kFields = 5;
    if ((fields_.size() - 2) % kFields != 0) return false;
    std::vector<Breakpoint> all;
    for (std::size_t i = 0; i + 2 < fields_.size(); i += kFields) {
      Breakpoint one;
      one.id = argument(i);
      const std::string_view kind = fields_[i + 3];
      one.kind = kind == "line"     ? Breakpoint::Kind::Line
                 : kind == "kernel" ? Breakpoint::Kind::Kernel
                                    : Breakpoint::Kind::Address;
      one.name = fields_[i + 4];
      one.number = argument(i + 3);
      problem_ += read_trace_filter(fields_[i + 6], one.condition);
      all.push_back(std::move(one));
    }
    if (problem_.empty()) DebugState::instance().set_breakpoints(std::move(all));
    return true;
  }

  bool look(std::string_view verb) {
    bool known = false;
    const bool stood = DebugState::instance().standing([&](const std::vector<LiveGroup*>& live) {
      DebugLook see{live, {}, {}};
      known = ask(verb, see);
      out_ = see.out;
      if (problem_.empty()) problem_ = see.problem;
    });
    return stood ? known : fail("nothing stands still: pause first");
  }

  bool ask(std::string_view verb, DebugLook& see) {
    if (verb == "waves") return see.waves(), true;
    if (verb == "files") return see.files(), true;
    const std::uint64_t first = argument(0), second = argument(1);
    if (verb == "frames") return see.frames(first, second), true;
    if (verb == "scalars") return see.scalars(first, second), true;
    if (verb == "memory") return see.memory(first, second), true;
    const std::uint64_t third = argument(2);
    if (verb == "lds") return see.lds(first, second, third), true;
    if (verb == "code") return see.code(first, second, third), true;
    if (verb == "rows") return see.rows(first, second, third, argument(3)), true;
    return false;
  }

  Fields fields_;
  std::string out_, problem_;
};

}  // namespace

std::string answer_command(std::string_view line) {
  try {
    return Command(line).answer();
  } catch (const std::exception& error) {
    return R"({"reply": 0, "error": )" + json_text(error.what()) + "}";
  }
}

}  // namespace apb::emu
