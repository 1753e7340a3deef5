// Compiled, never run: python_abi.h alone must give the same sizes that abi_check.cpp sees in the real header.
#include "python_abi.h"

static_assert(sizeof(PyObject) == 16 && offsetof(PyObject, ob_type) == 8);
static_assert(sizeof(PyMethodDef) == 32 && offsetof(PyMethodDef, ml_flags) == 16);
static_assert(sizeof(PyMemberDef) == 40 && offsetof(PyMemberDef, offset) == 16 && offsetof(PyMemberDef, doc) == 32);
static_assert(sizeof(PyGetSetDef) == 40 && offsetof(PyGetSetDef, closure) == 32);
static_assert(sizeof(PyModuleDef_Base) == 40 && sizeof(PyModuleDef_Slot) == 16);
static_assert(sizeof(PyModuleDef) == 104 && offsetof(PyModuleDef, m_slots) == 72);
static_assert(sizeof(PyType_Slot) == 16 && sizeof(PyType_Spec) == 32 && offsetof(PyType_Spec, slots) == 24);
