#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "apb_emulator.h"
#include "machine/settings/configuration.h"
#include "machine/settings/trace_filter.h"

using namespace apb::emu;

extern "C" char* apb_emulator_trace_problem(const char* filter) try {
  TraceFilter read;
  const std::string problem = read_trace_filter(filter ? filter : "", read);
  char* copy = static_cast<char*>(std::malloc(problem.size() + 1));
  if (copy) std::memcpy(copy, problem.c_str(), problem.size() + 1);
  return copy;
} catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_trace_problem: %s", error.what());
  return nullptr;
}
