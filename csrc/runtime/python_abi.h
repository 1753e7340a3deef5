// The part of CPython's stable ABI that the extension uses, version 3.10 (PEP 384, Doc/data/stable_abi.dat). It is declared here
// so that building needs no Python.h: one binary serves every CPython from 3.10 on. tests/native/abi_check.cpp includes the real
// header and this one together, so that a wrong declaration does not compile.
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): CPython's own names
#ifndef Py_PYTHON_H  // the real header is not there: the structs of the stable ABI, as 3.10 froze them

using Py_ssize_t = std::ptrdiff_t;

extern "C" {

struct _typeobject;
using PyTypeObject = _typeobject;
struct _longobject;
struct _ts;
using PyThreadState = _ts;

// Only ob_type is read; the count belongs to Py_IncRef and Py_DecRef (3.12 made some objects immortal).
struct PyObject {
  Py_ssize_t ob_refcnt;
  PyTypeObject* ob_type;
};

using PyCFunction = PyObject* (*)(PyObject*, PyObject*);
using visitproc = int (*)(PyObject*, void*);
using traverseproc = int (*)(PyObject*, visitproc, void*);
using inquiry = int (*)(PyObject*);
using freefunc = void (*)(void*);
using getter = PyObject* (*)(PyObject*, void*);
using setter = int (*)(PyObject*, PyObject*, void*);

struct PyMethodDef {
  const char* ml_name;
  PyCFunction ml_meth;
  int ml_flags;
  const char* ml_doc;
};

struct PyMemberDef {
  const char* name;
  int type;
  Py_ssize_t offset;
  int flags;
  const char* doc;
};

struct PyGetSetDef {
  const char* name;
  getter get;
  setter set;
  const char* doc;
  void* closure;
};

struct PyModuleDef_Base {
  PyObject ob_base;
  PyObject* (*m_init)();
  Py_ssize_t m_index;
  PyObject* m_copy;
};

struct PyModuleDef_Slot {
  int slot;
  void* value;
};

struct PyModuleDef {
  PyModuleDef_Base m_base;
  const char* m_name;
  const char* m_doc;
  Py_ssize_t m_size;
  PyMethodDef* m_methods;
  PyModuleDef_Slot* m_slots;
  traverseproc m_traverse;
  inquiry m_clear;
  freefunc m_free;
};

struct PyType_Slot {
  int slot;
  void* pfunc;
};

struct PyType_Spec {
  const char* name;
  int basicsize;
  int itemsize;
  unsigned int flags;
  PyType_Slot* slots;
};

}  // extern "C"

#endif

extern "C" {

extern PyObject _Py_NoneStruct;
extern struct _longobject _Py_TrueStruct;
extern struct _longobject _Py_FalseStruct;
extern PyTypeObject PyLong_Type;
extern PyTypeObject PyFloat_Type;
extern PyTypeObject PyTuple_Type;
extern PyTypeObject PyUnicode_Type;
extern PyObject* PyExc_AttributeError;
extern PyObject* PyExc_Exception;
extern PyObject* PyExc_MemoryError;
extern PyObject* PyExc_RecursionError;
extern PyObject* PyExc_TypeError;
extern PyObject* PyExc_ValueError;

void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
int Py_EnterRecursiveCall(const char*);
void Py_LeaveRecursiveCall();
PyThreadState* PyEval_SaveThread();
void PyEval_RestoreThread(PyThreadState*);

PyObject* PyModuleDef_Init(PyModuleDef*);
int PyModule_AddObjectRef(PyObject*, const char*, PyObject*);
PyObject* PyModule_GetDict(PyObject*);
PyObject* PyType_FromSpec(PyType_Spec*);
PyObject* PyType_GenericAlloc(PyTypeObject*, Py_ssize_t);
unsigned long PyType_GetFlags(PyTypeObject*);
void* PyType_GetSlot(PyTypeObject*, int);
PyObject* PyImport_ImportModule(const char*);
PyObject* PyImport_GetModule(PyObject*);

void PyErr_SetString(PyObject*, const char*);
void PyErr_SetObject(PyObject*, PyObject*);
PyObject* PyErr_Occurred();
void PyErr_Clear();
int PyErr_ExceptionMatches(PyObject*);
void PyErr_Fetch(PyObject**, PyObject**, PyObject**);

void PyObject_Free(void*);
PyObject* PyObject_GetAttrString(PyObject*, const char*);
PyObject* PyObject_Repr(PyObject*);
PyObject* PyObject_Str(PyObject*);
PyObject* PyObject_Call(PyObject*, PyObject*, PyObject*);
PyObject* PyObject_CallObject(PyObject*, PyObject*);

PyObject* PyTuple_New(Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject*);
PyObject* PyTuple_GetItem(PyObject*, Py_ssize_t);
int PyTuple_SetItem(PyObject*, Py_ssize_t, PyObject*);
PyObject* PyList_New(Py_ssize_t);
int PyList_SetItem(PyObject*, Py_ssize_t, PyObject*);
PyObject* PyDict_New();
PyObject* PyDict_GetItemWithError(PyObject*, PyObject*);
Py_ssize_t PyDict_Size(PyObject*);
int PyDict_Next(PyObject*, Py_ssize_t*, PyObject**, PyObject**);
int PyDict_SetItemString(PyObject*, const char*, PyObject*);
PyObject* PySequence_Tuple(PyObject*);

PyObject* PyBool_FromLong(long);
PyObject* PyLong_FromLongLong(long long);
PyObject* PyLong_FromUnsignedLongLong(unsigned long long);
long long PyLong_AsLongLong(PyObject*);
unsigned long long PyLong_AsUnsignedLongLong(PyObject*);
PyObject* PyNumber_Index(PyObject*);
double PyFloat_AsDouble(PyObject*);
PyObject* PyFloat_FromDouble(double);
PyObject* PyUnicode_FromStringAndSize(const char*, Py_ssize_t);
const char* PyUnicode_AsUTF8AndSize(PyObject*, Py_ssize_t*);
PyObject* PyBytes_FromStringAndSize(const char*, Py_ssize_t);
int PyBytes_AsStringAndSize(PyObject*, char**, Py_ssize_t*);
void* PyCapsule_GetPointer(PyObject*, const char*);
int PyCapsule_IsValid(PyObject*, const char*);

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

namespace apb::py {

// Values of the stable ABI's macros; abi_check.cpp compares each with the real one.
inline constexpr int kApiVersion = 1013;
inline constexpr int kMethVarArgs = 0x0001;
inline constexpr int kMethKeywords = 0x0002;
inline constexpr int kMethNoArgs = 0x0004;
inline constexpr int kMethO = 0x0008;
inline constexpr int kMethFastCall = 0x0080;
inline constexpr unsigned long kFlagDefault = 1ul << 18;
// PEP 590. The number is the same in every CPython since 3.8, although the header shows it from 3.12 on only.
inline constexpr unsigned long kFlagVectorcall = 1ul << 11;
inline constexpr unsigned long kFlagLong = 1ul << 24;
inline constexpr unsigned long kFlagList = 1ul << 25;
inline constexpr unsigned long kFlagTuple = 1ul << 26;
inline constexpr unsigned long kFlagUnicode = 1ul << 28;
inline constexpr int kSlotCall = 50;
inline constexpr int kSlotDealloc = 52;
inline constexpr int kSlotDescriptorGet = 54;
inline constexpr int kSlotDoc = 56;
inline constexpr int kSlotMethods = 64;
inline constexpr int kSlotNew = 65;
inline constexpr int kSlotMembers = 72;
inline constexpr int kSlotGetSet = 73;
inline constexpr int kModuleExec = 2;
inline constexpr int kMemberSsize = 19;
inline constexpr int kMemberReadOnly = 1;
inline constexpr std::size_t kVectorcallOffsetFlag = std::size_t{1} << (8 * sizeof(std::size_t) - 1);

using DescriptorGet = PyObject* (*)(PyObject* descriptor, PyObject* object, PyObject* type);
using Vectorcall = PyObject* (*)(PyObject* callable, PyObject* const* args, std::size_t count, PyObject* names);

inline PyTypeObject* type_of(PyObject* object) { return object->ob_type; }
inline bool has_flag(PyObject* object, unsigned long flag) { return (PyType_GetFlags(type_of(object)) & flag) != 0; }
inline PyObject* none() { return &_Py_NoneStruct; }
inline PyObject* true_object() { return reinterpret_cast<PyObject*>(&_Py_TrueStruct); }
inline PyObject* false_object() { return reinterpret_cast<PyObject*>(&_Py_FalseStruct); }
inline bool is_none(PyObject* object) { return object == none(); }

}  // namespace apb::py
