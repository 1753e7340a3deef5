// Compiled, never run: what the extension, tests/native/exchange.py and benchmarks/raw_launch.c take DLPack's layout to be.
// test_frozen.py compiles it with the pinned header and with the one that torch exports its tensors by.
#ifdef WITH_TORCH
#include <ATen/dlpack.h>
#else
#include <dlpack/dlpack.h>
#endif

#include <cstddef>

static_assert(DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION >= 3, "the exchange API came with 1.3");

static_assert(sizeof(DLDeviceType) == 4 && sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8);
static_assert(kDLCPU == 1 && kDLCUDA == 2 && kDLCUDAHost == 3 && kDLROCM == 10 && kDLROCMHost == 11);
static_assert(kDLCUDAManaged == 13);

static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, data) == 0 && offsetof(DLTensor, device) == 8);
static_assert(offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24);
static_assert(offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40);

static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, dl_tensor) == 0);
static_assert(offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, version) == 0);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16 && offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

static_assert(sizeof(DLPackExchangeAPIHeader) == 16 && offsetof(DLPackExchangeAPIHeader, prev_api) == 8);
static_assert(sizeof(DLPackExchangeAPI) == 56 && offsetof(DLPackExchangeAPI, managed_tensor_allocator) == 16);
static_assert(offsetof(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync) == 24);
static_assert(offsetof(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync) == 32);
static_assert(offsetof(DLPackExchangeAPI, dltensor_from_py_object_no_sync) == 40);
static_assert(offsetof(DLPackExchangeAPI, current_work_stream) == 48);
