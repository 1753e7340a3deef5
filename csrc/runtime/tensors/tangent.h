// One policy for every operator: none has a forward derivative, so a tensor that carries a tangent of torch's forward-mode AD is
// refused, in the words of UnsupportedError. A result without its tangent would be wrong without saying so.
#pragma once

#include "errors.h"
#include "python_glue.h"

namespace apb {

// Looks for torch's forward-mode AD; called when a tensor type is first seen.
void find_dual_levels();

// Is a dual level entered? One lookup in a dict. False before a tensor type was seen, and where there is no torch.
bool tangents_matter();

// Does this argument carry a tangent? The slow way: asked only inside a dual level.
bool carries_tangent(PyObject* object);

// Sets the error; `argument` is its name in the signature. Returns false.
bool refuse_tangent(std::string_view op, std::string_view argument, Error& error);

}  // namespace apb
