// Compiled, never run: our DLPack declarations against the header that torch ships.
#include <ATen/dlpack.h>

#include "dlpack.h"

namespace ours = apb::dlpack;
#define SAME(type, field, real, real_field) \
  static_assert(offsetof(ours::type, field) == offsetof(real, real_field) && sizeof(ours::type::field) == sizeof(real::real_field))

static_assert(sizeof(ours::Tensor) == sizeof(DLTensor));
SAME(Tensor, data, DLTensor, data);
SAME(Tensor, device, DLTensor, device);
SAME(Tensor, ndim, DLTensor, ndim);
SAME(Tensor, dtype, DLTensor, dtype);
SAME(Tensor, shape, DLTensor, shape);
SAME(Tensor, strides, DLTensor, strides);
SAME(Tensor, byte_offset, DLTensor, byte_offset);
static_assert(sizeof(ours::ManagedTensor) == sizeof(DLManagedTensor));
SAME(ManagedTensor, deleter, DLManagedTensor, deleter);
static_assert(sizeof(ours::ManagedTensorVersioned) == sizeof(DLManagedTensorVersioned));
SAME(ManagedTensorVersioned, version, DLManagedTensorVersioned, version);
SAME(ManagedTensorVersioned, deleter, DLManagedTensorVersioned, deleter);
SAME(ManagedTensorVersioned, flags, DLManagedTensorVersioned, flags);
SAME(ManagedTensorVersioned, tensor, DLManagedTensorVersioned, dl_tensor);
static_assert(sizeof(ours::ExchangeApi) == sizeof(DLPackExchangeAPI));
SAME(ExchangeApi, header, DLPackExchangeAPI, header);
SAME(ExchangeApi, allocate, DLPackExchangeAPI, managed_tensor_allocator);
SAME(ExchangeApi, managed_from_object, DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
SAME(ExchangeApi, object_from_managed, DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
SAME(ExchangeApi, borrow, DLPackExchangeAPI, dltensor_from_py_object_no_sync);
SAME(ExchangeApi, current_stream, DLPackExchangeAPI, current_work_stream);
static_assert(int(ours::DeviceType::Cuda) == kDLCUDA && int(ours::DeviceType::Rocm) == kDLROCM);
static_assert(int(ours::DeviceType::Cpu) == kDLCPU && int(ours::DeviceType::CudaManaged) == kDLCUDAManaged);
static_assert(int(ours::DeviceType::CudaHost) == kDLCUDAHost && int(ours::DeviceType::RocmHost) == kDLROCMHost);
static_assert(ours::kMajor == DLPACK_MAJOR_VERSION);
