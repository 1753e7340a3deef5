#include "python/outputs.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "call/call_key.h"
#include "tensors/output_alloc.h"

namespace apb {
namespace {

constexpr std::size_t kMostWords = 96;
constexpr std::size_t kMostArguments = 8;

// The key of a call. Of a tensor it has the type, element type, device and shape; of an int the value; of all else the object.
using Key = CallKey<kMostWords>;

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
  CallContext unused;
  if (read_for_words(object, read, unused)) return tell_tensor(read, false, key);
  py::clear_ordinary();
  return false;
}

// An allocation, or what stays as it is.
struct Output {
  OutputAllocation allocation;
  py::Ref same;

  py::Ref again() const { return same ? py::Ref::borrow(same.get()) : allocation.make(); }
};

struct Made {
  std::vector<Output> outputs;
  bool single = false;  // one output, in no tuple

  PyObject* again() const {
    if (single) return outputs.front().again().release();
    return py::tuple(outputs.size(), [&](std::size_t i) { return outputs[i].again(); }).release();
  }
};

struct Entry {
  std::vector<std::uint64_t> key;
  std::vector<py::Ref> objects;  // whose addresses stand in the key
  std::shared_ptr<const Made> made;
};

// ((function, arguments), or what stays, ...): a tuple of two and more that begins with a function is an allocation.
bool read_made(PyObject* said, Made& made) {
  if (!py::has_flag(said, py::kFlagTuple)) return false;
  made.outputs.resize(static_cast<std::size_t>(PyTuple_Size(said)));
  for (std::size_t i = 0; i < made.outputs.size(); ++i) {
    PyObject* item = PyTuple_GetItem(said, static_cast<Py_ssize_t>(i));
    if (!py::has_flag(item, py::kFlagTuple))
      made.outputs[i].same = py::Ref::borrow(item);
    else if (!read_allocation(item, made.outputs[i].allocation))
      return false;
  }
  return !made.outputs.empty() || !made.single;
}

class Outputs {
 public:
  Outputs(py::Ref make, py::Ref keep) : make_(std::move(make)), keep_(std::move(keep)) {}

  PyObject* make() const { return make_.get(); }

  PyObject* call(PyObject* const* args, std::size_t count) {
    Key key;
    key.count = 0;
    bool known = count <= kMostArguments;
    for (std::size_t i = 0; known && i < count; ++i) known = add(args[i], key);
    if (py::interrupted()) return nullptr;
    if (!known) return learn(args, count, nullptr);
    // Another thread may replace an entry while Python runs.
    const std::unique_ptr<Entry>& guess = entries_.guess();
    if (guess != nullptr && key.are(guess->key)) {
      entries_.guessed();
      const std::shared_ptr<const Made> made = guess->made;
      return made->again();
    }
    const std::unique_ptr<Entry>* found = entries_.find(key);
    if (found == nullptr) return learn(args, count, &key);
    const std::shared_ptr<const Made> made = (*found)->made;
    return made->again();
  }

 private:
  // Asks Python: make(*args) -> the outputs; keep(outputs) -> None, or for each what makes it again, or what stays.
  PyObject* learn(PyObject* const* args, std::size_t count, const Key* key) {
    const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
    py::Ref made(given ? PyObject_CallObject(make_.get(), given.get()) : nullptr);
    if (!made || key == nullptr) return made.release();
    const py::Ref one = py::tuple(1, [&](std::size_t) { return py::Ref::borrow(made.get()); });
    const py::Ref kept(one ? PyObject_CallObject(keep_.get(), one.get()) : nullptr);
    if (!kept) return nullptr;
    const auto again = std::make_shared<Made>();
    again->single = !py::has_flag(made.get(), py::kFlagTuple);
    if (!read_made(kept.get(), *again)) return py::interrupted() ? nullptr : made.release();
    auto entry = std::make_unique<Entry>();
    entry->key = key->copy();
    for (std::size_t i = 0; i < count; ++i) {
      entry->objects.push_back(py::Ref::borrow(reinterpret_cast<PyObject*>(py::type_of(args[i]))));
      if (tensor_type(py::type_of(args[i])).api == nullptr) entry->objects.push_back(py::Ref::borrow(args[i]));
    }
    entry->made = again;
    const std::unique_ptr<Entry> replaced = entries_.keep(*key, std::move(entry));  // goes when the new one is there
    return made.release();
  }

  py::Ref make_;
  py::Ref keep_;
  Remembered<std::unique_ptr<Entry>> entries_;
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

PyObject* get_make(PyObject* self, void*) {
  return py::Ref::borrow(reinterpret_cast<OutputsObject*>(self)->outputs->make()).release();
}

PyGetSetDef outputs_getset[] = {
    {"make", get_make, nullptr, "What it remembers the calls of.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef outputs_members[] = {
    {"__vectorcalloffset__", py::kMemberSsize, offsetof(OutputsObject, vectorcall), py::kMemberReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot outputs_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(outputs_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(outputs_dealloc)},
    {py::kSlotCall, reinterpret_cast<void*>(tuple_call)},
    {py::kSlotMembers, outputs_members},
    {py::kSlotGetSet, outputs_getset},
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
