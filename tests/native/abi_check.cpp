// Compiled, never run: the real headers and ours in one translation unit, so that a wrong declaration, number or
// offset is a compile error. Python.h declares every function of python_abi.h again, with the same types or not at all.
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <structmember.h>

#include <type_traits>

#include "python_abi.h"

using namespace apb::py;

static_assert(kApiVersion == PYTHON_API_VERSION);
static_assert(kMethVarArgs == METH_VARARGS && kMethKeywords == METH_KEYWORDS && kMethNoArgs == METH_NOARGS);
static_assert(kMethO == METH_O && kMethFastCall == METH_FASTCALL);
static_assert(kFlagLong == Py_TPFLAGS_LONG_SUBCLASS && kFlagTuple == Py_TPFLAGS_TUPLE_SUBCLASS);
static_assert(kFlagList == Py_TPFLAGS_LIST_SUBCLASS && kFlagUnicode == Py_TPFLAGS_UNICODE_SUBCLASS);
static_assert((kFlagDefault & Py_TPFLAGS_DEFAULT) == Py_TPFLAGS_DEFAULT);
#ifdef Py_TPFLAGS_HAVE_VECTORCALL
static_assert(kFlagVectorcall == Py_TPFLAGS_HAVE_VECTORCALL);
#endif
static_assert(kSlotCall == Py_tp_call && kSlotDealloc == Py_tp_dealloc && kSlotDoc == Py_tp_doc);
static_assert(kSlotMethods == Py_tp_methods && kSlotNew == Py_tp_new && kSlotMembers == Py_tp_members);
static_assert(kSlotGetSet == Py_tp_getset && kModuleExec == Py_mod_exec);
static_assert(kSlotDescriptorGet == Py_tp_descr_get && std::is_same_v<DescriptorGet, descrgetfunc>);
static_assert(kMemberSsize == T_PYSSIZET && kMemberReadOnly == READONLY);

// The structs that python_abi.h declares where Python.h is absent, with its own names for their fields.
static_assert(sizeof(PyObject) == 16 && offsetof(PyObject, ob_type) == 8);
static_assert(sizeof(PyMethodDef) == 32 && offsetof(PyMethodDef, ml_flags) == 16);
static_assert(sizeof(PyMemberDef) == 40 && offsetof(PyMemberDef, offset) == 16 && offsetof(PyMemberDef, doc) == 32);
static_assert(sizeof(PyGetSetDef) == 40 && offsetof(PyGetSetDef, closure) == 32);
static_assert(sizeof(PyModuleDef_Base) == 40 && sizeof(PyModuleDef_Slot) == 16);
static_assert(sizeof(PyModuleDef) == 104 && offsetof(PyModuleDef, m_slots) == 72);
static_assert(sizeof(PyType_Slot) == 16 && sizeof(PyType_Spec) == 32 && offsetof(PyType_Spec, slots) == 24);
