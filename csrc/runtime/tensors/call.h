// One call, as the caller gave it: plain values, nothing of Python but borrowed pointers. Tensors and the
// exchange API are those of DLPack's own header, which `python -m build_tools fetch dlpack` brings.
#pragma once

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/operator_block.h"
#include "bundle_layout.h"

namespace apb {

// A DLPack type in one word, for comparing.
constexpr std::uint32_t pack_dtype(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes) {
  return code | (std::uint32_t{bits} << 8) | (std::uint32_t{lanes} << 16);
}
constexpr std::uint32_t pack_dtype(const DType& type) {
  return pack_dtype(type.dlpack_code, type.dlpack_bits, type.dlpack_lanes);
}

// Position in kDTypes, or -1 for a type that no bundle knows.
int dtype_number(std::uint32_t packed);
// "bf16", or the DLPack triple of an unknown type.
std::string dtype_text(std::uint32_t packed);

// "a tensor on the CPU": what is wrong with memory of a device type that has no vendor here.
std::string memory_text(DLDeviceType type);

struct TensorArg {
  std::uint64_t address;
  const std::int64_t* shape;
  const std::int64_t* strides;  // never null when ndim > 0
  std::int32_t ndim;
  std::uint32_t dtype;
  DLDevice device;
  bool given;
};

// The vendor of a device type, or -1: memory that no kernel here can reach.
constexpr int vendor_of(DLDeviceType type) {
  switch (type) {
    case kDLROCM: return static_cast<int>(Vendor::Amd);
    case kDLCUDA:
    case kDLCUDAManaged: return static_cast<int>(Vendor::Nvidia);
    default: return -1;
  }
}

// The facts of a call while its tensors are read one by one.
struct CallContext {
  const DLPackExchangeAPI* api = nullptr;  // of the first given tensor
  void* stream = nullptr;
  bool stream_given = false;
  bool gradients_matter = false;  // set before the tensors are read the fast way
  bool asks_gradient = false;     // one of them has requires_grad set
};

// The dims of one view of a tensor.
struct ViewRoom {
  std::array<std::int64_t, kMaxRank> shape;
  std::array<std::int64_t, kMaxRank> strides;
};

// 4 KB: on the heap, since a thread's stack may be small and a tensor may call an operator again while it is read.
struct Call : CallContext {
  // Left uninitialised: only the first tensor_count and attribute_count are ever read.
  std::array<TensorArg, kMaxTensors> tensors;
  std::array<std::int64_t, kMaxAttributes> integers;   // int, bool, enum index, text_number
  std::array<double, kMaxAttributes> reals;            // float
  std::array<std::string_view, kMaxAttributes> texts;  // what a text says, as long as the caller's arguments live
  std::size_t tensor_count = 0;
  std::size_t attribute_count = 0;
  std::unique_ptr<ViewRoom[]> rooms;  // made with the first view

  std::span<const TensorArg> given_tensors() const { return {tensors.data(), tensor_count}; }
};

// The attributes of calls that repeat, as a parser of a device's bundles read them once.
struct FixedArguments {
  const void* parser = nullptr;  // null: nothing is known
  std::size_t tensors = 0;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string_view> texts;  // in objects that whoever keeps this keeps alive

  bool known() const { return parser != nullptr; }
  void forget() { parser = nullptr; }
};

struct Prepared;

// A launch of an operator as it was found once.
struct KnownLaunch {
  const void* on = nullptr;  // what served it
  Prepared* prepared = nullptr;
  std::uint64_t generation = 0;  // of the memo that has it: later ones may have dropped it
  std::uint64_t alignment = 0;   // the most that decides about an address; the greatest number: all of it does
};

// The outcome of a call whose tensors were read before.
enum class Done : std::uint8_t { Launched, Unknown, Raised };

// A call's place for one call. `spare` is kept for the next one; while a call that is being read holds it (its tensors may
// call the operator again, or let other threads run), the others get a new one. The GIL is held.
class CallPlace {
 public:
  explicit CallPlace(std::unique_ptr<Call>& spare) : spare_(spare), call_(std::move(spare)) {
    if (call_ == nullptr) [[unlikely]]
      call_ = std::make_unique_for_overwrite<Call>();
    static_cast<CallContext&>(*call_) = CallContext();
  }
  CallPlace(const CallPlace&) = delete;
  CallPlace& operator=(const CallPlace&) = delete;
  ~CallPlace() { spare_ = std::move(call_); }

  Call& get() const { return *call_; }

 private:
  std::unique_ptr<Call>& spare_;
  std::unique_ptr<Call> call_;
};

}  // namespace apb
