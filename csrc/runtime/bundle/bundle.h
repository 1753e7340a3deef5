// The reader of a bundle file; src/aiter_prebuilt/contract/bundle.py specifies the bytes. Opening checks header,
// root and table; operator blocks and code objects are checked when they are first used. Callers hold the GIL, except
// for read_code_object, which may run on any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/frames.h"
#include "bundle/open_file.h"
#include "bundle/operator_block.h"
#include "bundle/region.h"
#include "bundle_layout.h"
#include "errors.h"

namespace apb {

class Bundle {
 public:
  [[nodiscard]] bool open(const std::string& path, Error& error);

  const std::string& path() const { return path_; }
  const layout::Root& root() const { return root_.root<layout::Root>(); }
  // The header of the opened file. A signature over it covers everything that is read later.
  std::string_view header() const { return {header_.data(), header_.size()}; }
  std::string_view text(layout::Text at) const { return root_.text(at); }
  // The name of the tree of an own bundle ("acme"); empty for a bundle of the product.
  std::string_view tree() const {
    const std::string_view profile = text(root().profile);
    const std::size_t mark = profile.find(kTreeMark);
    return mark == std::string_view::npos ? std::string_view() : profile.substr(mark + 1);
  }
  std::vector<std::string_view> names() const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // The checked block of one operator, or null with an Error: NoOperator, or BundleDamaged (which stays).
  const OperatorBlock* operator_block(std::string_view name, Error& error);

  // The decoded code object of `entry`, its SHA-256 checked.
  [[nodiscard]] bool read_code_object(const OperatorBlock& block, const layout::Entry& entry, Bytes& out,
                                      Error& error) const;

 private:
  struct Slot {
    std::unique_ptr<OperatorBlock> block;
    Error error;
  };

  bool damaged(std::string found, Error& error) const;
  bool check_header(Error& error);
  bool read_root(std::uint64_t offset, std::uint64_t size, const layout::Digest& digest, Error& error);
  const layout::OperatorRef* find(std::string_view name) const;

  std::string path_;
  std::array<char, kHeaderSize> header_{};
  OpenFile file_;
  std::vector<std::uint64_t> root_bytes_;
  Region root_;
  Frames frames_;
  std::map<std::string, Slot, std::less<>> blocks_;
};

}  // namespace apb
