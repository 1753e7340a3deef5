#include "bundle.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sha256.h"
#include "zstd_decoder.h"

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

constexpr std::size_t kPage = 4096;

}  // namespace

void Bytes::Free::operator()(std::uint8_t* data) const { std::free(data); }

bool Bytes::allocate(std::size_t size) {
  const std::size_t rounded = (size + kPage) / kPage * kPage;  // never 0, a multiple of the alignment
  data_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPage, rounded)));
  size_ = data_ == nullptr ? 0 : size;
  return data_ != nullptr;
}

bool Bundle::damaged(std::string found, Error& error) const {
  std::string fix = "Reinstall the wheel that owns this file";
  if (root_.data != nullptr) {
    fix = cat("Reinstall it: pip install --force-reinstall --no-deps ", text(root().distribution),
              "==", text(root().version));
  }
  return error.set(ErrorKind::BundleDamaged, cat("reading the bundle ", path_), std::move(found), std::move(fix));
}

bool Bundle::open(const std::string& path, Error& error) {
  path_ = path;
  return file_.open(path, error) && check_header(error);
}

bool Bundle::check_header(Error& error) {
  if (file_.size() < kHeaderSize) {
    return damaged(cat(file_.size(), " bytes are too few for a bundle's header of ", kHeaderSize), error);
  }
  Header header;
  std::memcpy(&header, file_.data(), sizeof header);
  if (header.magic != kMagic) return damaged("the first bytes are not those of a bundle", error);
  if (sha256(file_.data(), kHashedHeader) != header.digest) {
    return damaged("the header is damaged: its SHA-256 is not the recorded one", error);
  }
  if (header.format != kBundleFormat || header.recipe != kRecipeVersion) {
    return error.set(
        ErrorKind::BundleVersion, cat("reading the bundle ", path_),
        cat("it has bundle format ", header.format, " and recipe version ", header.recipe, ", this runtime reads ",
            kBundleFormat, " and ", kRecipeVersion),
        "Install matching releases: pip install --upgrade aiter-prebuilt and the wheel that owns this file");
  }
  if (header.file_size != file_.size()) {
    return damaged(
        cat("the file has ", file_.size(), " bytes, its header says ", header.file_size, ": it was cut or grew"),
        error);
  }
  if (!copy_region(header.root_offset, header.root_size, header.root_digest, sizeof(layout::Root), "the root",
                   root_bytes_, error)) {
    return false;
  }
  const Region region{reinterpret_cast<const std::uint8_t*>(root_bytes_.data()), header.root_size};
  std::string problem;
  if (!check_region<layout::Root>(region, problem)) return damaged(cat("the root: ", problem), error);
  if (region.root<layout::Root>().vendor >= kVendors.size()) return damaged("the root names an unknown vendor", error);
  root_ = region;
  return true;
}

// Copies a region and checks the copy, so that a file changed in place later cannot change what was checked.
bool Bundle::copy_region(std::uint64_t offset, std::uint64_t size, const layout::Digest& digest, std::size_t least,
                         const std::string& what, std::vector<std::uint64_t>& out, Error& error) const {
  if (offset % kRegionAlign != 0 || offset < kHeaderSize || offset > file_.size() || size > file_.size() - offset ||
      size < least) {
    return damaged(cat(what, ": ", size, " bytes at ", offset, " leave the file of ", file_.size(), " bytes"), error);
  }
  out.resize((size + 7) / 8);
  std::memcpy(out.data(), file_.data() + offset, size);
  if (sha256(reinterpret_cast<const std::uint8_t*>(out.data()), size) != digest) {
    return damaged(cat(what, " is damaged: its SHA-256 is not the recorded one"), error);
  }
  return true;
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
  if (copy_region(ref->offset, ref->size, ref->sha256, sizeof(layout::Operator), what, bytes, slot.error)) {
    auto block = std::make_unique<OperatorBlock>(*this, std::move(bytes), ref->size);
    std::string problem;
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

bool Bundle::table_record(std::uint32_t index, layout::CodeObject& record, Error& error) const {
  const std::uint64_t table = root().code_object_offset;
  const std::uint64_t at = std::uint64_t{index} * sizeof record;
  if (index >= root().code_object_count || table > file_.size() || at + sizeof record > file_.size() - table) {
    return damaged(cat("code object ", index, " leaves the table of ", root().code_object_count), error);
  }
  std::memcpy(&record, file_.data() + table + at, sizeof record);
  if (record.offset > file_.size() || record.stored_size > file_.size() - record.offset ||
      record.raw_size > kMaxCodeObject) {
    return damaged(cat("code object ", index, ": ", record.stored_size, " bytes at ", record.offset, " leave the file"),
                   error);
  }
  if (record.encoding >= kEncodings.size()) {
    return damaged(cat("code object ", index, " has the unknown encoding ", record.encoding), error);
  }
  return true;
}

bool Bundle::decode(std::uint32_t index, bool may_refer, Bytes& out, Error& error) const {
  layout::CodeObject record;
  if (!table_record(index, record, error)) return false;
  const std::span<const std::uint8_t> stored(file_.data() + record.offset, record.stored_size);
  const bool raw = static_cast<Encoding>(record.encoding) == Encoding::Raw;
  Bytes reference;
  if (!raw && record.reference != kNone32) {
    if (!may_refer) return damaged(cat("code object ", index, " is a reference and has a reference itself"), error);
    if (!decode(record.reference, false, reference, error)) return false;
  }
  if (!out.allocate(raw ? record.stored_size : record.raw_size)) {
    return damaged(cat("code object ", index, ": no memory for ", record.raw_size, " bytes"), error);
  }
  if (raw) {
    if (!stored.empty()) std::memcpy(out.data(), stored.data(), stored.size());
    return true;
  }
  std::string problem;
  if (!zstd_decode(stored, {reference.data(), reference.size()}, out.data(), out.size(), problem)) {
    return damaged(cat("code object ", index, " does not decode: ", problem), error);
  }
  return true;
}

bool Bundle::read_code_object(const OperatorBlock& block, const layout::Entry& entry, Bytes& out, Error& error) const {
  if (!decode(entry.code_object, true, out, error)) return false;
  if (sha256(out.data(), out.size()) != entry.sha256) {
    return damaged(
        cat("code object ", entry.code_object, " of ", block.text(entry.name), " is damaged: SHA-256 differs"), error);
  }
  return true;
}

}  // namespace apb
