#include "machine/trace/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "machine/dwarf/source_lines.h"
#include "machine/observe/instruction_observer.h"
#include "machine/schedule/dispatch.h"
#include "machine/settings/configuration.h"
#include "machine/trace/trace_record.h"

namespace apb::emu {
namespace {

// Standard error, or the file that the configuration names. Opened once for the process and its forks, never closed.
int output() {
  static const int handle = [] {
    std::string path = configuration().trace_file;
    if (path.empty()) return STDERR_FILENO;
    // A program of several processes: one file each.
    if (const std::size_t at = path.find("%p"); at != std::string::npos)
      path.replace(at, 2, std::to_string(::getpid()));
    const int opened = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (opened < 0) log(LogLevel::Error, "AITER_PREBUILT_EMULATOR_TRACE_FILE: cannot write '%s'", path.c_str());
    return opened;
  }();
  return handle;
}

// One call for each record: those of several threads do not mix.
void write_all(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(output(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody to tell
    done += static_cast<std::size_t>(written);
  }
}

// The instructions of the code that the filter selects: one look a launch instead of one an execution.
using Selected = std::vector<bool>;

class WaveTrace final : public InstructionObserver {
 public:
  WaveTrace(const Selected& selected, std::uint64_t launch) : selected_(&selected), launch_(launch) {}
  void before(Wave& wave, const Instruction& instruction) override {
    active_ = on && (*selected_)[instruction.address / 4];
    if (active_) record_.before(wave, instruction, configuration().trace.registers);
  }
  void after(Wave& wave, const Instruction& instruction) override {
    if (active_) write_all(record_.after(wave, instruction, launch_, configuration().trace));
    active_ = false;
  }
  bool on = false;

 private:
  const Selected* selected_;
  std::uint64_t launch_;
  bool active_ = false;
  TraceRecord record_;
};

class GroupTrace final : public GroupObserver {
 public:
  GroupTrace(const Selected& selected, std::uint64_t launch, std::uint32_t waves)
      : waves_(waves, WaveTrace(selected, launch)) {}
  Observer* of_wave(std::uint32_t number) override {
    return configuration().trace.wants_wave(number) ? &waves_[number] : nullptr;
  }
  void begin(const Workgroup& group) override {
    for (WaveTrace& wave : waves_) wave.on = configuration().trace.wants_workgroup(group.id);
  }

 private:
  std::vector<WaveTrace> waves_;
};

class LaunchTrace final : public LaunchObserver {
 public:
  LaunchTrace(const CodeObject& code, std::uint64_t number) : number_(number), selected_(code.instructions.size()) {
    for (std::size_t i = 0; i < selected_.size(); ++i)
      selected_[i] = code.instructions[i].execute != nullptr &&
                     configuration().trace.wants(code.instructions[i], code.lines.get());
  }
  std::unique_ptr<GroupObserver> of_group(const Dispatch& dispatch) override {
    return std::make_unique<GroupTrace>(selected_, number_, dispatch.waves_per_workgroup());
  }

 private:
  std::uint64_t number_;
  Selected selected_;
};

}  // namespace

std::unique_ptr<LaunchObserver> make_trace(const LaunchRequest& request) {
  static std::atomic<std::uint64_t> launches{0};
  const TraceFilter& filter = configuration().trace;
  if (!filter.on) return nullptr;
  const std::uint64_t number = ++launches;
  if (!filter.wants_launch(request.kernel->name, number)) return nullptr;
  return std::make_unique<LaunchTrace>(*request.kernel->object, number);
}

}  // namespace apb::emu
