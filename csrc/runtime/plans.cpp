#include "plans.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call_words.h"
#include "operator_type.h"

namespace apb {
namespace {

constexpr std::size_t kEntries = 64;  // as of Outputs
constexpr std::size_t kMostWords = 256;
constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kMostMade = 8;

using Key = CallWords<kMostWords>;

// What a call of an operator is given, or what the function returns: an argument, something made, or always the same object.
struct Item {
  enum class Kind { Argument, Made, Same } kind = Kind::Same;
  std::size_t place = 0;
  py::Ref object;
};

// Memory that is made: function(*arguments).
struct Making {
  py::Ref function;
  py::Ref arguments;
};

struct Launch {
  py::Ref op;
  std::vector<Item> items;
};

struct Plan {
  std::vector<Making> makings;
  std::vector<Launch> launches;
  std::vector<Item> answers;  // of several a tuple
  bool single = true;
};

struct Entry {
  std::vector<std::uint64_t> key;
  std::vector<py::Ref> objects;      // whose addresses stand in the key
  std::shared_ptr<const Plan> plan;  // null: the function itself is called
};

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

bool read_launch(PyObject* said, std::size_t arguments, std::size_t made, Launch& launch) {
  if (!is_tuple(said, 2) || !is_operator(PyTuple_GetItem(said, 0)) || !is_tuple(PyTuple_GetItem(said, 1), -1))
    return false;
  launch.op = py::Ref::borrow(PyTuple_GetItem(said, 0));
  PyObject* items = PyTuple_GetItem(said, 1);
  launch.items.resize(static_cast<std::size_t>(PyTuple_Size(items)));
  for (std::size_t i = 0; i < launch.items.size(); ++i) {
    if (!read_item(PyTuple_GetItem(items, static_cast<Py_ssize_t>(i)), arguments, made, launch.items[i])) return false;
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

// ((function, arguments) of what is made, ...), ((operator, items), ...), what is returned.
bool read_plan(PyObject* said, std::size_t arguments, Plan& plan) {
  if (!is_tuple(said, 3) || !is_tuple(PyTuple_GetItem(said, 0), -1) || !is_tuple(PyTuple_GetItem(said, 1), -1))
    return false;
  PyObject* makings = PyTuple_GetItem(said, 0);
  const auto made = static_cast<std::size_t>(PyTuple_Size(makings));
  if (made > kMostMade) return false;
  for (std::size_t i = 0; i < made; ++i) {
    PyObject* each = PyTuple_GetItem(makings, static_cast<Py_ssize_t>(i));
    if (!is_tuple(each, 2) || !is_tuple(PyTuple_GetItem(each, 1), -1)) return false;
    plan.makings.push_back({py::Ref::borrow(PyTuple_GetItem(each, 0)), py::Ref::borrow(PyTuple_GetItem(each, 1))});
  }
  PyObject* launches = PyTuple_GetItem(said, 1);
  plan.launches.resize(static_cast<std::size_t>(PyTuple_Size(launches)));
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    if (!read_launch(PyTuple_GetItem(launches, static_cast<Py_ssize_t>(i)), arguments, made, plan.launches[i]))
      return false;
  }
  return read_answers(PyTuple_GetItem(said, 2), arguments, made, plan);
}

class Plans {
 public:
  Plans(py::Ref function, py::Ref plan, std::string_view kinds)
      : function_(std::move(function)), plan_(std::move(plan)), kinds_(kinds) {}

  PyObject* call(PyObject* const* args, std::size_t count) {
    Key key;
    bool known = count == kinds_.size();
    for (std::size_t i = 0; known && i < count; ++i) known = add(args[i], kinds_[i], key);
    if (py::interrupted()) return nullptr;
    if (!known) return itself(args, count);
    std::unique_ptr<Entry>& entry = entries_[key.hash() >> 58];
    // Another thread may replace the entry while Python runs.
    std::shared_ptr<const Plan> plan;
    if (entry != nullptr && key.are(entry->key))
      plan = entry->plan;
    else if (!learn(args, count, key, entry, plan))
      return nullptr;
    return plan == nullptr ? itself(args, count) : follow(*plan, args);
  }

 private:
  // False: what the call is of cannot be told in words, or no operator would take it.
  static bool add(PyObject* object, char kind, Key& key) {
    if (py::is_none(object) || object == py::true_object() || object == py::false_object())
      return key.put(number_of(object));
    PyTypeObject* type = py::type_of(object);
    if (!key.put(number_of(type))) return false;
    if (kind == 'v') {
      if (type != &PyLong_Type && type != &PyFloat_Type)
        return !py::has_flag(object, py::kFlagTuple) && tensor_type(type).api == nullptr && key.put(number_of(object));
      if (type == &PyFloat_Type) return key.put(std::bit_cast<std::uint64_t>(PyFloat_AsDouble(object)));
      std::int64_t value = 0;
      return py::read_integer(object, value) && key.put(static_cast<std::uint64_t>(value));
    }
    if (py::has_flag(object, py::kFlagTuple)) return false;  // a tensor without a framework
    const DLPackExchangeAPI* api = tensor_type(type).api;
    if (api == nullptr || api->dltensor_from_py_object_no_sync == nullptr) return false;
    if (kind == 'p') return true;
    TensorArg read;
    return tell_tensor(object, api, true, key, read) && vendor_of(read.device.device_type) >= 0;
  }

  PyObject* itself(PyObject* const* args, std::size_t count) const {
    const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
    return given ? PyObject_CallObject(function_.get(), given.get()) : nullptr;
  }

  // Asks Python, which sees of a tensor whose presence alone is in the key no more than that. False: it raised.
  bool learn(PyObject* const* args, std::size_t count, const Key& key, std::unique_ptr<Entry>& place,
             std::shared_ptr<const Plan>& learnt) {
    auto entry = std::make_unique<Entry>();
    entry->key = key.copy();
    const py::Ref told = py::tuple(count, [&](std::size_t i) {
      const bool hidden = kinds_[i] == 'p' && !py::is_none(args[i]);
      return py::Ref::borrow(hidden ? py::true_object() : args[i]);
    });
    const py::Ref said(told ? PyObject_CallObject(plan_.get(), told.get()) : nullptr);
    if (!said) return false;
    if (!py::is_none(said.get())) {
      const auto plan = std::make_shared<Plan>();
      if (!read_plan(said.get(), count, *plan)) {
        if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, "a plan is (makings, launches, answer), or None");
        return false;
      }
      entry->plan = learnt = plan;
    }
    for (std::size_t i = 0; i < count; ++i) {
      entry->objects.push_back(py::Ref::borrow(reinterpret_cast<PyObject*>(py::type_of(args[i]))));
      if (kinds_[i] == 'v') entry->objects.push_back(py::Ref::borrow(args[i]));
    }
    std::swap(place, entry);  // the old one goes when the new one is there: its end may run Python
    return true;
  }

  static PyObject* follow(const Plan& plan, PyObject* const* args) {
    std::array<py::Ref, kMostMade> made;
    for (std::size_t i = 0; i < plan.makings.size(); ++i) {
      made[i] = py::Ref(PyObject_Call(plan.makings[i].function.get(), plan.makings[i].arguments.get(), nullptr));
      if (!made[i]) return nullptr;
    }
    const auto object = [&](const Item& item) {
      if (item.kind == Item::Kind::Argument) return args[item.place];
      return item.kind == Item::Kind::Made ? made[item.place].get() : item.object.get();
    };
    std::array<PyObject*, kMostArguments> given;
    for (const Launch& launch : plan.launches) {
      for (std::size_t i = 0; i < launch.items.size(); ++i) given[i] = object(launch.items[i]);
      const py::Ref done(call_operator(launch.op.get(), given.data(), launch.items.size()));
      if (!done) return nullptr;
    }
    if (plan.single) return py::Ref::borrow(object(plan.answers[0])).release();
    return py::tuple(plan.answers.size(), [&](std::size_t i) { return py::Ref::borrow(object(plan.answers[i])); })
        .release();
  }

  py::Ref function_;
  py::Ref plan_;
  std::string kinds_;
  std::array<std::unique_ptr<Entry>, kEntries> entries_;
};

struct PlansObject {
  PyObject base;
  py::Vectorcall vectorcall;
  Plans* plans;
};

PyTypeObject* plans_type = nullptr;

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

PyObject* type_error(const char* problem) {
  if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, problem);
  return nullptr;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (names != nullptr && PyTuple_Size(names) != 0) return type_error("Plans takes arguments by position alone");
  return reinterpret_cast<PlansObject*>(self)->plans->call(args, count & ~py::kVectorcallOffsetFlag);
}

PyObject* tuple_call(PyObject* self, PyObject* args, PyObject* keywords) {
  if (keywords != nullptr && PyDict_Size(keywords) != 0) return type_error("Plans takes arguments by position alone");
  std::vector<PyObject*> items(static_cast<std::size_t>(PyTuple_Size(args)));
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
  return reinterpret_cast<PlansObject*>(self)->plans->call(items.data(), items.size());
}

PyObject* plans_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  std::string_view kinds;
  if ((keywords != nullptr && PyDict_Size(keywords) != 0) || PyTuple_Size(args) != 3 ||
      !py::read_text(PyTuple_GetItem(args, 2), kinds) || kinds.size() > kMostArguments ||
      kinds.find_first_not_of("tpv") != std::string_view::npos)
    return type_error(R"(Plans(function: Callable, plan: Callable, kinds: str) takes three arguments, kinds of "tpv")");
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* object = reinterpret_cast<PlansObject*>(self);
  object->plans =
      new Plans(py::Ref::borrow(PyTuple_GetItem(args, 0)), py::Ref::borrow(PyTuple_GetItem(args, 1)), kinds);
  object->vectorcall = vectorcall;
  return self;
}

void plans_dealloc(PyObject* self) {
  PyTypeObject* type = py::type_of(self);
  delete reinterpret_cast<PlansObject*>(self)->plans;
  PyObject_Free(self);
  Py_DecRef(as_object(type));
}

PyMemberDef plans_members[] = {
    {"__vectorcalloffset__", py::kMemberSsize, offsetof(PlansObject, vectorcall), py::kMemberReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot plans_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(plans_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(plans_dealloc)},
    {py::kSlotCall, reinterpret_cast<void*>(tuple_call)},
    {py::kSlotMembers, plans_members},
    {py::kSlotDoc,
     const_cast<char*>("Plans(function, plan, kinds): function(*args), remembered as calls of operators.")},
    {0, nullptr},
};

PyType_Spec plans_spec = {"aiter_prebuilt._native.Plans", sizeof(PlansObject), 0,
                          py::kFlagDefault | py::kFlagVectorcall, plans_slots};

}  // namespace

PyObject* make_plans_type() {
  if (plans_type == nullptr) plans_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plans_spec));
  if (plans_type != nullptr) Py_IncRef(as_object(plans_type));
  return as_object(plans_type);
}

}  // namespace apb
