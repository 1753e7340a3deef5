#include "call/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_set>

namespace apb {
namespace {

// Lines that one process prints or records; an endless stream of new shapes must not grow memory without end.
constexpr std::size_t kMaxLines = 65536;

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// One write per line: standard error and the log are shared with other threads and processes.
bool write_line(int file, std::string line) {
  line += '\n';
  ssize_t done = -1;
  do {
    done = ::write(file, line.data(), line.size());
  } while (done < 0 && errno == EINTR);
  if (done >= 0 && static_cast<std::size_t>(done) < line.size()) errno = ENOSPC;
  return done == static_cast<ssize_t>(line.size());
}

// Lines that go out once each.
class Lines {
 public:
  // True for a new line while there is room for it; `full` says it is the first that finds none.
  bool fresh(const std::string& line, bool& full) {
    const std::lock_guard lock(mutex_);
    full = false;
    if (seen_.size() >= kMaxLines) {
      if (seen_.contains(line)) return false;
      full = !said_;
      said_ = true;
      return false;
    }
    return seen_.insert(line).second;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> seen_;
  bool said_ = false;
};

std::string words_of(const OperatorBlock& block, const layout::Recipe& recipe) {
  std::string out;
  for (const std::uint8_t number : block.array(recipe.types)) out += cat(out.empty() ? "" : "_", kDTypes[number].name);
  return out;
}

const Decision* chosen_of(const std::vector<Decision>& decisions) {
  for (const Decision& decision : decisions) {
    if (decision.chosen) return &decision;
  }
  return nullptr;
}

const char* vendor_text(const DLDevice& where) {
  const int vendor = vendor_of(where.device_type);
  return vendor < 0 ? "?" : kVendors[static_cast<std::size_t>(vendor)];
}

// "x=bf16[3, 40] out=bf16[3, 40] causal=1"
std::string call_text(const Choice& choice, const OperatorBlock& block) {
  std::string out;
  for (std::size_t i = 0; i < choice.call.tensor_count; ++i) {
    const TensorArg& tensor = choice.call.tensors[i];
    if (!tensor.given) continue;
    out += cat(" ", block.text(block.tensors()[i].name), "=", dtype_text(tensor.dtype),
               list_text(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
  }
  const auto attributes = block.attributes();
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    const auto kind = static_cast<AttributeKind>(attributes[i].kind);
    if (kind == AttributeKind::Float || (kind == AttributeKind::Text && choice.call.integers[i] == 0)) continue;
    out += cat(" ", block.text(attributes[i].name), "=");
    out += kind == AttributeKind::Text ? std::string(choice.call.texts[i]) : cat(choice.call.integers[i]);
  }
  return out;
}

// Why the chosen one was chosen, and what of the user's tables did not hold.
std::string why_text(const Choice& choice, const Decision& chosen) {
  std::string out;
  if (chosen.user != nullptr) {
    out = cat("tuned row of the user, ", chosen.user->origin);
  } else if (chosen.tuned()) {
    out = cat("tuned row of ", choice.op.blocks[chosen.at.block]->bundle().path());
  } else {
    std::size_t accepted = 0;
    for (const Decision& decision : choice.decisions) accepted += decision.verdict == Verdict::Accepted ? 1 : 0;
    out = cat("cost ", chosen.cost, ", ", accepted, " of ", choice.decisions.size(), " candidates fit");
  }
  for (const Decision& decision : choice.decisions) {
    if (decision.user == nullptr || decision.chosen || decision.verdict == Verdict::Accepted) continue;
    out += cat("; ", choice.op.label(decision.at), ": ", reason(choice.op, choice.bindings, decision));
  }
  for (const UserRow* row : missing_user_rows(choice.op, choice.bindings, choice.compute_units, choice.decisions)) {
    out += cat("; the user row ", row->origin, " names ", row->kernel, "[", row->variant, "] for ", row->types,
               ", which no bundle of this device has");
  }
  return out;
}

std::string trace_line(const Choice& choice, const Decision& chosen) {
  const OperatorBlock& block = *choice.op.blocks[chosen.at.block];
  const Bundle& bundle = block.bundle();
  return cat("aiter-prebuilt: ", block.name(), " on ", vendor_text(choice.where), ":", choice.where.device_id, " (",
             bundle.text(bundle.root().target), ", ", choice.compute_units, " compute units)", call_text(choice, block),
             ": ", choice.op.label(chosen.at), " (", kBackends[choice.op.kernel(chosen.at).backend],
             "), because: ", why_text(choice, chosen));
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + '"';
}

// The dims that tensors bind and the attributes that are numbers or flags: what a row of a tuned table may compare.
std::string symbols_json(const OperatorBlock& block, const Binding& binding) {
  const auto names = block.array(block.op().slots);
  std::vector<bool> wanted(names.size(), false);
  for (const layout::Tensor& tensor : block.tensors()) {
    for (const layout::Dim& dim : block.array(tensor.dims)) {
      if (static_cast<DimKind>(dim.kind) == DimKind::Bind) wanted[dim.slot] = true;
    }
  }
  for (const layout::Attribute& attribute : block.attributes()) {
    const auto kind = static_cast<AttributeKind>(attribute.kind);
    if (kind == AttributeKind::Int || kind == AttributeKind::Bool) wanted[attribute.slot] = true;
  }
  if (const auto tuned = block.array(block.op().tuned_slots); !tuned.empty()) {
    wanted.assign(names.size(), false);
    for (const std::uint16_t slot : tuned) wanted[slot] = true;
  }
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (wanted[i]) out += cat(out.empty() ? "" : ", ", quoted(block.text(names[i])), ": ", binding.slots[i]);
  }
  return cat("{", out, "}");
}

// Everything that describes a call as `explain`, `bench` and `preload` take it: `add` gets each name with its value, and whether
// the value is a number.
template <class Add>
void describe_call(const OperatorBlock& block, const Call& call, const Binding& binding, Add&& add) {
  const auto variables = block.array(block.op().type_variables);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (binding.types[i] != kOpenType)
      add(block.text(variables[i].name), std::string(kDTypes[binding.types[i]].name), false);
  }
  const auto names = block.array(block.op().slots);
  std::vector<bool> bound(names.size(), false);
  for (std::size_t i = 0; i < call.tensor_count; ++i) {
    const layout::Tensor& tensor = block.tensors()[i];
    const TensorArg& given = call.tensors[i];
    constexpr std::uint64_t kUsual = 256;  // a described tensor is aligned to this many bytes unless it says otherwise
    if (!given.given) {
      add(block.text(tensor.name), std::string("none"), false);
      continue;
    }
    if (given.address % kUsual != 0)
      add(cat(block.text(tensor.name), ".align"), cat(std::uint64_t{1} << __builtin_ctzll(given.address)), true);
    for (const layout::Array<layout::Dim> part : {tensor.dims, tensor.strides}) {
      for (const layout::Dim& dim : block.array(part)) {
        if (static_cast<DimKind>(dim.kind) == DimKind::Bind) bound[dim.slot] = true;
      }
    }
  }
  for (std::size_t i = 0; i < block.attributes().size(); ++i) {
    const layout::Attribute& attribute = block.attributes()[i];
    const auto kind = static_cast<AttributeKind>(attribute.kind);
    if (kind == AttributeKind::Int || kind == AttributeKind::Bool) bound[attribute.slot] = true;
    if (kind == AttributeKind::Text && call.integers[i] != 0)
      add(block.text(attribute.name), std::string(call.texts[i]), false);
    if (kind != AttributeKind::Enum) continue;
    const auto values = block.array(attribute.values);
    const auto place = static_cast<std::size_t>(binding.slots[attribute.slot]);
    if (place < values.size()) add(block.text(attribute.name), std::string(block.text(values[place])), false);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (bound[i]) add(block.text(names[i]), cat(binding.slots[i]), true);
  }
}

// {"M": "17", "bias": "none"}: the whole call, for `aiter-prebuilt tune`.
std::string call_json(const OperatorBlock& block, const Call& call, const Binding& binding) {
  std::string out;
  describe_call(block, call, binding, [&](std::string_view name, const std::string& value, bool) {
    out += cat(out.empty() ? "" : ", ", quoted(name), ": ", quoted(value));
  });
  return cat("{", out, "}");
}

// One JSON object; `python -m build_tools tune-request` and `aiter-prebuilt tune` read it.
std::string miss_line(const Choice& choice, const Decision& chosen) {
  const OperatorBlock& block = *choice.op.blocks[chosen.at.block];
  const Bundle& bundle = block.bundle();
  return cat("{\"version\": 1, \"operator\": ", quoted(block.name()),
             ", \"target\": ", quoted(bundle.text(bundle.root().target)), ", \"cus\": ", choice.compute_units,
             ", \"symbols\": ", symbols_json(block, choice.bindings[chosen.at.block]),
             ", \"types\": ", quoted(words_of(block, choice.op.recipe(chosen.at))),
             ", \"kernel\": ", quoted(block.text(choice.op.kernel(chosen.at).name)),
             ", \"variant\": ", quoted(block.text(choice.op.recipe(chosen.at).variant)), ", \"cost\": ", chosen.cost,
             ", \"call\": ", call_json(block, choice.call, choice.bindings[chosen.at.block]), "}");
}

void warn_once(std::string_view problem) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  write_line(STDERR_FILENO,
             cat("aiter-prebuilt: warning: AITER_PREBUILT_MISS_LOG=", setting("AITER_PREBUILT_MISS_LOG"), ": ", problem,
                 "; shapes without a tuned row are not recorded. Name a file that can be "
                 "written, or unset the variable"));
}

// A call never waits for whoever reads a named pipe, nor dies with that reader (SIGPIPE): the log is a file, or a device
// such as /dev/null. -1 with the reason.
int open_log(const char* path, struct stat& facts, std::string& problem) {
  const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  if (file >= 0 && ::fstat(file, &facts) == 0 && (S_ISREG(facts.st_mode) || S_ISCHR(facts.st_mode))) return file;
  // ENXIO: a pipe that nobody reads, or a socket.
  problem = file >= 0 || errno == ENXIO ? "it is not a regular file" : system_error_text(errno);
  if (file >= 0) ::close(file);
  return -1;
}

// The log's handle. A daemon closes all handles that it does not know, and the next file that it opens gets the number: what is
// behind it is looked at before each write, and a handle that was lost is left to whom it belongs now.
class Log {
 public:
  explicit Log(const char* path) : path_(path) {}

  // -1 with the reason. The GIL is held.
  int file(std::string& problem) {
    struct stat now = {};
    const bool mine =
        file_ >= 0 && ::fstat(file_, &now) == 0 && now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino;
    if (!mine) file_ = open_log(path_, opened_, problem);
    return file_;
  }

 private:
  const char* path_;
  int file_ = -1;
  struct stat opened_ = {};
};

void record_miss(const char* path, const std::string& line) {
  static auto& log = *new Log(path);
  std::string problem;
  const int file = log.file(problem);
  if (file < 0) return warn_once(problem);
  if (!write_line(file, line)) warn_once(system_error_text(errno));
}

}  // namespace

void note_choice(const Choice& choice) {
  // Read once: a process that asks for nothing pays for two comparisons on its slow path.
  static const char* const trace = setting("AITER_PREBUILT_TRACE");
  static const bool tracing = trace != nullptr && std::strcmp(trace, "0") != 0;
  static const char* const misses = setting("AITER_PREBUILT_MISS_LOG");
  if (!tracing && misses == nullptr) return;
  const Decision* chosen = chosen_of(choice.decisions);
  if (chosen == nullptr) return;
  static auto& traced = *new Lines;
  static auto& missed = *new Lines;
  bool full = false;
  if (tracing) {
    const std::string line = trace_line(choice, *chosen);
    if (traced.fresh(line, full)) static_cast<void>(write_line(STDERR_FILENO, line));
    if (full)
      static_cast<void>(write_line(STDERR_FILENO, "aiter-prebuilt: that was enough; further choices are not traced"));
  }
  if (misses != nullptr && !chosen->tuned()) {
    const std::string line = miss_line(choice, *chosen);
    if (missed.fresh(line, full)) record_miss(misses, line);
    if (full) warn_once(cat("it has ", kMaxLines, " shapes of this process"));
  }
}

std::string preload_text(const MergedOperator& op, const Call& call, const Binding& binding, const DLDevice& where) {
  const OperatorBlock& block = *op.blocks.front();
  std::string out;
  describe_call(block, call, binding, [&](std::string_view name, const std::string& value, bool number) {
    out += cat(out.empty() ? "'" : ", '", name, number ? "': " : "': '", value, number ? "" : "'");
  });
  const bool amd = vendor_of(where.device_type) == static_cast<int>(Vendor::Amd);
  const std::string device = where.device_id == 0 ? std::string() : cat(", ordinal=", where.device_id);
  return cat("aiter_prebuilt.preload(ops=['", block.name(), "'], shapes=[{", out, "}]", amd ? "" : ", vendor='nvidia'",
             device, ")");
}

}  // namespace apb
