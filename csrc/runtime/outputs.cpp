#include "outputs.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "call_words.h"

namespace apb {
namespace {

constexpr std::size_t kEntries = 64;  // a model's layers need a few; a stream of new shapes replaces them in turn
constexpr std::size_t kMostWords = 96;
constexpr std::size_t kMostArguments = 8;

// Of a tensor its type, element type, device and shape; an int's value; of all else which object.
using Key = CallWords<kMostWords>;

// False: what is asked for cannot be told in words.
bool add(PyObject* object, Key& key) {
  if (py::is_none(object) || object == py::true_object() || object == py::false_object())
    return key.put(number_of(object));
  PyTypeObject* type = py::type_of(object);
  if (!key.put(number_of(type))) return false;
  if (type == &PyLong_Type) {
    std::int64_t value = 0;
    return py::read_integer(object, value) && key.put(static_cast<std::uint64_t>(value));
  }
  if (py::has_flag(object, py::kFlagTuple)) return false;  // a tensor without a framework
  const DLPackExchangeAPI* api = tensor_type(type).api;
  if (api == nullptr) return key.put(number_of(object));
  TensorArg read;
  return api->dltensor_from_py_object_no_sync != nullptr && tell_tensor(object, api, false, key, read);
}

struct Entry {
  std::vector<std::uint64_t> key;
  std::vector<py::Ref> objects;  // whose addresses stand in the key
  py::Ref function;
  py::Ref arguments;    // a tuple with a tuple of arguments for each output, or with what stays as it is
  bool single = false;  // one output, in no tuple
};

class Outputs {
 public:
  Outputs(py::Ref make, py::Ref keep) : make_(std::move(make)), keep_(std::move(keep)) {}

  PyObject* call(PyObject* const* args, std::size_t count) {
    Key key;
    bool known = count <= kMostArguments;
    for (std::size_t i = 0; known && i < count; ++i) known = add(args[i], key);
    if (py::interrupted()) return nullptr;
    if (!known) return learn(args, count, nullptr, nullptr);
    std::unique_ptr<Entry>& entry = entries_[key.hash() >> 58];
    if (entry == nullptr || !key.are(entry->key)) return learn(args, count, &key, &entry);
    // Another thread may replace the entry while Python runs.
    const py::Ref function = py::Ref::borrow(entry->function.get());
    const py::Ref arguments = py::Ref::borrow(entry->arguments.get());
    if (entry->single) return PyObject_Call(function.get(), PyTuple_GetItem(arguments.get(), 0), nullptr);
    return fresh(function.get(), arguments.get());
  }

 private:
  // The items again: those that are tuples by calling `function` with what is in them, all others as they are.
  static PyObject* fresh(PyObject* function, PyObject* items) {
    return py::tuple(static_cast<std::size_t>(PyTuple_Size(items)),
                     [&](std::size_t i) {
                       PyObject* item = PyTuple_GetItem(items, static_cast<Py_ssize_t>(i));
                       return py::has_flag(item, py::kFlagTuple) ? py::Ref(PyObject_Call(function, item, nullptr))
                                                                 : py::Ref::borrow(item);
                     })
        .release();
  }

  // Asks Python: make(*args) -> the outputs; keep(outputs) -> None, or (function, ((its arguments for an output) or what is
  // no output, ...)).
  PyObject* learn(PyObject* const* args, std::size_t count, const Key* key, std::unique_ptr<Entry>* place) {
    const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
    py::Ref made(given ? PyObject_CallObject(make_.get(), given.get()) : nullptr);
    if (!made || key == nullptr) return made.release();
    const py::Ref one = py::tuple(1, [&](std::size_t) { return py::Ref::borrow(made.get()); });
    const py::Ref kept(one ? PyObject_CallObject(keep_.get(), one.get()) : nullptr);
    if (!kept) return nullptr;
    if (!py::has_flag(kept.get(), py::kFlagTuple) || PyTuple_Size(kept.get()) != 2) return made.release();
    auto entry = std::make_unique<Entry>();
    entry->key = key->copy();
    for (std::size_t i = 0; i < count; ++i) {
      entry->objects.push_back(py::Ref::borrow(reinterpret_cast<PyObject*>(py::type_of(args[i]))));
      if (tensor_type(py::type_of(args[i])).api == nullptr) entry->objects.push_back(py::Ref::borrow(args[i]));
    }
    entry->function = py::Ref::borrow(PyTuple_GetItem(kept.get(), 0));
    entry->arguments = py::Ref::borrow(PyTuple_GetItem(kept.get(), 1));
    entry->single = !py::has_flag(made.get(), py::kFlagTuple);
    std::swap(*place, entry);  // the old one goes when the new one is there: its end may run Python
    return made.release();
  }

  py::Ref make_;
  py::Ref keep_;
  std::array<std::unique_ptr<Entry>, kEntries> entries_;
};

struct OutputsObject {
  PyObject base;
  py::Vectorcall vectorcall;
  Outputs* outputs;
};

PyTypeObject* outputs_type = nullptr;

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

PyObject* type_error(const char* problem) {
  if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, problem);
  return nullptr;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (names != nullptr && PyTuple_Size(names) != 0) return type_error("Outputs takes arguments by position alone");
  return reinterpret_cast<OutputsObject*>(self)->outputs->call(args, count & ~py::kVectorcallOffsetFlag);
}

PyObject* tuple_call(PyObject* self, PyObject* args, PyObject* keywords) {
  if (keywords != nullptr && PyDict_Size(keywords) != 0) return type_error("Outputs takes arguments by position alone");
  std::vector<PyObject*> items(static_cast<std::size_t>(PyTuple_Size(args)));
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
  return reinterpret_cast<OutputsObject*>(self)->outputs->call(items.data(), items.size());
}

PyObject* outputs_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  if ((keywords != nullptr && PyDict_Size(keywords) != 0) || PyTuple_Size(args) != 2)
    return type_error("Outputs(make: Callable, keep: Callable) takes two arguments");
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* object = reinterpret_cast<OutputsObject*>(self);
  object->outputs = new Outputs(py::Ref::borrow(PyTuple_GetItem(args, 0)), py::Ref::borrow(PyTuple_GetItem(args, 1)));
  object->vectorcall = vectorcall;
  return self;
}

void outputs_dealloc(PyObject* self) {
  PyTypeObject* type = py::type_of(self);
  delete reinterpret_cast<OutputsObject*>(self)->outputs;
  PyObject_Free(self);
  Py_DecRef(as_object(type));
}

PyMemberDef outputs_members[] = {
    {"__vectorcalloffset__", py::kMemberSsize, offsetof(OutputsObject, vectorcall), py::kMemberReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot outputs_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(outputs_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(outputs_dealloc)},
    {py::kSlotCall, reinterpret_cast<void*>(tuple_call)},
    {py::kSlotMembers, outputs_members},
    {py::kSlotDoc, const_cast<char*>("Outputs(make, keep): make(*args), remembered by what the arguments are.")},
    {0, nullptr},
};

PyType_Spec outputs_spec = {"aiter_prebuilt._native.Outputs", sizeof(OutputsObject), 0,
                            py::kFlagDefault | py::kFlagVectorcall, outputs_slots};

}  // namespace

PyObject* make_outputs_type() {
  if (outputs_type == nullptr) outputs_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&outputs_spec));
  if (outputs_type != nullptr) Py_IncRef(as_object(outputs_type));
  return as_object(outputs_type);
}

}  // namespace apb
