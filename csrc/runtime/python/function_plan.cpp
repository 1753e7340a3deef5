#include "python/function_plan.h"

#include <cstdint>

namespace apb {
namespace {

// (place,) of an argument, (-1 - place,) of what was made; all else is itself.
bool read_item(PyObject* object, std::size_t arguments, std::size_t made, Item& item) {
  if (!py::has_flag(object, py::kFlagTuple)) {
    item.object = py::Ref::borrow(object);
    return true;
  }
  std::int64_t place = 0;
  if (PyTuple_Size(object) != 1 || !py::read_integer(PyTuple_GetItem(object, 0), place)) return false;
  item.kind = place < 0 ? Item::Kind::Made : Item::Kind::Argument;
  item.place = static_cast<std::size_t>(place < 0 ? -1 - place : place);
  return item.place < (place < 0 ? made : arguments);
}

bool is_tuple(PyObject* object, Py_ssize_t size) {
  return py::has_flag(object, py::kFlagTuple) && (size < 0 || PyTuple_Size(object) == size);
}

bool read_launch(PyObject* said, const Given& given, std::size_t made, Launch& launch) {
  if (!is_tuple(said, 2) || !is_operator(PyTuple_GetItem(said, 0)) || !is_tuple(PyTuple_GetItem(said, 1), -1))
    return false;
  launch.op = py::Ref::borrow(PyTuple_GetItem(said, 0));
  PyObject* items = PyTuple_GetItem(said, 1);
  launch.items.resize(static_cast<std::size_t>(PyTuple_Size(items)));
  for (std::size_t i = 0; i < launch.items.size(); ++i) {
    Item& item = launch.items[i];
    if (!read_item(PyTuple_GetItem(items, static_cast<Py_ssize_t>(i)), given.kinds.size(), made, item)) return false;
    if (item.kind != Item::Kind::Argument || given.kinds[item.place] != 'v') continue;
    // Its value, or which object it is, stands in the key.
    item.kind = Item::Kind::Same;
    item.object = py::Ref::borrow(given.args[item.place]);
  }
  return launch.items.size() <= kMostArguments;
}

// An item, or a tuple of items.
bool read_answers(PyObject* said, std::size_t arguments, std::size_t made, Plan& plan) {
  plan.single = !is_tuple(said, -1) || PyTuple_Size(said) == 1;
  plan.answers.resize(plan.single ? 1 : static_cast<std::size_t>(PyTuple_Size(said)));
  if (plan.single) return read_item(said, arguments, made, plan.answers[0]);
  for (std::size_t i = 0; i < plan.answers.size(); ++i) {
    if (!read_item(PyTuple_GetItem(said, static_cast<Py_ssize_t>(i)), arguments, made, plan.answers[i])) return false;
  }
  return true;
}

}  // namespace

bool read_plan(PyObject* said, const Given& given, Plan& plan) {
  if (!is_tuple(said, 3) || !is_tuple(PyTuple_GetItem(said, 0), -1) || !is_tuple(PyTuple_GetItem(said, 1), -1))
    return false;
  PyObject* allocations = PyTuple_GetItem(said, 0);
  const auto made = static_cast<std::size_t>(PyTuple_Size(allocations));
  if (made > kMostMade) return false;
  plan.allocations.resize(made);
  for (std::size_t i = 0; i < made; ++i) {
    if (!read_allocation(PyTuple_GetItem(allocations, static_cast<Py_ssize_t>(i)), plan.allocations[i])) return false;
  }
  PyObject* launches = PyTuple_GetItem(said, 1);
  plan.launches.resize(static_cast<std::size_t>(PyTuple_Size(launches)));
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    if (!read_launch(PyTuple_GetItem(launches, static_cast<Py_ssize_t>(i)), given, made, plan.launches[i]))
      return false;
  }
  return read_answers(PyTuple_GetItem(said, 2), given.kinds.size(), made, plan);
}

}  // namespace apb
