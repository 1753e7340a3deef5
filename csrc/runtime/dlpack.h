// What is read of DLPack 1.x (dmlc/dlpack), declared here and frozen by static_assert: tensors and the C exchange API
// that types expose as `__dlpack_c_exchange_api__`. Sizes and offsets are those of the x86-64 and AArch64 Linux ABI.
#pragma once

#include <cstddef>
#include <cstdint>

namespace apb::dlpack {

enum class DeviceType : std::int32_t { Cpu = 1, Cuda = 2, CudaHost = 3, Rocm = 10, RocmHost = 11, CudaManaged = 13 };

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
inline constexpr std::uint32_t kMajor = 1;

struct Device {
  DeviceType type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

// `strides` counts elements and may be null: dense in C order. `data` is null for tensors without memory.
struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct ManagedTensor {  // capsule "dltensor", before 1.0
  Tensor tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor*);
};

struct ManagedTensorVersioned {  // capsule "dltensor_versioned"
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

using SetError = void (*)(void* context, const char* kind, const char* message);

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;
};

// Capsule "dlpack_exchange_api". All functions want the GIL, return 0 on success and set a Python exception otherwise.
struct ExchangeApi {
  ExchangeHeader header;
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context, SetError set_error);
  int (*managed_from_object)(void* object, ManagedTensorVersioned** out);
  int (*object_from_managed)(ManagedTensorVersioned* tensor, void** out);
  int (*borrow)(void* object, Tensor* out);  // may be null
  int (*current_stream)(DeviceType type, std::int32_t id, void** out);
};

static_assert(sizeof(DataType) == 4 && sizeof(Device) == 8 && sizeof(Tensor) == 48);
static_assert(offsetof(Tensor, device) == 8 && offsetof(Tensor, ndim) == 16 && offsetof(Tensor, dtype) == 20);
static_assert(offsetof(Tensor, shape) == 24 && offsetof(Tensor, strides) == 32 && offsetof(Tensor, byte_offset) == 40);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 && offsetof(ManagedTensorVersioned, deleter) == 16);
static_assert(offsetof(ManagedTensorVersioned, flags) == 24 && offsetof(ManagedTensorVersioned, tensor) == 32);
static_assert(sizeof(ExchangeHeader) == 16 && sizeof(ExchangeApi) == 56);
static_assert(offsetof(ExchangeApi, allocate) == 16 && offsetof(ExchangeApi, borrow) == 40);
static_assert(offsetof(ExchangeApi, current_stream) == 48);

}  // namespace apb::dlpack
