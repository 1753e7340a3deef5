#include "python/operator_type.h"

#include <cstddef>

#include "call/operator.h"

namespace apb {
namespace {

// One that views its tensors has the Operator of another, `owner`.
struct OperatorObject {
  PyObject base;
  py::Vectorcall vectorcall;
  Operator* op;
  PyObject* owner;
  PyObject* said;  // what the views were made of; null without
  const std::vector<View>* views;
};

PyTypeObject* operator_type = nullptr;

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }
Operator& self_operator(PyObject* self) { return *reinterpret_cast<OperatorObject*>(self)->op; }
const std::vector<View>* views_of(PyObject* self) { return reinterpret_cast<OperatorObject*>(self)->views; }

// For calls that are not hot: an operator without views has no views to make.
class AnyViewing : public Viewing {
 public:
  explicit AnyViewing(PyObject* self)
      : Viewing(views_of(self) == nullptr ? none() : *views_of(self), reinterpret_cast<OperatorObject*>(self)->said) {}

 private:
  static const std::vector<View>& none() {
    static const std::vector<View> empty;
    return empty;
  }
};

PyObject* type_error(const char* problem) {
  if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, problem);
  return nullptr;
}

PyObject* keyword_error(PyObject* self) {
  Error error;
  error.set(ErrorKind::ArgumentCount, self_operator(self).name(), "it has keyword arguments other than stream",
            "Pass everything by position; stream= is the only keyword");
  return py::raise(error);
}

bool is_stream(PyObject* name) {
  std::string_view text;
  return py::read_text(name, text) && text == "stream";
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const std::size_t positional = count & ~py::kVectorcallOffsetFlag;
  PyObject* stream = nullptr;
  if (names != nullptr) {
    const Py_ssize_t keywords = PyTuple_Size(names);
    if (keywords > 1 || (keywords == 1 && !is_stream(PyTuple_GetItem(names, 0)))) return keyword_error(self);
    if (keywords == 1) stream = args[positional];
  }
  const std::vector<View>* views = views_of(self);
  if (views == nullptr) return self_operator(self).call(args, positional, stream);
  Viewing viewing(*views, reinterpret_cast<OperatorObject*>(self)->said);
  return self_operator(self).call(args, positional, stream, &viewing);
}

std::vector<PyObject*> borrow_all(PyObject* tuple) {
  std::vector<PyObject*> items(static_cast<std::size_t>(PyTuple_Size(tuple)));
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i));
  return items;
}

// For callers that come with a tuple and a dict: op(*args, **keywords) in C code older than vectorcall.
PyObject* tuple_call(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* stream = nullptr;
  if (keywords != nullptr) {
    Py_ssize_t at = 0;
    PyObject* name = nullptr;
    while (PyDict_Next(keywords, &at, &name, &stream) != 0) {
      if (!is_stream(name)) return keyword_error(self);
    }
  }
  const std::vector<PyObject*> items = borrow_all(args);
  AnyViewing viewing(self);
  return self_operator(self).call(items.data(), items.size(), stream, &viewing);
}

PyObject* operator_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  std::string_view name;
  const bool named = keywords != nullptr && PyDict_Size(keywords) != 0;
  const Py_ssize_t count = PyTuple_Size(args);
  if (named || count < 2 || count > 4 || !py::read_text(PyTuple_GetItem(args, 0), name)) {
    return type_error(
        "Operator(name: str, resolve: Callable, names: Callable, restated: Callable) takes two to four arguments");
  }
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* object = reinterpret_cast<OperatorObject*>(self);
  object->op = new Operator(std::string(name), py::Ref::borrow(PyTuple_GetItem(args, 1)),
                            count > 2 ? py::Ref::borrow(PyTuple_GetItem(args, 2)) : py::Ref(),
                            count > 3 ? py::Ref::borrow(PyTuple_GetItem(args, 3)) : py::Ref());
  object->vectorcall = vectorcall;
  return self;
}

void operator_dealloc(PyObject* self) {
  PyTypeObject* type = py::type_of(self);
  const auto* object = reinterpret_cast<OperatorObject*>(self);
  if (object->owner == nullptr) delete object->op;
  if (object->owner != nullptr) Py_DecRef(object->owner);
  if (object->said != nullptr) Py_DecRef(object->said);
  delete object->views;
  PyObject_Free(self);
  Py_DecRef(as_object(type));
}

// tensors and attributes, one behind the other; the references live as long as `keep`.
bool gather(PyObject* tensors, PyObject* attributes, std::vector<py::Ref>& keep, std::vector<PyObject*>& out) {
  for (PyObject* part : {tensors, attributes}) {
    if (py::is_none(part)) continue;
    keep.emplace_back(PySequence_Tuple(part));
    if (!keep.back()) return false;
    for (PyObject* item : borrow_all(keep.back().get())) out.push_back(item);
  }
  return true;
}

PyObject* explain(PyObject* self, PyObject* args) {
  std::int64_t compute_units = 0;
  const Py_ssize_t given = PyTuple_Size(args);
  if ((given != 4 && given != 5) || !py::read_integer(PyTuple_GetItem(args, 1), compute_units)) {
    return type_error("explain(bundles, cus, tensors, attributes, tuned=()) takes four or five arguments");
  }
  std::vector<py::Ref> keep;
  std::vector<PyObject*> items;
  if (!gather(PyTuple_GetItem(args, 2), PyTuple_GetItem(args, 3), keep, items)) return nullptr;
  AnyViewing viewing(self);
  return self_operator(self).explain(PyTuple_GetItem(args, 0), compute_units,
                                     given == 5 ? PyTuple_GetItem(args, 4) : nullptr, items.data(), items.size(),
                                     &viewing);
}

PyObject* preload(PyObject* self, PyObject* args) {
  std::string_view name;
  std::int32_t ordinal = 0;
  const Py_ssize_t count = PyTuple_Size(args);
  if (count < 2 || count > 4 || !py::read_text(PyTuple_GetItem(args, 0), name) ||
      !py::read_ordinal(PyTuple_GetItem(args, 1), ordinal)) {
    return type_error("preload(vendor, ordinal, tensors=None, attributes=None)");
  }
  const bool amd = name == kVendors[0];
  if (!amd && name != kVendors[1]) return type_error("vendor must be 'amd' or 'nvidia'");
  const Vendor vendor = amd ? Vendor::Amd : Vendor::Nvidia;
  if (count == 2 || py::is_none(PyTuple_GetItem(args, 2))) {
    return self_operator(self).preload(vendor, ordinal, nullptr, 0, nullptr);
  }
  std::vector<py::Ref> keep;
  std::vector<PyObject*> items;
  if (!gather(PyTuple_GetItem(args, 2), count == 4 ? PyTuple_GetItem(args, 3) : py::none(), keep, items))
    return nullptr;
  items.reserve(1);  // data() must not be null: that means "everything"
  AnyViewing viewing(self);
  return self_operator(self).preload(vendor, ordinal, items.data(), items.size(), &viewing);
}

PyObject* viewing(PyObject* self, PyObject* views) {
  std::vector<View> read;
  std::string problem;
  if (!read_views(views, read, problem)) return type_error(problem.c_str());
  PyObject* made = PyType_GenericAlloc(operator_type, 0);
  if (made == nullptr) return nullptr;
  auto* object = reinterpret_cast<OperatorObject*>(made);
  object->vectorcall = vectorcall;
  object->op = reinterpret_cast<OperatorObject*>(self)->op;
  PyObject* owner = reinterpret_cast<OperatorObject*>(self)->owner;
  object->owner = owner == nullptr ? self : owner;
  Py_IncRef(object->owner);
  object->said = views;
  Py_IncRef(views);
  object->views = new std::vector<View>(std::move(read));
  return made;
}

PyObject* stats(PyObject* self, PyObject*) { return self_operator(self).stats(); }

PyObject* get_name(PyObject* self, void*) { return py::text(self_operator(self).name()).release(); }

PyObject* get_views(PyObject* self, void*) {
  PyObject* said = reinterpret_cast<OperatorObject*>(self)->said;
  if (said == nullptr) return PyTuple_New(0);
  Py_IncRef(said);
  return said;
}

PyMethodDef operator_methods[] = {
    {"explain", explain, py::kMethVarArgs,
     "explain(bundles, cus, tensors, attributes, tuned=()) -> list of decisions."},
    {"preload", preload, py::kMethVarArgs,
     "preload(vendor, ordinal, tensors=None, attributes=None): load, launch nothing."},
    {"viewing", viewing, py::kMethO,
     "viewing(views) -> Operator: the same one, called with tensors that it sees otherwise."},
    {"stats", stats, py::kMethNoArgs,
     "stats() -> dict: calls, memo_hits, memo_size, selections, launches, modules_loaded."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef operator_members[] = {
    {"__vectorcalloffset__", py::kMemberSsize, offsetof(OperatorObject, vectorcall), py::kMemberReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef operator_getset[] = {
    {"name", get_name, nullptr, "AITER's name of the operator.", nullptr},
    {"views", get_views, nullptr, "How it sees its tensors.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot operator_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(operator_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(operator_dealloc)},
    {py::kSlotCall, reinterpret_cast<void*>(tuple_call)},
    {py::kSlotMethods, operator_methods},
    {py::kSlotMembers, operator_members},
    {py::kSlotGetSet, operator_getset},
    {py::kSlotDoc,
     const_cast<char*>(
         "Operator(name, resolve, names, restated): call it with tensors, then attributes, by position.")},
    {0, nullptr},
};

PyType_Spec operator_spec = {"aiter_prebuilt._native.Operator", sizeof(OperatorObject), 0,
                             py::kFlagDefault | py::kFlagVectorcall, operator_slots};

}  // namespace

PyObject* make_operator_type() {
  if (operator_type == nullptr) operator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&operator_spec));
  if (operator_type != nullptr) Py_IncRef(as_object(operator_type));
  return as_object(operator_type);
}

bool is_operator(PyObject* object) { return operator_type != nullptr && py::type_of(object) == operator_type; }

PyObject* call_operator(PyObject* op, PyObject* const* args, std::size_t count) {
  return vectorcall(op, args, count, nullptr);
}

void fix_arguments(PyObject* op, PyObject* const* args, std::size_t count, FixedArguments& out) {
  self_operator(op).fix(args, count, out);
}

Done call_operator_read(PyObject* op, std::span<const TensorArg* const> tensors, const FixedArguments& fixed,
                        const DLPackExchangeAPI* api, KnownLaunch* known) {
  const std::vector<View>* views = views_of(op);
  if (views == nullptr) return self_operator(op).call_read(tensors, fixed, api, nullptr, known);
  Viewing viewing(*views);
  return self_operator(op).call_read(tensors, fixed, api, &viewing, known);
}

}  // namespace apb
