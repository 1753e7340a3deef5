// Views of a call's tensors: the same memory with other dims or another element type. They are described once, when the Python
// side is imported, and applied to the tensor's description. So a framework makes no tensor for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "python_abi.h"
#include "tensors/call.h"

namespace apb {

// A tensor that a view does not fit (not given, of another rank or type) is left as it is: binding has the words for it.
struct View {
  enum class Kind : std::uint8_t { Order, Split, Bytes };

  Kind kind = Kind::Order;
  std::size_t tensor = 0;
  std::int32_t rank = 0;    // Order: of a tensor with so many dims
  std::vector<int> order;   // Order: each dim of the view by that of the tensor; negative: a new one
  std::int64_t size = 0;    // Split: the last dim becomes two, this the second
  std::uint32_t dtype = 0;  // Bytes: of a tensor of this element type, one byte each
};

constexpr std::size_t kMostViews = 8;

// Reads ((kind, place, ...), ...): ("order", place, rank, (dim, ...)), ("split", place, size), ("bytes", place, type). False
// with what is wrong.
[[nodiscard]] bool read_views(PyObject* tuple, std::vector<View>& out, std::string& problem);

// The views of one call; their dims live in it.
class Viewing {
 public:
  // `said`: what the views were made of, or null.
  explicit Viewing(const std::vector<View>& views, PyObject* said = nullptr) : views_(views), said_(said) {}
  Viewing(const Viewing&) = delete;
  Viewing& operator=(const Viewing&) = delete;
  ~Viewing() = default;

  void apply(Call& call);
  PyObject* said() const { return said_; }

 private:
  const std::vector<View>& views_;
  PyObject* said_;
};

}  // namespace apb
