#include "bundle/frames.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bundle/sha256.h"
#include "bundle/zstd_decoder.h"
#include "errors.h"

namespace apb {
namespace {

constexpr std::size_t kPage = 4096;

// Bytes of decoded dictionaries that stay in memory; the latest stays whatever its size. Kernels of one model come from
// few sources, and most dictionaries are at most half of this (build_tools/compress.py).
constexpr std::size_t kKept = std::size_t{1} << 20;

bool broken(std::string& problem, std::string rule) {
  problem = std::move(rule);
  return false;
}

}  // namespace

void Bytes::Free::operator()(std::uint8_t* data) const { std::free(data); }

bool Bytes::allocate(std::size_t size) {
  const std::size_t rounded = (size + kPage) / kPage * kPage;  // never 0, a multiple of the alignment
  data_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPage, rounded)));
  size_ = data_ == nullptr ? 0 : size;
  return data_ != nullptr;
}

bool Frames::open(const OpenFile& file, std::span<const layout::Stored> dictionaries, const layout::Root& root,
                  std::string& problem) {
  file_ = &file;
  dictionaries_ = dictionaries;
  const std::uint64_t size = std::uint64_t{root.code_object_count} * sizeof(layout::CodeObject);
  std::vector<std::uint64_t> raw;
  if (!region(root.table, size, "the table", raw, problem)) return false;
  if (root.table.raw_size != size) {
    return broken(problem,
                  cat("the table has ", root.table.raw_size, " bytes for ", root.code_object_count, " code objects"));
  }
  if (root.frames_offset > file.size() || root.frames_size > file.size() - root.frames_offset) {
    return broken(problem, cat("the frames: ", root.frames_size, " bytes at ", root.frames_offset, " leave the file"));
  }
  const auto* records = reinterpret_cast<const layout::CodeObject*>(raw.data());
  std::uint64_t at = root.frames_offset;
  table_.reserve(root.code_object_count);
  for (std::uint32_t i = 0; i < root.code_object_count; ++i) {
    const layout::CodeObject& record = records[i];
    table_.push_back({at, record.stored_size, record.raw_size, record.dictionary, record.encoding});
    at += record.stored_size;
  }
  if (at != root.frames_offset + root.frames_size) {
    return broken(problem,
                  cat("the table's frames end at ", at, ", the root says ", root.frames_offset + root.frames_size));
  }
  return true;
}

bool Frames::check(const Frame& frame, std::uint32_t most, const std::string& what, std::string& problem) const {
  if (frame.raw_size > most) {
    return broken(problem, cat(what, " has ", frame.raw_size, " bytes, at most ", most, " are allowed"));
  }
  if (frame.encoding >= kEncodings.size()) {
    return broken(problem, cat(what, " has the unknown encoding ", frame.encoding));
  }
  const bool raw = static_cast<Encoding>(frame.encoding) == Encoding::Raw;
  if (raw && (frame.stored_size != frame.raw_size || frame.dictionary != kNone32)) {
    return broken(problem, cat(what, " is stored as it is, and says that it is decoded"));
  }
  if (frame.dictionary != kNone32 && frame.dictionary >= dictionaries_.size()) {
    return broken(problem, cat(what, " names dictionary ", frame.dictionary, " of ", dictionaries_.size()));
  }
  return true;
}

bool Frames::fetch(std::uint64_t offset, std::size_t size, const std::string& what, Bytes& copy,
                   std::string& problem) const {
  if (!copy.allocate(size)) return broken(problem, cat(what, ": no memory for ", size, " bytes"));
  std::string reason;
  return file_->read(offset, size, copy.data(), reason) || broken(problem, cat(what, " cannot be read: ", reason));
}

bool Frames::read_part(const layout::Stored& stored, std::uint64_t least, std::uint32_t most, const std::string& what,
                       Bytes& copy, std::string& problem) const {
  const std::uint64_t size = file_->size();
  if (stored.offset < kHeaderSize || stored.offset > size || stored.stored_size > size - stored.offset ||
      stored.raw_size < least) {
    return broken(problem, cat(what, ": ", stored.stored_size, " bytes at ", stored.offset, " leave the file of ", size,
                               " bytes"));
  }
  const Frame frame{stored.offset, stored.stored_size, stored.raw_size, stored.dictionary, stored.encoding};
  if (!check(frame, most, what, problem)) return false;
  if (!fetch(stored.offset, stored.stored_size, what, copy, problem)) return false;
  if (sha256(copy.data(), copy.size()) != stored.sha256) {
    return broken(problem, cat(what, " is damaged: its SHA-256 is not the recorded one"));
  }
  return true;
}

bool Frames::decode(const Frame& frame, std::span<const std::uint8_t> stored, const std::string& what,
                    std::uint8_t* out, std::string& problem) const {
  if (static_cast<Encoding>(frame.encoding) == Encoding::Raw) {
    if (!stored.empty()) std::memcpy(out, stored.data(), stored.size());
    return true;
  }
  std::shared_ptr<const Bytes> shared;
  std::span<const std::uint8_t> prefix;
  if (frame.dictionary != kNone32) {
    shared = dictionary(frame.dictionary, problem);
    if (shared == nullptr) return false;
    prefix = {shared->data(), shared->size()};
  }
  std::string reason;
  if (zstd_decode(stored, prefix, out, frame.raw_size, reason)) return true;
  return broken(problem, cat(what, " does not decode: ", reason));
}

bool Frames::region(const layout::Stored& stored, std::uint64_t least, const std::string& what,
                    std::vector<std::uint64_t>& out, std::string& problem) const {
  Bytes copy;
  if (!read_part(stored, least, kMaxRegion, what, copy, problem)) return false;
  out.resize((std::size_t{stored.raw_size} + 7) / 8);
  const Frame frame{stored.offset, stored.stored_size, stored.raw_size, stored.dictionary, stored.encoding};
  return decode(frame, {copy.data(), copy.size()}, what, reinterpret_cast<std::uint8_t*>(out.data()), problem);
}

bool Frames::code_object(std::uint32_t index, Bytes& out, std::string& problem) const {
  const std::string what = cat("code object ", index);
  if (index >= table_.size()) return broken(problem, cat(what, " leaves the table of ", table_.size()));
  const Frame& frame = table_[index];
  if (!check(frame, kMaxCodeObject, what, problem)) return false;
  if (static_cast<Encoding>(frame.encoding) == Encoding::Raw) {
    return fetch(frame.offset, frame.stored_size, what, out, problem);
  }
  Bytes stored;
  if (!fetch(frame.offset, frame.stored_size, what, stored, problem)) return false;
  if (!out.allocate(frame.raw_size)) return broken(problem, cat(what, ": no memory for ", frame.raw_size, " bytes"));
  return decode(frame, {stored.data(), stored.size()}, what, out.data(), problem);
}

// Whoever finds the lock taken decodes for itself: nobody waits, and a child that was forked while another thread held
// the lock is not stuck.
std::shared_ptr<const Bytes> Frames::dictionary(std::uint32_t index, std::string& problem) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return decode_dictionary(index, problem);
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const auto& pair) { return pair.first == index; });
  if (known != kept_.end()) {
    std::rotate(kept_.begin(), known, known + 1);
    return kept_.front().second;
  }
  auto content = decode_dictionary(index, problem);
  if (content != nullptr) keep(index, content);
  return content;
}

std::shared_ptr<const Bytes> Frames::decode_dictionary(std::uint32_t index, std::string& problem) const {
  const layout::Stored& stored = dictionaries_[index];
  const std::string what = cat("dictionary ", index);
  if (stored.dictionary != kNone32) {
    broken(problem, cat(what, " needs a dictionary itself"));
    return nullptr;
  }
  Bytes copy;
  if (!read_part(stored, 0, kMaxDictionary, what, copy, problem)) return nullptr;
  auto content = std::make_shared<Bytes>();
  if (!content->allocate(stored.raw_size)) {
    broken(problem, cat(what, ": no memory for ", stored.raw_size, " bytes"));
    return nullptr;
  }
  const Frame frame{stored.offset, stored.stored_size, stored.raw_size, kNone32, stored.encoding};
  return decode(frame, {copy.data(), copy.size()}, what, content->data(), problem) ? content : nullptr;
}

void Frames::keep(std::uint32_t index, std::shared_ptr<const Bytes> content) const {
  kept_.emplace(kept_.begin(), index, std::move(content));
  std::size_t total = 0;
  std::size_t count = 0;
  for (const auto& pair : kept_) {
    total += pair.second->size();
    if (count > 0 && total > kKept) break;
    ++count;
  }
  kept_.resize(count);
}

}  // namespace apb
