// Errors are values. aiter_prebuilt.contract.error_text makes sentences of `asked` (a function, or an action: "open the bundle
// X"), `found` (a clause) and `fix` (a sentence, or nothing). They become Python exceptions of
// aiter_prebuilt.errors in python_errors.cpp and nowhere else, so nothing here needs the interpreter.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace apb {

enum class ErrorKind : std::uint8_t {
  Native,
  NoBundle,
  BundleDamaged,
  BundleVersion,
  BundleTarget,
  BundleConflict,
  NoOperator,
  Driver,
  NoDevice,
  Load,
  Launch,
  Capture,
  Fork,
  ArgumentCount,
  ArgumentKind,
  ArgumentDType,
  ArgumentShape,
  ArgumentStride,
  ArgumentAlignment,
  ArgumentDevice,
  Unsupported,
  NoKernel,
  TunedTable,
  Raised,  // a Python exception is set already and stays as it is
};

// Class names in aiter_prebuilt.errors, by ErrorKind (Raised has none). tests/native/test_frozen.py reads this table.
inline constexpr std::array<const char*, 23> kErrorClasses{
    "NativeError",         "NoBundleError",      "BundleDamagedError",  "BundleVersionError",     "BundleTargetError",
    "BundleConflictError", "NoOperatorError",    "DriverError",         "NoDeviceError",          "LoadError",
    "LaunchError",         "CaptureError",       "ForkError",           "ArgumentCountError",     "ArgumentKindError",
    "ArgumentDTypeError",  "ArgumentShapeError", "ArgumentStrideError", "ArgumentAlignmentError", "ArgumentDeviceError",
    "UnsupportedError",    "NoKernelError",      "TunedTableError",
};
static_assert(kErrorClasses.size() == static_cast<std::size_t>(ErrorKind::Raised));

struct Error {
  ErrorKind kind = ErrorKind::Native;
  std::string asked;
  std::string found;
  std::string fix;
  std::vector<std::string> reasons;  // NoKernel only: one line per candidate

  // Fills all fields and returns false, so that a check reads `return error.set(...)`.
  bool set(ErrorKind new_kind, std::string new_asked, std::string new_found, std::string new_fix);

  // Names the function and the argument of an error whose `found` is a predicate, such as "must be a tensor, got None".
  void about(std::string_view function, std::string_view argument);
};

namespace detail {

inline void append(std::string& out, std::string_view text) { out.append(text); }
inline void append(std::string& out, const char* text) { out.append(text == nullptr ? "" : text); }
inline void append(std::string& out, char letter) { out.push_back(letter); }

template <std::integral Number>
  requires(!std::same_as<Number, char> && !std::same_as<Number, bool>)
void append(std::string& out, Number value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

}  // namespace detail

// The pieces, one behind the other: text, characters and integers.
template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (detail::append(out, pieces), ...);
  return out;
}

// The C library's text of an errno. Unlike strerror(), the caller owns it.
std::string system_error_text(int code);

// "[2, 3, 4]"
std::string list_text(const std::int64_t* values, std::size_t count);

// "0x7f00" for addresses in messages.
std::string hex_text(std::uint64_t value);

// Lower-case hexadecimal of `size` bytes.
std::string hex_bytes(const std::uint8_t* bytes, std::size_t size);

}  // namespace apb
