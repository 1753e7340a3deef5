#include "machine/settings/trace_filter.h"

#include <algorithm>
#include <charconv>

#include "machine/dwarf/source_lines.h"

namespace apb::emu {
namespace {

using Span = TraceFilter::Span;

constexpr const char* kCategories[kCategoryCount] = {"salu",   "valu", "mfma",   "smem", "vmem_load", "vmem_store",
                                                     "atomic", "lds",  "branch", "wait", "other"};
constexpr std::uint32_t kMostLanes = 64;

std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
  while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
  return part;
}

// Decimal, or hexadecimal behind 0x.
bool read_number(std::string_view text, std::uint64_t& out) {
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc{} && end == text.data() + text.size();
}

// "7", "0-3", "*".
bool read_span(std::string_view text, Span& out) {
  if (text == "*") return true;
  const std::string_view first = next_part(text, '-');
  if (!read_number(first, out.first)) return false;
  out.last = out.first;
  return text.empty() || (read_number(text, out.last) && out.first <= out.last);
}

bool read_workgroup(std::string_view text, std::array<Span, 3>& out) {
  for (Span& span : out)
    if (!read_span(next_part(text, ':'), span)) return false;
  return text.empty();
}

bool read_line(std::string_view text, TraceFilter::Line& out) {
  const std::size_t at = text.rfind(':');
  Span span;
  if (at == std::string_view::npos || at == 0 || text.substr(at + 1) == "*" || !read_span(text.substr(at + 1), span) ||
      span.last > UINT32_MAX)
    return false;
  out = {std::string(text.substr(0, at)), static_cast<std::uint32_t>(span.first),
         static_cast<std::uint32_t>(span.last)};
  return true;
}

bool read_class(std::string_view text, std::uint32_t& bits) {
  const auto* found = std::ranges::find_if(kCategories, [&](const char* each) { return text == each; });
  if (found == std::end(kCategories)) return false;
  bits |= 1u << (found - std::begin(kCategories));
  return true;
}

bool read_lanes(std::string_view text, std::uint64_t& bits) {
  Span span;
  if (!read_span(text, span)) return false;
  const std::uint64_t last = std::min<std::uint64_t>(span.last, text == "*" ? kMostLanes - 1 : span.last);
  if (last >= kMostLanes) return false;
  for (std::uint64_t lane = span.first; lane <= last; ++lane) bits |= std::uint64_t{1} << lane;
  return true;
}

// * stands for any text.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

class FilterReader {
 public:
  explicit FilterReader(TraceFilter& out) : out_(out) {}

  std::string read(std::string_view text) {
    while (!text.empty()) {
      const std::string_view whole = next_part(text, ',');
      std::string_view values = whole;
      const std::string_view key = next_part(values, '=');
      if (const std::string expected = part(key, values); !expected.empty())
        return "found '" + std::string(whole) + "', expected " + expected;
    }
    return {};
  }

 private:
  // Empty when it is right; else what it should be.
  std::string part(std::string_view key, std::string_view values) {
    if (key == "kernel")
      return each(values, "a kernel's name as the device says it, as in kernel=add_*", [&](std::string_view text) {
        out_.kernels.emplace_back(text);
        return !text.empty();
      });
    if (key == "workgroup")
      return each(values, "three numbers, as in workgroup=1:0:0 or workgroup=*:0-3:0",
                  [&](std::string_view text) { return read_workgroup(text, out_.workgroups.emplace_back()); });
    if (key == "line")
      return each(values, "a file and a line, as in line=x.hip:12 or line=x.py:12-20",
                  [&](std::string_view text) { return read_line(text, out_.lines.emplace_back()); });
    if (key == "launch") return spans(values, "numbers from 1, as in launch=3 or launch=2-4", out_.launches);
    if (key == "wave")
      return spans(values, "numbers of waves in their workgroup, as in wave=2 or wave=0-1+3", out_.waves);
    if (key == "pc") return spans(values, "offsets in the code, as in pc=0x40 or pc=0x40-0x80", out_.places);
    return other(key, values);
  }

  std::string other(std::string_view key, std::string_view values) {
    if (key == "class") {
      out_.classes = 0;
      return each(values,
                  "some of salu, valu, mfma, smem, vmem_load, vmem_store, atomic, lds, branch, wait, other, as in "
                  "class=mfma+lds",
                  [&](std::string_view text) { return read_class(text, out_.classes); });
    }
    if (key == "lanes") {
      out_.lanes = 0;
      return each(values, "lanes from 0 to 63, as in lanes=0-3+63",
                  [&](std::string_view text) { return read_lanes(text, out_.lanes); });
    }
    if (key == "registers") return choice(values, "no", "yes", out_.registers);
    if (key == "format") return choice(values, "text", "json", out_.json);
    return "kernel, launch, workgroup, wave, pc, line, class, lanes, registers or format, as in "
           "kernel=NAME,workgroup=1:0:0,wave=2,pc=0x40-0x80,line=x.hip:12,class=mfma+lds";
  }

  template <typename Read> std::string each(std::string_view values, const char* expected, Read read) {
    bool right = !values.empty();
    while (right && !values.empty()) right = read(next_part(values, '+'));
    return right ? std::string() : std::string(expected);
  }
  std::string spans(std::string_view values, const char* expected, std::vector<Span>& out) {
    return each(values, expected, [&](std::string_view text) { return read_span(text, out.emplace_back()); });
  }
  static std::string choice(std::string_view value, const char* no, const char* yes, bool& out) {
    out = value == yes;
    return out || value == no ? std::string() : std::string(no) + " or " + yes;
  }

  TraceFilter& out_;
};

bool any(const std::vector<Span>& spans, std::uint64_t value) {
  return spans.empty() || std::ranges::any_of(spans, [value](const Span& span) { return span.holds(value); });
}

}  // namespace

bool TraceFilter::wants_launch(std::string_view kernel, std::uint64_t number) const {
  const bool named = kernels.empty() || std::ranges::any_of(kernels, [kernel](const std::string& pattern) {
                       return matches(pattern, kernel);
                     });
  return on && named && any(launches, number);
}

bool TraceFilter::wants_workgroup(const std::uint32_t (&id)[3]) const {
  return workgroups.empty() || std::ranges::any_of(workgroups, [&id](const std::array<Span, 3>& one) {
           return one[0].holds(id[0]) && one[1].holds(id[1]) && one[2].holds(id[2]);
         });
}

bool TraceFilter::wants_wave(std::uint32_t number) const { return any(waves, number); }

bool TraceFilter::wants(const Instruction& instruction, const SourceLines* source) const {
  if ((classes >> static_cast<unsigned>(instruction.category) & 1) == 0 || !any(places, instruction.address))
    return false;
  return lines.empty() || (source != nullptr && std::ranges::any_of(lines, [&](const Line& line) {
                             return source->within(instruction.address, line.file, line.first, line.last);
                           }));
}

std::string read_trace_filter(std::string_view text, TraceFilter& out) {
  out = {};
  out.on = true;
  return FilterReader(out).read(text);
}

const char* name(Category category) { return kCategories[static_cast<int>(category)]; }

}  // namespace apb::emu
