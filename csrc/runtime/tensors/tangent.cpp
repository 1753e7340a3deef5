#include "tensors/tangent.h"

namespace apb {

namespace {

constexpr std::string_view kModule = "torch.autograd.forward_ad";

// All three live as long as the process. The level is a global of torch's module, -1 outside of every level: a small int, of
// which CPython has one object.
PyObject* module_names = nullptr;
PyObject* level_name = nullptr;
PyObject* no_level = nullptr;

py::Ref forward_mode() {
  const py::Ref name(py::text(kModule));
  return py::Ref(name ? PyImport_GetModule(name.get()) : nullptr);
}

}  // namespace

void find_dual_levels() {
  if (module_names != nullptr) return;
  const py::Ref module(forward_mode());
  py::Ref name(py::text("_current_level"));
  py::Ref outside(PyLong_FromLongLong(-1));
  if (module && name && outside) {
    level_name = name.release();
    no_level = outside.release();
    module_names = py::Ref::borrow(PyModule_GetDict(module.get())).release();
  }
  py::clear_ordinary();
}

bool tangents_matter() {
  if (module_names == nullptr) return false;
  const PyObject* level = PyDict_GetItemWithError(module_names, level_name);
  return level != nullptr && level != no_level;
}

bool carries_tangent(PyObject* object) {
  if (py::is_none(object) || py::has_flag(object, py::kFlagTuple)) return false;
  const py::Ref module(forward_mode());
  const py::Ref unpack(module ? PyObject_GetAttrString(module.get(), "unpack_dual") : nullptr);
  const py::Ref given(unpack ? py::tuple(1, [&](std::size_t) { return py::Ref::borrow(object); }) : py::Ref());
  const py::Ref unpacked(given ? PyObject_CallObject(unpack.get(), given.get()) : nullptr);
  const py::Ref tangent(unpacked ? PyObject_GetAttrString(unpacked.get(), "tangent") : nullptr);
  py::clear_ordinary();  // no tensor of torch's
  return tangent && !py::is_none(tangent.get());
}

bool refuse_tangent(std::string_view op, std::string_view argument, Error& error) {
  return error.set(
      ErrorKind::Unsupported, cat(op, "(forward-mode AD)"),
      cat(argument, " carries a tangent, and no prebuilt kernel covers it: there is no forward derivative"),
      "Pass its primal (torch.autograd.forward_ad.unpack_dual), and compute the tangent in torch operations");
}

}  // namespace apb
