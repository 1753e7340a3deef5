#include "choice/user_table.h"

#include "choice/select.h"
#include "python_glue.h"

namespace apb {
namespace {

bool malformed(Error& error) {
  PyErr_SetString(PyExc_TypeError,
                  "tuned tables are a tuple of (((name, place), ...), ((origin, cus, values, kernel, variant, types), "
                  "...), modelled)");
  return error.set(ErrorKind::Raised, "", "", "");
}

// The tuple's items, borrowed; false when it is none or has another length than `wanted` (any when negative).
bool items(PyObject* object, Py_ssize_t wanted, std::vector<PyObject*>& out) {
  if (object == nullptr || !py::has_flag(object, py::kFlagTuple)) return false;
  const Py_ssize_t count = PyTuple_Size(object);
  if (wanted >= 0 && count != wanted) return false;
  out.clear();
  for (Py_ssize_t i = 0; i < count; ++i) out.push_back(PyTuple_GetItem(object, i));
  return true;
}

bool read_string(PyObject* object, std::string& out) {
  std::string_view text;
  if (!py::read_text(object, text)) return false;
  out = std::string(text);
  return true;
}

// The slot of `name` when it is a dim, stride or integer attribute: addresses and presences have names of their own.
int symbol_slot(const OperatorBlock& block, std::string_view name) {
  const auto names = block.array(block.op().slots);
  if (name.empty() || name[0] == '&' || name[0] == '?') return -1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (block.text(names[i]) == name) return static_cast<int>(i);
  }
  return -1;
}

std::string symbols_of(const OperatorBlock& block) {
  std::string out;
  for (const layout::Text at : block.array(block.op().slots)) {
    const std::string_view name = block.text(at);
    if (name[0] != '&' && name[0] != '?' && name != "CUS") out += cat(out.empty() ? "" : ", ", name);
  }
  return out;
}

bool read_columns(PyObject* columns, const MergedOperator& op, UserTable& table, Error& error) {
  std::vector<PyObject*> each;
  std::vector<PyObject*> pair;
  if (!items(columns, -1, each)) return malformed(error);
  table.slots.resize(op.blocks.size());
  for (PyObject* column : each) {
    std::string name;
    std::string place;
    if (!items(column, 2, pair) || !read_string(pair[0], name) || !read_string(pair[1], place)) return malformed(error);
    for (std::size_t b = 0; b < op.blocks.size(); ++b) {
      const OperatorBlock& block = *op.blocks[b];
      const int slot = symbol_slot(block, name);
      if (slot < 0) {
        return error.set(ErrorKind::TunedTable, cat("read the tuned table at ", place),
                         cat("the column '", name, "' is no dim, stride or integer attribute of ", block.name()),
                         cat("Use some of: ", symbols_of(block)));
      }
      table.slots[b].push_back(static_cast<std::uint16_t>(slot));
    }
  }
  return true;
}

bool read_row(PyObject* object, std::size_t columns, UserRow& row) {
  std::vector<PyObject*> parts;
  std::vector<PyObject*> values;
  if (!items(object, 6, parts) || !items(parts[2], static_cast<Py_ssize_t>(columns), values)) return false;
  for (PyObject* value : values) {
    if (!py::read_integer(value, row.values.emplace_back(0))) return false;
  }
  return read_string(parts[0], row.origin) && py::read_integer(parts[1], row.compute_units) &&
         read_string(parts[3], row.kernel) && read_string(parts[4], row.variant) && read_string(parts[5], row.types);
}

// "bf16_e4m3fn": as a table names the types of a recipe.
std::string type_words(const OperatorBlock& block, const layout::Recipe& recipe) {
  std::string out;
  for (const std::uint8_t number : block.array(recipe.types)) out += cat(out.empty() ? "" : "_", kDTypes[number].name);
  return out;
}

// Tells whether the values of `row` are those of the call, in the numbering of `block`.
bool matches(const UserTable& table, const UserRow& row, std::size_t block, const Binding& binding,
             std::int64_t compute_units) {
  if (row.compute_units != compute_units) return false;
  const std::vector<std::uint16_t>& slots = table.slots[block];
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (row.values[i] != binding.slots[slots[i]]) return false;
  }
  return true;
}

bool names(const MergedOperator& op, const UserRow& row, const CandidateRef& at) {
  const OperatorBlock& block = *op.blocks[at.block];
  const layout::Recipe& recipe = op.recipe(at);
  return block.text(op.kernel(at).name) == row.kernel && block.text(recipe.variant) == row.variant &&
         type_words(block, recipe) == row.types;
}

}  // namespace

bool read_user_tables(PyObject* tables, MergedOperator& op, Error& error) {
  std::vector<PyObject*> each;
  std::vector<PyObject*> parts;
  std::vector<PyObject*> rows;
  if (!items(tables, -1, each)) return malformed(error);
  for (PyObject* object : each) {
    UserTable table;
    if (!items(object, 3, parts)) return malformed(error);
    table.modelled = parts[2] == py::true_object();
    if (!read_columns(parts[0], op, table, error)) return false;
    if (!items(parts[1], -1, rows)) return malformed(error);
    for (PyObject* row : rows) {
      if (!read_row(row, table.slots.front().size(), table.rows.emplace_back())) return malformed(error);
    }
    op.user.push_back(std::move(table));
  }
  return true;
}

void mark_user_rows(const MergedOperator& op, std::span<const Binding> bindings, std::int64_t compute_units,
                    std::vector<Decision>& decisions) {
  std::uint32_t rank = 0;
  for (const UserTable& table : op.user) {
    for (const UserRow& row : table.rows) {
      ++rank;
      for (Decision& decision : decisions) {
        const std::uint32_t b = decision.at.block;
        if (decision.user != nullptr || decision.verdict == Verdict::OtherTypes) continue;
        if (table.modelled && decision.tuned()) continue;
        if (!matches(table, row, b, bindings[b], compute_units) || !names(op, row, decision.at)) continue;
        decision.user = &row;
        decision.tuned_rank = table.modelled ? kBundleTuned + rank : rank;
      }
    }
  }
}

std::vector<const UserRow*> missing_user_rows(const MergedOperator& op, std::span<const Binding> bindings,
                                              std::int64_t compute_units, const std::vector<Decision>& decisions) {
  std::vector<const UserRow*> out;
  for (const UserTable& table : op.user) {
    for (const UserRow& row : table.rows) {
      if (!matches(table, row, 0, bindings[0], compute_units)) continue;
      bool known = false;
      bool other_types = false;  // its types are some candidate's, and never those of this call
      bool these_types = false;
      for (const Decision& decision : decisions) {
        known = known || names(op, row, decision.at);
        if (type_words(*op.blocks[decision.at.block], op.recipe(decision.at)) != row.types) continue;
        (decision.verdict == Verdict::OtherTypes ? other_types : these_types) = true;
      }
      if (!known && (these_types || !other_types)) out.push_back(&row);
    }
  }
  return out;
}

}  // namespace apb
