// Rows of the tables that AITER_PREBUILT_TUNED names: which variant a shape takes on this device, before the rows of
// the bundles, the order of the kernels and their cost. Python reads the files (aiter_prebuilt/launch/user_tables.py); here they are
// matched, on the slow path only: a call that was seen before never looks at them again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "errors.h"
#include "python_abi.h"

namespace apb {

struct MergedOperator;
struct Binding;
struct Decision;

struct UserRow {
  std::string origin;  // "FILE:LINE"
  std::int64_t compute_units;
  std::vector<std::int64_t> values;  // of the table's columns
  std::string kernel;
  std::string variant;
  std::string types;  // "bf16_e4m3fn"
};

struct UserTable {
  std::vector<std::vector<std::uint16_t>> slots;  // of the columns, by block
  std::vector<UserRow> rows;
  bool modelled = false;  // times that a model predicted: measured rows, a bundle's too, go before
};

// Reads `tables`, a tuple of (columns, rows, modelled) that wins from front to back, modelled ones last: a column is
// (name, "FILE:LINE:COLUMN"), a row (origin, compute units, values, kernel, variant, types). False with TunedTable when the operator has no such symbol, or
// Raised.
[[nodiscard]] bool read_user_tables(PyObject* tables, MergedOperator& op, Error& error);

// Marks the decisions that a row of exactly this device and these values names: the first row that names one wins.
void mark_user_rows(const MergedOperator& op, std::span<const Binding> bindings, std::int64_t compute_units,
                    std::vector<Decision>& decisions);

// The rows of this device and these values that name a kernel, variant and types that no bundle of the device has.
std::vector<const UserRow*> missing_user_rows(const MergedOperator& op, std::span<const Binding> bindings,
                                              std::int64_t compute_units, const std::vector<Decision>& decisions);

}  // namespace apb
