/* A launch as C makes it, in a loop: the least that any binding can cost. Function pointers come from Python, so that no
 * CUDA header is needed. Times are nanoseconds of a whole loop; nothing waits for the device inside of one. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define KERNARG 40

typedef int (*Launch)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned lds, void* stream, void** params, void** extra);
typedef int (*GetContext)(void** context);

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint32_t dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} Tensor;

typedef struct { /* dmlc/dlpack 1.x: the exchange table of a tensor type */
  uint32_t major, minor;
  const void* previous;
  void *allocate, *managed_from_object, *object_from_managed;
  int (*borrow)(void* object, Tensor* out);
  int (*current_stream)(int32_t type, int32_t id, void** out);
} Table;

typedef struct { /* of add_like(out, x, y, M, N, x_row, k) */
  void *out, *x, *y;
  int32_t rows, columns, x_row, k;
} Arguments;
_Static_assert(sizeof(Arguments) == KERNARG, "the kernel's own layout");

static int64_t now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Arguments by pointers, as the driver's documentation shows it. The sum of the codes goes to *failed. */
EXPORT int64_t raw_params(Launch launch, void* function, void* stream, const Arguments* given, int times, int* failed) {
  Arguments args = *given;
  void* params[] = {&args.out, &args.x, &args.y, &args.rows, &args.columns, &args.x_row, &args.k};
  const int64_t start = now();
  for (int i = 0; i < times; ++i) {
    *failed += launch(function, (unsigned)args.rows, 1, 1, 256, 1, 1, 0, stream, params, 0);
  }
  return now() - start;
}

/* Arguments as one buffer, as this runtime passes them. */
EXPORT int64_t raw_buffer(Launch launch, void* function, void* stream, const Arguments* given, int times, int* failed) {
  Arguments args = *given;
  size_t size = sizeof args;
  void* extra[] = {(void*)1, &args, (void*)2, &size, 0};
  const int64_t start = now();
  for (int i = 0; i < times; ++i) {
    *failed += launch(function, (unsigned)args.rows, 1, 1, 256, 1, 1, 0, stream, 0, extra);
  }
  return now() - start;
}

/* And what no checked call can leave out: each tensor read through torch's exchange table, the current stream, the current
 * context. Call it with the GIL held. */
EXPORT int64_t raw_with_torch(Launch launch, GetContext get_context, const Table* table, void* function,
                              const Arguments* given, void** objects, int times, int* failed) {
  Arguments args = *given;
  size_t size = sizeof args;
  void* extra[] = {(void*)1, &args, (void*)2, &size, 0};
  const int64_t start = now();
  for (int i = 0; i < times; ++i) {
    Tensor tensors[3];
    void *stream = 0, *context = 0;
    for (int t = 0; t < 3; ++t) *failed += table->borrow(objects[t], &tensors[t]);
    *failed += table->current_stream(tensors[0].device_type, tensors[0].device_id, &stream);
    *failed += get_context(&context);
    args.out = tensors[0].data, args.x = tensors[1].data, args.y = tensors[2].data;
    *failed += launch(function, (unsigned)args.rows, 1, 1, 256, 1, 1, 0, stream, 0, extra);
  }
  return now() - start;
}
