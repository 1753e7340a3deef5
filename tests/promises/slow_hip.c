/* The HIP library that SLOW_HIP names, with module loads that take 20 ms: two threads that both want to load meet for certain. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void* found(const char* name) { return dlsym(dlopen(getenv("SLOW_HIP"), RTLD_NOW | RTLD_LOCAL), name); }

#define FORWARD(type, name, parameters, arguments) \
  EXPORT type name parameters { return ((type(*) parameters)found(#name))arguments; }

FORWARD(int, hipInit, (unsigned flags), (flags))
FORWARD(int, hipGetDeviceCount, (int* count), (count))
FORWARD(int, hipRuntimeGetVersion, (int* version), (version))
FORWARD(int, hipGetDevicePropertiesR0600, (void* out, int device), (out, device))
FORWARD(int, hipGetDevice, (int* device), (device))
FORWARD(int, hipSetDevice, (int device), (device))
FORWARD(const char*, hipGetErrorName, (int code), (code))
FORWARD(int, hipModuleGetFunction, (void** out, void* module, const char* name), (out, module, name))
FORWARD(int, hipStreamIsCapturing, (void* stream, int* status), (stream, status))
FORWARD(int, hipMallocAsync, (void** out, size_t size, void* stream), (out, size, stream))
FORWARD(int, hipFreeAsync, (void* memory, void* stream), (memory, stream))
FORWARD(int, hipModuleLaunchKernel,
        (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds,
         void* stream, void** params, void** extra),
        (function, gx, gy, gz, bx, by, bz, lds, stream, params, extra))

EXPORT int hipModuleLoadData(void** module, const void* image) {
  usleep(20000);
  return ((int (*)(void**, const void*))found("hipModuleLoadData"))(module, image);
}
