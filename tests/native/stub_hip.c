/* A driver library for tests: HIP's and CUDA's entry points without a GPU. It counts, records what it is given and
 * fails on request. The tests talk to it through ctypes (stub_*); the runtime does not know it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_LAUNCHES 256
#define MAX_KERNARG 512
#define MAX_FUNCTIONS 16384

typedef struct {
  char symbol[1024];
  unsigned grid[3];
  unsigned block[3];
  unsigned lds;
  unsigned kernarg_size;
  void* stream;
  int device; /* current when it was launched */
  int end_mark;
  uint8_t kernargs[MAX_KERNARG];
} Launch;

enum Fault { FAULT_INIT, FAULT_LOAD, FAULT_SYMBOL, FAULT_LAUNCH, FAULT_MALLOC, FAULT_CAPTURE, FAULT_COUNT, FAULT_DEVICE, FAULTS };

static struct {
  int faults[FAULTS];
  int devices;
  int compute_units;
  char arch[64];
  int capturing;
  int load_delay_us;
  int loads, load_attempts, launches, mallocs, frees, inits, set_devices, attributes;
  Launch log[MAX_LAUNCHES];
} state = {.devices = 1, .compute_units = 304, .arch = "gfx942:sramecc+:xnack-"};

static char function_names[MAX_FUNCTIONS][1024];
static int function_count;
static __thread int current_device;
static __thread void* current_context;

EXPORT void stub_reset(void) {
  memset(&state, 0, sizeof state);
  state.devices = 1;
  state.compute_units = 304;
  strcpy(state.arch, "gfx942:sramecc+:xnack-");
}
EXPORT void stub_fault(int which, int code) { state.faults[which] = code; }
EXPORT void stub_set_devices(int count) { state.devices = count; }
EXPORT void stub_set_capturing(int capturing) { state.capturing = capturing; }
EXPORT void stub_set_load_delay(int microseconds) { state.load_delay_us = microseconds; }
EXPORT void stub_set_arch(const char* arch) { strncpy(state.arch, arch, sizeof state.arch - 1); }
EXPORT int stub_loads(void) { return state.loads; }
EXPORT int stub_load_attempts(void) { return state.load_attempts; }
EXPORT int stub_launches(void) { return state.launches; }
EXPORT int stub_mallocs(void) { return state.mallocs; }
EXPORT int stub_frees(void) { return state.frees; }
EXPORT int stub_set_device_calls(void) { return state.set_devices; }
EXPORT int stub_attributes(void) { return state.attributes; }
EXPORT int stub_current_device(void) { return current_device; }
EXPORT void stub_use_device(int device) { current_device = device; }
EXPORT const Launch* stub_launch(int index) { return &state.log[index % MAX_LAUNCHES]; }

static int count_devices(int* count) {
  *count = state.devices;
  return state.faults[FAULT_COUNT];
}

static int load(void** module, const void* image) {
  __sync_fetch_and_add(&state.load_attempts, 1);
  if (state.load_delay_us != 0) usleep((useconds_t)state.load_delay_us);
  if (state.faults[FAULT_LOAD] != 0) return state.faults[FAULT_LOAD];
  if (memcmp(image, "\x7f" "ELF", 4) != 0) return 200;
  *module = (void*)(intptr_t)(1 + __sync_fetch_and_add(&state.loads, 1));
  return 0;
}

static int function(void** out, void* module, const char* name) {
  if (module == NULL || state.faults[FAULT_SYMBOL] != 0) return state.faults[FAULT_SYMBOL];
  int index = __sync_fetch_and_add(&function_count, 1) % MAX_FUNCTIONS;
  strncpy(function_names[index], name, sizeof function_names[index] - 1);
  *out = function_names[index];
  return 0;
}

static int launch(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds,
                  void* stream, void** params, void** extra) {
  if (params != NULL || (intptr_t)extra[0] != 1 || (intptr_t)extra[2] != 2) return 1;
  if (state.faults[FAULT_LAUNCH] != 0) return state.faults[FAULT_LAUNCH];
#ifdef STUB_COUNTS_ONLY /* for benchmarks: what a launch costs without the records */
  (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)lds, (void)stream;
  return ++state.launches, 0;
#endif
  Launch* entry = &state.log[state.launches++ % MAX_LAUNCHES];
  size_t size = *(size_t*)extra[3];
  strcpy(entry->symbol, (const char*)f);
  entry->grid[0] = gx, entry->grid[1] = gy, entry->grid[2] = gz;
  entry->block[0] = bx, entry->block[1] = by, entry->block[2] = bz;
  entry->lds = lds;
  entry->stream = stream;
  entry->device = current_device;
  entry->kernarg_size = (unsigned)size;
  entry->end_mark = (int)(intptr_t)extra[4];
  memcpy(entry->kernargs, extra[1], size < MAX_KERNARG ? size : MAX_KERNARG);
  return 0;
}

static int is_capturing(void* stream, int* status) {
  (void)stream;
  *status = state.capturing;
  return state.faults[FAULT_CAPTURE];
}

static int allocate(uint64_t* pointer, size_t size, void* stream) {
  (void)stream;
  if (state.faults[FAULT_MALLOC] != 0) return state.faults[FAULT_MALLOC];
  ++state.mallocs;
  *pointer = (uint64_t)(uintptr_t)aligned_alloc(256, (size + 255) / 256 * 256);
  return 0;
}

static int release(uint64_t pointer, void* stream) {
  (void)stream;
  ++state.frees;
  free((void*)(uintptr_t)pointer);
  return 0;
}

static int initialise(unsigned flags) {
  (void)flags;
  ++state.inits;
  return state.faults[FAULT_INIT];
}

/* HIP */
EXPORT int hipInit(unsigned flags) { return initialise(flags); }
EXPORT int hipGetDeviceCount(int* count) { return count_devices(count); }
EXPORT int hipRuntimeGetVersion(int* version) { return *version = 70125424, 0; }
EXPORT int hipGetDevice(int* device) { return *device = current_device, state.faults[FAULT_DEVICE]; }
EXPORT int hipSetDevice(int device) { return ++state.set_devices, current_device = device, 0; }
EXPORT const char* hipGetErrorName(int code) { return code == 209 ? "hipErrorNoBinaryForGpu" : "hipErrorOfTheStub"; }
EXPORT int hipModuleLoadData(void** module, const void* image) { return load(module, image); }
EXPORT int hipModuleGetFunction(void** out, void* module, const char* name) { return function(out, module, name); }
EXPORT int hipStreamIsCapturing(void* stream, int* status) { return is_capturing(stream, status); }
EXPORT int hipMallocAsync(uint64_t* pointer, size_t size, void* stream) { return allocate(pointer, size, stream); }
EXPORT int hipFreeAsync(uint64_t pointer, void* stream) { return release(pointer, stream); }
EXPORT int hipModuleLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned lds, void* stream, void** params, void** extra) {
  return launch(f, gx, gy, gz, bx, by, bz, lds, stream, params, extra);
}
EXPORT int hipGetDevicePropertiesR0600(void* out, int device) {
  if (device < 0 || device >= state.devices) return 101;
  uint8_t* at = out; /* offsets of hipDeviceProp_tR0600 */
  size_t memory = (size_t)192 << 30, lds = 65536;
  memset(at, 0, 1472);
  strcpy((char*)at, "Stub Instinct");
  memcpy(at + 288, &memory, 8);
  memcpy(at + 296, &lds, 8);
  memcpy(at + 388, &state.compute_units, 4);
  strcpy((char*)at + 1160, state.arch);
  return 0;
}

/* CUDA */
EXPORT int cuInit(unsigned flags) { return initialise(flags); }
EXPORT int cuDeviceGetCount(int* count) { return count_devices(count); }
EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
EXPORT int cuGetErrorName(int code, const char** name) { return (void)code, *name = "CUDA_ERROR_OF_THE_STUB", 0; }
EXPORT int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
EXPORT int cuDeviceGetName(char* name, int size, int device) { return (void)size, (void)device, strcpy(name, "Stub Hopper"), 0; }
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 16 ? 132 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : -1;
  return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = (size_t)141 << 30, 0; }
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)(intptr_t)(100 + device), 0; }
EXPORT int cuCtxGetCurrent(void** context) { return *context = current_context, state.faults[FAULT_DEVICE]; }
EXPORT int cuCtxSetCurrent(void* context) { return ++state.set_devices, current_context = context, current_device = (int)(intptr_t)context - 100, 0; }
EXPORT int cuCtxPushCurrent_v2(void* context) { return cuCtxSetCurrent(context); }
EXPORT int cuCtxPopCurrent_v2(void** context) { return *context = current_context, current_context = (void*)7, 0; }
EXPORT int cuModuleLoadData(void** module, const void* image) { return load(module, image); }
EXPORT int cuModuleGetFunction(void** out, void* module, const char* name) { return function(out, module, name); }
EXPORT int cuFuncSetAttribute(void* f, int attribute, int value) { return (void)f, state.attributes = attribute * 1000000 + value, 0; }
EXPORT int cuStreamIsCapturing(void* stream, int* status) { return is_capturing(stream, status); }
EXPORT int cuMemAllocAsync(uint64_t* pointer, size_t size, void* stream) { return allocate(pointer, size, stream); }
EXPORT int cuMemFreeAsync(uint64_t pointer, void* stream) { return release(pointer, stream); }
EXPORT int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned lds, void* stream, void** params, void** extra) {
  return launch(f, gx, gy, gz, bx, by, bz, lds, stream, params, extra);
}
