// One region of a bundle: records in place, and what their positions point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bundle_layout.h"
#include "expressions/expression.h"

namespace apb {

// Unchecked access; use it on a region that check_region has let through. `data` is aligned to 8 bytes.
struct Region {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;

  template <class Record>
  const Record& root() const {
    return *reinterpret_cast<const Record*>(data);
  }
  std::string_view text(layout::Text at) const {
    return at.length == 0 ? std::string_view{}
                          : std::string_view{reinterpret_cast<const char*>(data) + at.offset, at.length};
  }
  Program code(layout::Code at) const { return at.length == 0 ? Program{} : Program{data + at.offset, at.length}; }

  template <class Element>
  std::span<const Element> array(layout::Array<Element> at) const {
    if (at.count == 0) return {};
    return {reinterpret_cast<const Element*>(data + at.offset), at.count};
  }
};

bool is_utf8(std::string_view text);

namespace detail {

// Visits every position reachable from a record and proves that it stays inside the region. Arrays may be shared and
// overlap, so what is visited is bounded by itself (kMaxWalk), and not by the region's size.
struct BoundsCheck {
  Region region;
  std::string& problem;
  std::uint64_t left = kMaxWalk;

  bool operator()(layout::Text at);
  bool operator()(layout::Code at);
  bool place(std::uint32_t offset, std::uint32_t count, std::size_t element);
  // Before `size` bytes are read.
  bool spend(std::uint64_t size);

  template <class Element>
  bool operator()(layout::Array<Element> at) {
    if (!place(at.offset, at.count, sizeof(Element))) return false;
    if constexpr (requires(const Element& record, BoundsCheck& check) { visit_positions(record, check); }) {
      for (const Element& record : region.array(at)) {
        if (!visit_positions(record, *this)) return false;
      }
    } else if constexpr (requires(const Element& element) { element.length; }) {
      for (const Element& element : region.array(at)) {
        if (!(*this)(element)) return false;
      }
    }
    return true;
  }
};

}  // namespace detail

// Is the region large enough for `Record`, and does everything that it reaches lie inside? All text must be UTF-8.
template <class Record>
[[nodiscard]] bool check_region(Region region, std::string& problem) {
  if (region.size < sizeof(Record)) {
    problem = "the region is smaller than its first record";
    return false;
  }
  return visit_positions(region.root<Record>(), detail::BoundsCheck{region, problem});
}

}  // namespace apb
