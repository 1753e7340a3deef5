// Owned references, conversions and the one way an Error becomes a Python exception.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "errors.h"
#include "python_abi.h"

namespace apb::py {

// One owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) Py_DecRef(object_);
  }

  static Ref borrow(PyObject* object) {
    Py_IncRef(object);
    return Ref(object);
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Counts with Python's own calls, so that an argument that calls the operator while it is read, for ever, ends in
// RecursionError before the C stack does.
class Recursion {
 public:
  Recursion() : entered_(Py_EnterRecursiveCall(" while an operator reads its arguments") == 0) {}
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;
  ~Recursion() {
    if (entered_) Py_LeaveRecursiveCall();
  }

  // False: RecursionError is set.
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

// Lets other threads run; nothing of Python may be touched while it lives.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

// Sets the exception of aiter_prebuilt.errors that `error` names (or keeps the one that is set); returns null.
PyObject* raise(const Error& error);

// The exception that raise() raises, as an object; null with another exception set. Not for Raised.
Ref exception(const Error& error);

// Is an exception set that says nothing about an argument: KeyboardInterrupt, SystemExit and whatever else is no Exception,
// MemoryError, RecursionError? It goes on to the caller: nothing here clears or words it, and raise() keeps it.
bool is_interruption();  // the one that is set
inline bool interrupted() { return PyErr_Occurred() != nullptr && is_interruption(); }

// Clears what is set, unless interrupted().
void clear_ordinary();

// Turns the exception that is set into text and clears it; empty when interrupted().
std::string take_exception_text();

Ref text(std::string_view value);
Ref integer(std::int64_t value);
Ref boolean(bool value);

// A str's bytes, alive as long as `object`; false (nothing set unless interrupted()) when it is no str.
bool read_text(PyObject* object, std::string_view& out);

// An int or anything with __index__; false (nothing set unless interrupted()) when it is neither or does not fit 64 bits.
bool read_integer(PyObject* object, std::int64_t& out);

// An int as an address or a handle; false with no exception set when it is negative, does not fit 64 bits, or is no int.
bool read_address(PyObject* object, std::uint64_t& out);
// The same for the number of a device.
bool read_ordinal(PyObject* object, std::int32_t& out);

// Adds `value` to a dict under `key`; takes the reference. False with the exception set.
bool put(PyObject* dict, const char* key, Ref value);

// A fresh tuple of `count` items made by `make(index) -> Ref`; null when one of them is.
template <class Make>
Ref tuple(std::size_t count, Make&& make) {
  Ref out(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; out && i < count; ++i) {
    Ref item = make(i);
    if (!item || PyTuple_SetItem(out.get(), static_cast<Py_ssize_t>(i), item.release()) != 0) return Ref();
  }
  return out;
}

}  // namespace apb::py
