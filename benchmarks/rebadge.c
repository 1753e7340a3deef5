/* Torch's DLPack exchange table with three functions of ours: tensors in host memory say that they lie on ROCm device 0,
 * workspaces are torch's host memory, and the current stream is a constant, as on a machine with one GPU. So the whole host
 * side of a call runs, torch's part of it included, and needs no GPU. */
#include <dlpack/dlpack.h>
#include <stdint.h>
#include <time.h>

static const DLPackExchangeAPI* torch_table;
static DLPackExchangeAPI ours;

static int borrow(void* object, DLTensor* out) {
  const int status = torch_table->dltensor_from_py_object_no_sync(object, out);
  out->device.device_type = kDLROCM;
  return status;
}

static int64_t workspaces, workspace_bytes;

/* A GPU's memory starts at a multiple of 256, the host's need not: so many bytes more, and where the multiple is among them. */
static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                    void (*say)(void* context, const char* kind, const char* message)) {
  DLTensor asked = *prototype;
  int64_t bytes = prototype->shape[0] + 256;
  asked.device.device_type = kDLCPU;
  asked.shape = &bytes;
  ++workspaces;
  workspace_bytes = prototype->shape[0];
  const int status = torch_table->managed_tensor_allocator(&asked, out, context, say);
  if (status != 0) return status;
  const uint64_t start = (uint64_t)(uintptr_t)(*out)->dl_tensor.data;
  (*out)->dl_tensor.byte_offset = (start + 255) / 256 * 256 - start;
  return 0;
}

/* Workspaces so far, and the bytes of the last. */
__attribute__((visibility("default"))) int64_t workspaces_made(void) { return workspaces; }
__attribute__((visibility("default"))) int64_t last_workspace(void) { return workspace_bytes; }

static int current_stream(DLDeviceType type, int32_t id, void** out) {
  (void)type, (void)id;
  *out = (void*)(intptr_t)64;
  return 0;
}

__attribute__((visibility("default"))) const void* rebadged(const void* table) {
  torch_table = table;
  ours = *torch_table;
  ours.header.prev_api = 0;
  ours.managed_tensor_allocator = allocate;
  ours.dltensor_from_py_object_no_sync = borrow;
  ours.current_work_stream = current_stream;
  return &ours;
}

/* Nanoseconds of one workspace of so many bytes, made and given back `times` times. Call it with the GIL held. */
__attribute__((visibility("default"))) int64_t allocate_workspaces(int64_t bytes, int times) {
  struct timespec start, end;
  int64_t stride = 1;
  DLTensor prototype = {NULL, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &bytes, &stride, 0};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  for (int i = 0; i < times; ++i) {
    DLManagedTensorVersioned* made = NULL;
    if (allocate(&prototype, &made, NULL, NULL) != 0) return -1;
    made->deleter(made);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return ((int64_t)(end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec) / times;
}

/* What a hand-written ctypes binding would call. */
static volatile int calls;
__attribute__((visibility("default"))) int plain_launch(void* out, void* x, void* y, int64_t k) {
  (void)out, (void)x, (void)y, (void)k;
  return ++calls, 0;
}

/* torch's answers to `requires_grad` for three tensors, `times` times: the descriptor's own function, as our runtime calls it.
 * Function pointers come from Python, so that no Python header is needed. Call it with the GIL held. Nanoseconds. */
typedef void* (*Get)(void* descriptor, void* object, void* type);
__attribute__((visibility("default"))) int64_t ask_gradients(Get get, void (*release)(void*), void* descriptor,
                                                             void* type, void** objects, int times) {
  struct timespec start, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  for (int i = 0; i < times; ++i)
    for (int t = 0; t < 3; ++t) release(get(descriptor, objects[t], type));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return (int64_t)(end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec;
}
