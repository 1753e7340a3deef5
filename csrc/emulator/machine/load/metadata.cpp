#include "machine/load/metadata.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "machine/load/msgpack.h"

namespace apb::emu {
namespace {

using Kind = MessageValue::Kind;

// The keys that the specification requires must be there, and have its types.
bool number(const MessageValue& from, std::string_view key, std::uint32_t& out, std::string& problem) {
  const MessageValue& value = from[key];
  if (value.kind != Kind::Integer || value.integer < 0 || value.integer > UINT32_MAX) {
    problem = "metadata: " + std::string(key) + " is no 32-bit number";
    return false;
  }
  out = static_cast<std::uint32_t>(value.integer);
  return true;
}

bool text(const MessageValue& from, std::string_view key, std::string& out, std::string& problem) {
  const MessageValue& value = from[key];
  out = value.text;
  if (value.kind == Kind::Text && !value.text.empty()) return true;
  problem = "metadata: " + std::string(key) + " is no text";
  return false;
}

bool is_kind_or_absent(const MessageValue& from, std::string_view key, Kind wanted, std::string& problem) {
  const Kind kind = from[key].kind;
  if (kind == wanted || kind == Kind::Nothing) return true;
  problem = "metadata: " + std::string(key) + (wanted == Kind::List ? " is no list" : " is no boolean");
  return false;
}

ArgumentKind kind_of(std::string_view value_kind) {
  if (value_kind.starts_with("hidden_")) return ArgumentKind::Hidden;
  if (value_kind == "global_buffer") return ArgumentKind::GlobalBuffer;
  if (value_kind == "dynamic_shared_pointer") return ArgumentKind::DynamicSharedPointer;
  return ArgumentKind::Value;
}

bool read_argument(const MessageValue& from, const Kernel& kernel, KernelArgument& out, std::string& problem) {
  if (!text(from, ".value_kind", out.value_kind, problem) || !number(from, ".offset", out.offset, problem) ||
      !number(from, ".size", out.size, problem))
    return false;
  out.name = from[".name"].text;
  out.kind = kind_of(out.value_kind);
  // Beyond .kernarg_segment_size is no refusal: AITER ships such kernels.
  if (out.offset <= kMostArgumentBytes && out.size <= kMostArgumentBytes) return true;
  problem = "metadata: an argument of kernel " + kernel.name + " has " + std::to_string(out.size) + " bytes at byte " +
            std::to_string(out.offset);
  return false;
}

bool read_required_block(const MessageValue& from, Kernel& kernel, std::string& problem) {
  if (!is_kind_or_absent(from, ".reqd_workgroup_size", Kind::List, problem)) return false;
  const std::vector<MessageValue>& required = from[".reqd_workgroup_size"].list;
  for (std::size_t i = 0; i < std::min<std::size_t>(required.size(), 3); ++i) {
    if (required[i].kind == Kind::Integer) kernel.required_block[i] = static_cast<std::uint32_t>(required[i].integer);
  }
  return true;
}

bool read_sizes(const MessageValue& from, Kernel& kernel, std::string& problem) {
  std::uint32_t wavefront = 0, align = 0;
  const bool numbers = number(from, ".kernarg_segment_size", kernel.kernarg_bytes, problem) &&
                       number(from, ".kernarg_segment_align", align, problem) &&
                       number(from, ".group_segment_fixed_size", kernel.static_lds, problem) &&
                       number(from, ".private_segment_fixed_size", kernel.private_bytes, problem) &&
                       number(from, ".max_flat_workgroup_size", kernel.max_block, problem) &&
                       number(from, ".vgpr_count", kernel.vgprs, problem) &&
                       number(from, ".sgpr_count", kernel.sgprs, problem) &&
                       number(from, ".wavefront_size", wavefront, problem);
  if (!numbers) return false;
  if (!std::has_single_bit(align)) {
    problem = "metadata: .kernarg_segment_align of kernel " + kernel.name + " is no power of two";
    return false;
  }
  if (kernel.kernarg_bytes > kMostArgumentBytes) {
    problem = "kernel " + kernel.name + ": " + std::to_string(kernel.kernarg_bytes) + " bytes of arguments";
    return false;
  }
  if (wavefront == 64) return true;
  problem = "kernel " + kernel.name + " is for waves of " + std::to_string(wavefront) + " lanes, the device has 64";
  return false;
}

bool read_kernel(const MessageValue& from, DescribedKernel& out, std::string& problem) {
  Kernel& kernel = out.kernel;
  if (!text(from, ".name", kernel.name, problem) || !text(from, ".symbol", out.symbol, problem) ||
      !read_sizes(from, kernel, problem) || !read_required_block(from, kernel, problem) ||
      !is_kind_or_absent(from, ".args", Kind::List, problem) ||
      !is_kind_or_absent(from, ".uses_dynamic_stack", Kind::Boolean, problem))
    return false;
  kernel.dynamic_stack = from[".uses_dynamic_stack"].boolean;
  for (const MessageValue& entry : from[".args"].list)
    if (!read_argument(entry, kernel, kernel.arguments.emplace_back(), problem)) return false;
  return true;
}

// [1, 0] is code object v3, [1, 1] v4, [1, 2] v5 and v6; the header of the file says which it is.
bool is_known_version(const MessageValue& version) {
  return version.kind == Kind::List && version.list.size() == 2 && version.list[0].kind == Kind::Integer &&
         version.list[0].integer == 1 && version.list[1].kind == Kind::Integer;
}

}  // namespace

bool read_metadata(const ElfFile& file, std::vector<DescribedKernel>& out, std::string& problem) {
  std::optional<std::int64_t> joined;
  for (const Bytes note : file.metadata) {
    MessageValue document;
    if (!read_message(note, document) || document.kind != MessageValue::Kind::Map) {
      problem = "metadata: no well-formed MessagePack map in the AMDGPU note";
      return false;
    }
    if (!is_known_version(document["amdhsa.version"])) {
      problem = "metadata: amdhsa.version is not [1, x]";
      return false;
    }
    const std::int64_t minor = document["amdhsa.version"].list[1].integer;
    if (joined.value_or(minor) != minor) {
      problem = "metadata: two notes with different amdhsa.version";
      return false;
    }
    joined = minor;
    const MessageValue& kernels = document["amdhsa.kernels"];
    if (kernels.kind != Kind::List) {
      problem = "metadata: amdhsa.kernels is no list";
      return false;
    }
    for (const MessageValue& kernel : kernels.list)
      if (!read_kernel(kernel, out.emplace_back(), problem)) return false;
  }
  return true;
}

}  // namespace apb::emu
