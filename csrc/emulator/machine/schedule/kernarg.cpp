// The kernel argument segment (LLVM, AMDGPUUsage, "Code Object V5 Metadata": the hidden_* value kinds; v6 has the
// same).
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "machine/load/program.h"
#include "machine/schedule/dispatch.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::size_t kPrintfBytes = 1u << 20;

// Only a cooperative launch has one: for others a kernel is to see that its grid is no valid group.
std::uint64_t grid_sync(const LaunchRequest& request, Dispatch& d) {
  if (!request.cooperative) return 0;
  d.grid_sync = std::make_unique<GridSync>();
  GridSync& sync = *d.grid_sync;
  sync.workgroups = static_cast<std::uint32_t>(d.workgroups);
  if (const MultiGrid* grids = request.grids) {
    sync.grids = grids->words;
    sync.number = grids->number;
    sync.count = grids->count;
    sync.items_before = grids->items_before;
    sync.items = grids->items;
    d.memory.add("barrier of all grids", reinterpret_cast<std::uint64_t>(grids->words), sizeof *grids->words);
  }
  const auto address = reinterpret_cast<std::uint64_t>(&sync);
  d.memory.add("grid barrier", address, offsetof(GridSync, behind));
  return address;
}

// The value of a hidden argument; unknown ones and those of services that this device has not (hostcall, heap, device
// queues) are null.
std::uint64_t hidden_value(const LaunchRequest& request, std::string_view kind, Dispatch& d) {
  const std::uint32_t count[3] = {d.grid.x, d.grid.y, d.grid.z}, size[3] = {d.block.x, d.block.y, d.block.z},
                      rest[3] = {d.tail.x, d.tail.y, d.tail.z};
  const auto dimension = static_cast<unsigned>(kind.back() - 'x');  // hidden_*_x, _y, _z
  if (dimension < 3) {
    const std::string_view stem = kind.substr(0, kind.size() - 2);
    // A partial workgroup is in the remainder, not in the count.
    if (stem == "hidden_block_count") return count[dimension] - (rest[dimension] ? 1 : 0);
    if (stem == "hidden_group_size") return size[dimension];
    if (stem == "hidden_remainder") return rest[dimension];
    if (stem == "hidden_global_offset") return 0;
  }
  if (kind == "hidden_grid_dims") return d.grid.z * d.block.z > 1 ? 3 : d.grid.y * d.block.y > 1 ? 2 : 1;
  if (kind == "hidden_dynamic_lds_size") return d.lds_bytes - d.kernel->static_lds;
  if (kind == "hidden_private_base") return kPrivateAperture >> 32;
  if (kind == "hidden_shared_base") return kSharedAperture >> 32;
  if (kind == "hidden_multigrid_sync_arg") return grid_sync(request, d);
  if (kind == "hidden_printf_buffer") {
    // Two dwords before the records: bytes used, bytes there are.
    d.printf_buffer.assign(kPrintfBytes + DispatchMemory::kReservedBehind, 0);
    const std::uint32_t capacity = kPrintfBytes - 8;
    std::memcpy(d.printf_buffer.data() + 4, &capacity, sizeof capacity);
    return reinterpret_cast<std::uint64_t>(d.printf_buffer.data());
  }
  return 0;
}

std::uint32_t explicit_end(const Kernel& kernel) {
  std::uint32_t end = 0;
  for (const KernelArgument& argument : kernel.arguments)
    if (argument.kind != ArgumentKind::Hidden) end = std::max(end, argument.offset + argument.size);
  return end;
}

}  // namespace

void fill_kernarg(const LaunchRequest& request, Dispatch& d) {
  const Kernel& kernel = *request.kernel;
  const std::uint32_t needed = explicit_end(kernel);
  // A caller's buffer may be longer than what the file says, as with hand-written kernels that describe no arguments.
  std::uint64_t bytes = std::max<std::uint64_t>(kernel.kernarg_bytes, needed);
  if (kernel.arguments.empty()) bytes = std::max<std::uint64_t>(bytes, request.arguments.size());
  for (const KernelArgument& argument : kernel.arguments)
    bytes = std::max<std::uint64_t>(bytes, argument.offset + argument.size);
  bytes = (std::max<std::uint64_t>(bytes, 4u * (kernel.preload_offset + kernel.preload_length)) + kAlignment - 1) /
          kAlignment * kAlignment;
  d.kernarg_storage.resize(kAlignment + bytes + DispatchMemory::kReservedBehind);
  const std::uint64_t start = reinterpret_cast<std::uint64_t>(d.kernarg_storage.data());
  d.kernarg = d.kernarg_storage.data() + ((start + kAlignment - 1) / kAlignment * kAlignment - start);
  d.kernarg_bytes = static_cast<std::uint32_t>(bytes);
  for (std::uint64_t at = 0; at < bytes; at += 4) std::memcpy(d.kernarg + at, &kPoison, 4);
  if (!request.arguments.empty())
    std::memcpy(d.kernarg, request.arguments.data(), std::min<std::uint64_t>(request.arguments.size(), bytes));
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.kind != ArgumentKind::Hidden) continue;
    std::memset(d.kernarg + argument.offset, 0, argument.size);
    const std::uint64_t value = hidden_value(request, argument.value_kind, d);
    std::memcpy(d.kernarg + argument.offset, &value, std::min<std::uint32_t>(argument.size, sizeof value));
  }
  // Arguments that the caller left out are no memory: reading one is a fault with its offset.
  const std::uint64_t there = request.arguments.size() < needed ? request.arguments.size() : bytes;
  if (there) d.memory.add("kernel arguments", reinterpret_cast<std::uint64_t>(d.kernarg), there);
  if (!d.printf_buffer.empty())
    d.memory.add("printf buffer", reinterpret_cast<std::uint64_t>(d.printf_buffer.data()), kPrintfBytes);
}

}  // namespace apb::emu
