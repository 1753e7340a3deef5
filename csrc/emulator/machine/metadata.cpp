#include "metadata.h"

#include <algorithm>

#include "msgpack.h"

namespace apb::emu {
namespace {

bool number(const MessageValue& from, std::string_view key, std::uint32_t& out, std::string& problem) {
  const MessageValue& value = from[key];
  if (value.kind == MessageValue::Kind::Nothing) return true;
  if (value.kind != MessageValue::Kind::Integer || value.integer < 0 || value.integer > UINT32_MAX) {
    problem = "metadata: " + std::string(key) + " is no 32-bit number";
    return false;
  }
  out = static_cast<std::uint32_t>(value.integer);
  return true;
}

std::string text(const MessageValue& from, std::string_view key) { return std::string(from[key].text); }

ArgumentKind kind_of(std::string_view value_kind) {
  if (value_kind.starts_with("hidden_")) return ArgumentKind::Hidden;
  if (value_kind == "global_buffer") return ArgumentKind::GlobalBuffer;
  if (value_kind == "dynamic_shared_pointer") return ArgumentKind::DynamicSharedPointer;
  return ArgumentKind::Value;
}

bool read_arguments(const MessageValue& from, Kernel& kernel, std::string& problem) {
  for (const MessageValue& entry : from[".args"].list) {
    KernelArgument argument;
    argument.name = text(entry, ".name");
    argument.value_kind = text(entry, ".value_kind");
    argument.kind = kind_of(argument.value_kind);
    if (!number(entry, ".offset", argument.offset, problem) || !number(entry, ".size", argument.size, problem))
      return false;
    if (argument.offset > kMostArgumentBytes || argument.size > kMostArgumentBytes) {
      problem = "metadata: an argument of kernel " + kernel.name + " lies at byte " + std::to_string(argument.offset);
      return false;
    }
    kernel.arguments.push_back(std::move(argument));
  }
  return true;
}

bool read_kernel(const MessageValue& from, DescribedKernel& out, std::string& problem) {
  Kernel& kernel = out.kernel;
  kernel.name = text(from, ".name");
  out.symbol = text(from, ".symbol");
  if (out.symbol.empty()) out.symbol = kernel.name + ".kd";
  if (kernel.name.empty()) {
    problem = "metadata: a kernel without a name";
    return false;
  }
  std::uint32_t wavefront = 64;
  const bool numbers = number(from, ".kernarg_segment_size", kernel.kernarg_bytes, problem) &&
                       number(from, ".group_segment_fixed_size", kernel.static_lds, problem) &&
                       number(from, ".private_segment_fixed_size", kernel.private_bytes, problem) &&
                       number(from, ".max_flat_workgroup_size", kernel.max_block, problem) &&
                       number(from, ".vgpr_count", kernel.vgprs, problem) &&
                       number(from, ".sgpr_count", kernel.sgprs, problem) &&
                       number(from, ".wavefront_size", wavefront, problem);
  if (!numbers) return false;
  if (wavefront != 64) {
    problem = "kernel " + kernel.name + " is for waves of " + std::to_string(wavefront) + " lanes, the device has 64";
    return false;
  }
  const std::vector<MessageValue>& required = from[".reqd_workgroup_size"].list;
  for (std::size_t i = 0; i < std::min<std::size_t>(required.size(), 3); ++i) {
    if (required[i].kind == MessageValue::Kind::Integer)
      kernel.required_block[i] = static_cast<std::uint32_t>(required[i].integer);
  }
  const MessageValue& stack = from[".uses_dynamic_stack"];
  kernel.dynamic_stack = stack.boolean || stack.integer != 0;
  return read_arguments(from, kernel, problem);
}

}  // namespace

bool read_metadata(const ElfFile& file, std::vector<DescribedKernel>& out, std::string& problem) {
  for (const Bytes note : file.metadata) {
    MessageValue document;
    if (!read_message(note, document) || document.kind != MessageValue::Kind::Map) {
      problem = "metadata: no well-formed MessagePack map in the AMDGPU note";
      return false;
    }
    for (const MessageValue& kernel : document["amdhsa.kernels"].list)
      if (!read_kernel(kernel, out.emplace_back(), problem)) return false;
  }
  return true;
}

}  // namespace apb::emu
