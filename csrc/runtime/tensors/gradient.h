// One policy for every operator: none has a backward, so a tensor that asks for a gradient is refused while torch records
// gradients, in the words of UnsupportedError. A result without its gradient would be wrong without saying so. Public functions
// that have a backward (contract/gradients.py) catch the refusal, so that a call without gradients pays nothing for it.
#pragma once

#include "errors.h"
#include "python_glue.h"

namespace apb {

// Does torch record gradients now? Its C function (torch's stable ABI for compiled models has it), a few ns; null before a type
// that can ask for a gradient was seen, and where that torch has no such function.
using GradMode = bool (*)();
extern GradMode grad_mode;

// False: whatever the tensors of a call ask for, it is not recorded. So it is in every server that calls under
// torch.inference_mode() or torch.no_grad(), and nothing more is asked there.
inline bool gradients_matter() { return grad_mode == nullptr || grad_mode(); }

// The way to ask a tensor type for `requires_grad`: the descriptor of the class and its tp_descr_get, called without a lookup.
// Null where the class has no such descriptor: its tensors require no gradient.
struct GradientQuestion {
  PyObject* descriptor = nullptr;  // kept alive
  py::DescriptorGet get = nullptr;
};
GradientQuestion find_gradient_question(PyTypeObject* type);  // finds `grad_mode` too

inline bool asks_gradient(const GradientQuestion& question, PyObject* object) {
  if (question.get == nullptr) return false;
  PyObject* answer = question.get(question.descriptor, object, reinterpret_cast<PyObject*>(py::type_of(object)));
  const bool asks = answer != py::false_object();  // an exception too: grad mode then decides
  if (answer != nullptr)
    Py_DecRef(answer);
  else
    py::clear_ordinary();
  return asks;
}

// Any argument of a call, the slow way: raw tuples and None ask for nothing.
bool argument_asks_gradient(PyObject* object);

// torch.is_grad_enabled() of the torch that is loaded, whatever its version; false where there is none. Asked only when a tensor
// asks for a gradient.
bool gradients_recorded();

// Sets the error; `argument` is its name in the signature. Returns false.
bool refuse_gradient(std::string_view op, std::string_view argument, Error& error);

}  // namespace apb
