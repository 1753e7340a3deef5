#include "tensors/gradient.h"

#include <dlfcn.h>

#include "tensors/tangent.h"
#include "tensors/tensor.h"
#include "tensors/tensor_fallback.h"

namespace apb {

GradMode grad_mode = nullptr;

namespace {

// The library is in the process already, or there is no torch.
GradMode find_grad_mode() {
  void* library = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<GradMode>(::dlsym(library, "aoti_torch_grad_mode_is_enabled"));
}

}  // namespace

GradientQuestion find_gradient_question(PyTypeObject* type) {
  // A descriptor that is asked for on the class gives itself.
  py::Ref found(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "requires_grad"));
  if (!found) {
    py::clear_ordinary();
    return {};
  }
  auto* get = PyType_GetSlot(py::type_of(found.get()), py::kSlotDescriptorGet);
  if (get == nullptr) return {};
  if (grad_mode == nullptr) grad_mode = find_grad_mode();
  find_dual_levels();
  return {found.release(), reinterpret_cast<py::DescriptorGet>(get)};
}

bool argument_asks_gradient(PyObject* object) {
  if (py::is_none(object) || py::has_flag(object, py::kFlagTuple)) return false;
  const TensorType& type = tensor_type(py::type_of(object));
  return type.api != nullptr ? asks_gradient(type.gradient, object) : attribute_is_true(object, "requires_grad");
}

bool gradients_recorded() {
  const py::Ref name = py::text("torch");
  const py::Ref torch(name ? PyImport_GetModule(name.get()) : nullptr);
  const py::Ref ask(torch ? PyObject_GetAttrString(torch.get(), "is_grad_enabled") : nullptr);
  const py::Ref answer(ask ? PyObject_CallObject(ask.get(), nullptr) : nullptr);
  py::clear_ordinary();
  return torch && answer.get() != py::false_object();  // a torch that cannot say counts as one that records
}

bool refuse_gradient(std::string_view op, std::string_view argument, Error& error) {
  return error.set(ErrorKind::Unsupported, cat(op, "(requires_grad=True)"),
                   cat(argument, " requires a gradient, and no prebuilt kernel covers it: there is no backward"),
                   "Pass it detached (.detach()), or call it under torch.no_grad() or torch.inference_mode()");
}

}  // namespace apb
