#include "bundle/bundle_type.h"

#include "python_glue.h"

namespace apb {
namespace {

struct BundleObject {
  PyObject base;
  Bundle* bundle;
};

PyTypeObject* bundle_type = nullptr;

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

PyObject* bundle_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  std::string_view path;
  const bool named = keywords != nullptr && PyDict_Size(keywords) != 0;
  if (named || PyTuple_Size(args) != 1 || !py::read_text(PyTuple_GetItem(args, 0), path)) {
    PyErr_SetString(PyExc_TypeError, "Bundle(path: str) takes one path");
    return nullptr;
  }
  auto bundle = std::make_unique<Bundle>();
  Error error;
  if (!bundle->open(std::string(path), error)) return py::raise(error);
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self != nullptr) reinterpret_cast<BundleObject*>(self)->bundle = bundle.release();
  return self;
}

void bundle_dealloc(PyObject* self) {
  PyTypeObject* type = py::type_of(self);
  delete reinterpret_cast<BundleObject*>(self)->bundle;
  PyObject_Free(self);
  Py_DecRef(as_object(type));
}

const Bundle& self_bundle(PyObject* self) { return *reinterpret_cast<BundleObject*>(self)->bundle; }

PyObject* get_path(PyObject* self, void*) { return py::text(self_bundle(self).path()).release(); }

using RootText = layout::Text layout::Root::*;

template <RootText Field>
PyObject* get_text(PyObject* self, void*) {
  const Bundle& bundle = self_bundle(self);
  return py::text(bundle.text(bundle.root().*Field)).release();
}

PyObject* get_vendor(PyObject* self, void*) { return py::text(kVendors[self_bundle(self).root().vendor]).release(); }

PyObject* get_entry_count(PyObject* self, void*) { return py::integer(self_bundle(self).root().entry_count).release(); }

PyObject* get_tree(PyObject* self, void*) { return py::text(self_bundle(self).tree()).release(); }

PyObject* get_header(PyObject* self, void*) {
  const std::string_view header = self_bundle(self).header();
  return PyBytes_FromStringAndSize(header.data(), static_cast<Py_ssize_t>(header.size()));
}

PyObject* get_names(PyObject* self, void*) {
  const auto names = self_bundle(self).names();
  return py::tuple(names.size(), [&](std::size_t i) { return py::text(names[i]); }).release();
}

PyGetSetDef bundle_getset[] = {
    {"path", get_path, nullptr, "The file.", nullptr},
    {"target", get_text<&layout::Root::target>, nullptr, "What the code objects run on: gfx942, gfx950, sm_90.",
     nullptr},
    {"profile", get_text<&layout::Root::profile>, nullptr,
     "ck-free or ck-full; of an own bundle with the tree behind it: ck-free.acme.", nullptr},
    {"tree", get_tree, nullptr, "The name of the tree of an own bundle; empty for the product.", nullptr},
    {"distribution", get_text<&layout::Root::distribution>, nullptr, "The wheel that owns the file.", nullptr},
    {"version", get_text<&layout::Root::version>, nullptr, "The wheel's version.", nullptr},
    {"provenance", get_text<&layout::Root::provenance>, nullptr, "JSON: tools and their versions.", nullptr},
    {"vendor", get_vendor, nullptr, "amd or nvidia.", nullptr},
    {"entry_count", get_entry_count, nullptr, "Launchable kernels in it.", nullptr},
    {"header", get_header, nullptr, "The first 128 bytes, as they were when the file was opened.", nullptr},
    {"names", get_names, nullptr, "Operator names, sorted.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot bundle_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(bundle_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(bundle_dealloc)},
    {py::kSlotGetSet, bundle_getset},
    {py::kSlotDoc, const_cast<char*>("Bundle(path): a bundle file, open; header and root are checked.")},
    {0, nullptr},
};

PyType_Spec bundle_spec = {"aiter_prebuilt._native.Bundle", sizeof(BundleObject), 0, py::kFlagDefault, bundle_slots};

}  // namespace

PyObject* make_bundle_type() {
  if (bundle_type == nullptr) bundle_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&bundle_spec));
  if (bundle_type != nullptr) Py_IncRef(as_object(bundle_type));
  return as_object(bundle_type);
}

Bundle* bundle_of(PyObject* object) {
  // The type is final (no BASETYPE flag), so identity is the whole test.
  return py::type_of(object) == bundle_type ? reinterpret_cast<BundleObject*>(object)->bundle : nullptr;
}

}  // namespace apb
