#include "bundle/bundle.h"

#include <algorithm>
#include <bit>

#include "bundle/sha256.h"

namespace apb {
namespace {

// The header's fields; contract/bundle.py has the table.
struct Header {
  std::array<std::uint8_t, 8> magic;
  std::uint32_t format;
  std::uint32_t recipe;
  std::uint64_t file_size;
  std::uint64_t root_offset;
  std::uint64_t root_size;
  layout::Digest root_digest;
  std::uint8_t zero[24];
  layout::Digest digest;
};
static_assert(sizeof(Header) == kHeaderSize);
static_assert(offsetof(Header, root_digest) == 40 && offsetof(Header, digest) == 96);
constexpr std::size_t kHashedHeader = offsetof(Header, digest);

}  // namespace

bool Bundle::damaged(std::string found, Error& error) const {
  std::string fix = "Reinstall the wheel that owns this file";
  if (root_.data != nullptr) {
    // uv links files to its cache: what is damaged here is damaged there, too.
    const std::string wheel = cat(text(root().distribution), "==", text(root().version));
    fix = cat("Reinstall it: pip install --force-reinstall --no-deps ", wheel,
              ", or uv pip install --reinstall --no-cache --no-deps ", wheel);
  }
  if (const std::string change = file_.change(); !change.empty()) {
    found = cat(change, "; ", found);
    fix += ", then start this process again";
  }
  return error.set(ErrorKind::BundleDamaged, cat("read the bundle ", path_), std::move(found), std::move(fix));
}

bool Bundle::open(const std::string& path, Error& error) {
  path_ = path;
  return file_.open(path, error) && check_header(error);
}

bool Bundle::check_header(Error& error) {
  if (file_.size() < kHeaderSize) {
    return damaged(cat(file_.size(), " bytes are too few for a bundle's header of ", kHeaderSize), error);
  }
  std::string reason;
  if (!file_.read(0, header_.size(), header_.data(), reason)) return damaged(cat("it cannot be read: ", reason), error);
  const auto header = std::bit_cast<Header>(header_);
  if (header.magic != kMagic) return damaged("the first bytes are not those of a bundle", error);
  if (sha256(reinterpret_cast<const std::uint8_t*>(&header), kHashedHeader) != header.digest) {
    return damaged("the header is damaged: its SHA-256 is not the recorded one", error);
  }
  if (header.format != kBundleFormat || header.recipe != kRecipeVersion) {
    return error.set(
        ErrorKind::BundleVersion, cat("read the bundle ", path_),
        cat("it has bundle format ", header.format, " and recipe version ", header.recipe, "; this runtime reads ",
            kBundleFormat, " and ", kRecipeVersion),
        "Install matching releases: pip install --upgrade aiter-prebuilt and the wheel that owns this file");
  }
  if (std::ranges::any_of(header.zero, [](std::uint8_t byte) { return byte != 0; })) {
    return damaged("bytes 72 to 95 of the header are not zero", error);
  }
  if (header.file_size != file_.size()) {
    return damaged(
        cat("the file has ", file_.size(), " bytes, its header says ", header.file_size, ": it was cut or grew"),
        error);
  }
  return read_root(header.root_offset, header.root_size, header.root_digest, error);
}

// Copies the root and checks the copy, so that a file changed in place later cannot change what was checked.
bool Bundle::read_root(std::uint64_t offset, std::uint64_t size, const layout::Digest& digest, Error& error) {
  if (offset < kHeaderSize || offset > file_.size() || size > file_.size() - offset || size < sizeof(layout::Root)) {
    return damaged(cat("the root: ", size, " bytes at ", offset, " leave the file of ", file_.size(), " bytes"), error);
  }
  root_bytes_.resize((size + 7) / 8);
  std::string problem;
  if (!file_.read(offset, size, root_bytes_.data(), problem)) {
    return damaged(cat("the root cannot be read: ", problem), error);
  }
  const Region region{reinterpret_cast<const std::uint8_t*>(root_bytes_.data()), size};
  if (sha256(region.data, size) != digest) {
    return damaged("the root is damaged: its SHA-256 is not the recorded one", error);
  }
  if (!check_region<layout::Root>(region, problem)) return damaged(cat("the root: ", problem), error);
  if (region.root<layout::Root>().vendor >= kVendors.size()) return damaged("the root names an unknown vendor", error);
  root_ = region;
  if (frames_.open(file_, root_.array(root().dictionaries), root(), problem)) return true;
  return damaged(std::move(problem), error);
}

std::vector<std::string_view> Bundle::names() const {
  std::vector<std::string_view> names;
  for (const layout::OperatorRef& ref : root_.array(root().operators)) names.push_back(text(ref.name));
  return names;
}

const layout::OperatorRef* Bundle::find(std::string_view name) const {
  for (const layout::OperatorRef& ref : root_.array(root().operators)) {
    if (text(ref.name) == name) return &ref;
  }
  return nullptr;
}

const OperatorBlock* Bundle::operator_block(std::string_view name, Error& error) {
  const auto known = blocks_.find(name);
  if (known != blocks_.end()) {
    if (known->second.block == nullptr) error = known->second.error;
    return known->second.block.get();
  }
  const layout::OperatorRef* ref = find(name);
  if (ref == nullptr) {
    error.set(ErrorKind::NoOperator, cat("operator ", name), cat("the bundle ", path_, " has no such operator"),
              "List what is there: python -m aiter_prebuilt list");
    return nullptr;
  }
  Slot& slot = blocks_[std::string(name)];
  const std::string what = cat("operator '", name, "'");
  std::vector<std::uint64_t> bytes;
  std::string problem;
  if (!frames_.region(ref->stored, sizeof(layout::Operator), what, bytes, problem)) {
    damaged(std::move(problem), slot.error);
  } else {
    auto block = std::make_unique<OperatorBlock>(*this, std::move(bytes), ref->stored.raw_size);
    if (!block->check(root().code_object_count, problem)) {
      damaged(cat(what, ": ", problem), slot.error);
    } else if (block->name() != name) {
      damaged(cat(what, ": the block is that of '", block->name(), "'"), slot.error);
    } else {
      slot.block = std::move(block);
    }
  }
  if (slot.block == nullptr) error = slot.error;
  return slot.block.get();
}

bool Bundle::read_code_object(const OperatorBlock& block, const layout::Entry& entry, Bytes& out, Error& error) const {
  std::string problem;
  if (!frames_.code_object(entry.code_object, out, problem)) return damaged(std::move(problem), error);
  if (sha256(out.data(), out.size()) != entry.sha256) {
    return damaged(
        cat("code object ", entry.code_object, " of ", block.text(entry.name), " is damaged: SHA-256 differs"), error);
  }
  return true;
}

}  // namespace apb
