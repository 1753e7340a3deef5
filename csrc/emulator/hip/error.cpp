// Errors: names, the last one of a thread, the message of the last fault.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "apb_emulator.h"
#include "runtime.h"

namespace apb::emu::hip {
namespace {

struct ErrorRow {
  hipError_t code;
  const char* name;
  const char* text;
};
constexpr ErrorRow kErrorRows[] = {
#define X(name, number, text) {name, #name, text},
#include "errors.inc"
#undef X
};

const ErrorRow* row(hipError_t code) {
  for (const ErrorRow& candidate : kErrorRows)
    if (candidate.code == code) return &candidate;
  return nullptr;
}

void report(LogLevel level, hipError_t code, const char* format, std::va_list arguments) {
  char text[2048];
  std::vsnprintf(text, sizeof text, format, arguments);
  const char* name = thread().entry;
  log(level, "%s: %s (%d): %s", name ? name : "HIP", error_name(code), static_cast<int>(code), text);
}

std::mutex& fault_mutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}
const char* last_fault = nullptr;

hipError_t take_last_error() {
  Thread& state = thread();
  const hipError_t code = state.last;
  state.last = hipSuccess;
  return code;
}

}  // namespace

const char* error_name(hipError_t code) {
  const ErrorRow* found = row(code);
  return found ? found->name : "hipErrorUnknown";
}

const char* error_text(hipError_t code) {
  const ErrorRow* found = row(code);
  return found ? found->text : "unknown error";
}

hipError_t fail(hipError_t code, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  report(LogLevel::Error, code, format, arguments);
  va_end(arguments);
  return code;
}

hipError_t quiet(hipError_t code, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  report(LogLevel::Info, code, format, arguments);
  va_end(arguments);
  return code;
}

hipError_t null_argument(const char* argument) { return fail(hipErrorInvalidValue, "%s is null", argument); }
hipError_t caught(const char* what) { return fail(hipErrorUnknown, "%s", what); }

EntryScope::EntryScope(const char* name) : outer_(thread().entry) { thread().entry = name; }
EntryScope::~EntryScope() { thread().entry = outer_; }

// A success does not clear the last error (HIP 7), and "not ready" is an answer, not an error.
hipError_t EntryScope::finish(hipError_t code) const noexcept {
  Thread& state = thread();
  state.last_call = code;
  if (code != hipSuccess && code != hipErrorNotReady) state.last = code;
  return code;
}

// The string stays valid: callers hold it without a lock, and faults are few.
void remember_fault(const std::string& text) {
  const std::lock_guard guard(fault_mutex());
  last_fault = strdup(text.c_str());
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP const char* apb_emulator_last_fault(void) {
  const std::lock_guard guard(fault_mutex());
  return last_fault;
}

APB_HIP const char* hipGetErrorName(hipError_t code) { return error_name(code); }
APB_HIP const char* hipGetErrorString(hipError_t code) { return error_text(code); }

APB_HIP hipError_t hipDrvGetErrorName(hipError_t code, const char** out) {
  if (!out || !row(code)) return hipErrorInvalidValue;
  *out = error_name(code);
  return hipSuccess;
}

APB_HIP hipError_t hipDrvGetErrorString(hipError_t code, const char** out) {
  if (!out || !row(code)) return hipErrorInvalidValue;
  *out = error_text(code);
  return hipSuccess;
}

APB_HIP hipError_t hipGetLastError(void) { return take_last_error(); }
APB_HIP hipError_t hipPeekAtLastError(void) { return thread().last; }

// The result of the last call, a success too.
APB_HIP hipError_t hipExtGetLastError(void) {
  Thread& state = thread();
  const hipError_t code = state.last_call;
  state.last_call = state.last = hipSuccess;
  return code;
}
