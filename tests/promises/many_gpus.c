/* The stub driver of the native tests with as many devices as STUB_ARCHS has names, separated by commas: device i answers
 * the i-th as its gcnArchName. A name "!CODE" makes the device's properties answer that code. */
#define hipGetDevicePropertiesR0600 one_kind_of_device
#define hipGetDeviceCount one_count
#include "../native/stub_hip.c"
#undef hipGetDevicePropertiesR0600
#undef hipGetDeviceCount

static const char* arch_of(int device) {
  const char* at = getenv("STUB_ARCHS");
  for (; at != NULL && device > 0; --device) {
    at = strchr(at, ',');
    if (at != NULL) ++at;
  }
  return at;
}

EXPORT int hipGetDeviceCount(int* count) {
  *count = 0;
  while (arch_of(*count) != NULL) ++*count;
  state.devices = *count;
  return 0;
}

EXPORT int hipGetDevicePropertiesR0600(void* out, int device) {
  const char* arch = device < 0 ? NULL : arch_of(device);
  if (arch == NULL) return 101;
  if (*arch == '!') return atoi(arch + 1);
  const size_t length = strcspn(arch, ",");
  const int code = one_kind_of_device(out, device);
  memset((uint8_t*)out + 1160, 0, 256);
  memcpy((uint8_t*)out + 1160, arch, length < 255 ? length : 255);
  return code;
}
