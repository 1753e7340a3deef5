#include "python/plans.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call/call_key_reader.h"
#include "python/function_plan.h"
#include "tensors/tangent.h"

namespace apb {
namespace {

constexpr std::size_t kMostWords = 256;
constexpr std::size_t kMostLaunches = 8;  // of a plan whose calls are known whole
using Key = CallKey<kMostWords>;

struct Entry {
  std::vector<std::uint64_t> key;
  std::vector<py::Ref> objects;      // whose addresses stand in the key
  std::shared_ptr<const Plan> plan;  // null: the function itself is called
};

// A call that is known whole, by everything that decides anything: which plan it follows, and what each launch was. No bundle
// is asked about it, and no memo.
struct Whole {
  std::vector<std::uint64_t> key;
  std::shared_ptr<const Plan> plan;
  std::vector<py::Ref> objects;  // whose addresses stand in the key
  std::vector<KnownLaunch> launches;
  std::array<std::uint64_t, kMostMade> made;  // how the memory that was made is aligned
};

// The values of one call, each tensor read once. On the heap: a thread's stack may be small, and reading a tensor may call again.
struct Read {
  Key key;
  CallContext context;
  std::array<TensorArg, kMostArguments> tensors;  // of what is a tensor, or None where one may be
  std::array<TensorArg, kMostMade> made;
  std::array<py::Ref, kMostMade> objects;  // what was made
  CallKey<kMostWholeWords> whole;
  std::array<KnownLaunch, kMostLaunches> launches;  // what became of those of this call
};

// Reads a call's values in the place of CallPlace.
class ReadPlace {
 public:
  explicit ReadPlace(std::unique_ptr<Read>& spare) : spare_(spare), read_(std::move(spare)) {
    if (read_ == nullptr) [[unlikely]]
      read_ = std::make_unique_for_overwrite<Read>();
    read_->key.count = 0;
  }
  ReadPlace(const ReadPlace&) = delete;
  ReadPlace& operator=(const ReadPlace&) = delete;
  ~ReadPlace() {
    // The end of what was made may run Python, which may call again: nothing is spare until then.
    for (py::Ref& made : read_->objects) made = py::Ref();
    spare_ = std::move(read_);
  }

  Read& get() const { return *read_; }

 private:
  std::unique_ptr<Read>& spare_;
  std::unique_ptr<Read> read_;
};

class Plans {
 public:
  Plans(py::Ref function, py::Ref plan, std::string_view kinds)
      : function_(std::move(function)), plan_(std::move(plan)), kinds_(kinds) {}

  PyObject* function() const { return function_.get(); }

  PyObject* call(PyObject* const* args, std::size_t count) {
    const ReadPlace place(spare_);
    Read& read = place.get();
    if (count != kinds_.size()) return itself(args, count);
    // Another thread may replace an entry while Python runs.
    if (const std::shared_ptr<const Whole> guess = wholes_.guess(); guess != nullptr && is(*guess, args, read)) {
      wholes_.guessed();
      return follow(*guess->plan, guess.get(), args, read);
    }
    const bool known = read_all(args, read);
    if (py::interrupted()) return nullptr;
    if (!known) return itself(args, count);
    if (const auto* found = wholes_.find(read.whole); found != nullptr && !read.context.asks_gradient) {
      const std::shared_ptr<const Whole> whole = *found;
      return follow(*whole->plan, whole.get(), args, read);
    }
    return call_planned(args, count, read);
  }

 private:
  // Is it the call that `whole` is of? Nothing is set unless interrupted().
  bool is(const Whole& whole, PyObject* const* args, Read& read) const {
    Comparing comparing(whole.key);
    read.context = CallContext();
    read.context.gradients_matter = gradients_matter();
    read.context.asks_gradient = tangents_matter();  // the operators ask each tensor for its tangent
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (tell(args[i], kinds_[i], comparing, read.tensors[i], read.context)) continue;
      py::clear_ordinary();
      return false;
    }
    return comparing.done() && !read.context.asks_gradient;
  }

  // False: what the call is of cannot be told in words. Nothing is set unless interrupted().
  bool read_all(PyObject* const* args, Read& read) const {
    Storing storing(read.whole);
    read.context = CallContext();
    read.context.gradients_matter = gradients_matter();
    read.context.asks_gradient = tangents_matter();  // the operators ask each tensor for its tangent
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (tell(args[i], kinds_[i], storing, read.tensors[i], read.context)) continue;
      py::clear_ordinary();
      return false;
    }
    return true;
  }

  // A call that is not known whole: by what its plan hangs on, and by what its operators remember.
  PyObject* call_planned(PyObject* const* args, std::size_t count, Read& read) {
    bool known = true;
    for (std::size_t i = 0; known && i < count; ++i) known = add(args[i], kinds_[i], read.tensors[i], read.key);
    if (!known) return itself(args, count);
    std::shared_ptr<const Plan> plan;
    if (const std::unique_ptr<Entry>* found = entries_.find(read.key))
      plan = (*found)->plan;
    else if (!learn(args, count, read.key, plan))
      return nullptr;
    if (plan == nullptr) return itself(args, count);
    py::Ref result(follow(*plan, nullptr, args, read));
    if (result) keep(plan, args, count, read);
    return result.release();
  }

  // False: no room, or no operator would take it.
  static bool add(PyObject* object, char kind, const TensorArg& tensor, Key& key) {
    if (py::is_none(object)) return key.put(number_of(object));
    PyTypeObject* type = py::type_of(object);
    if (!key.put(number_of(type))) return false;
    if (kind == 'v') return tell_value(object, type, key);
    return kind == 'p' || (vendor_of(tensor.device.device_type) >= 0 && tell_tensor(tensor, true, key));
  }

  // After a call whose launches are known: the next one like it is known whole.
  void keep(const std::shared_ptr<const Plan>& plan, PyObject* const* args, std::size_t count, const Read& read) {
    const std::size_t launches = plan->launches.size();
    if (launches > kMostLaunches || read.context.asks_gradient) return;
    for (std::size_t i = 0; i < launches; ++i) {
      if (read.launches[i].prepared == nullptr || read.launches[i].alignment > kMostAlignment) return;
    }
    auto whole = std::make_shared<Whole>();
    whole->key = read.whole.copy();
    whole->plan = plan;
    for (std::size_t i = 0; i < count; ++i) {
      whole->objects.push_back(py::Ref::borrow(reinterpret_cast<PyObject*>(py::type_of(args[i]))));
      if (kinds_[i] == 'v') whole->objects.push_back(py::Ref::borrow(args[i]));
    }
    whole->launches.assign(read.launches.begin(), read.launches.begin() + static_cast<std::ptrdiff_t>(launches));
    for (std::size_t i = 0; i < plan->allocations.size(); ++i) whole->made[i] = alignment_of(read.made[i].address);
    const std::shared_ptr<const Whole> replaced =
        wholes_.keep(read.whole, std::move(whole));  // goes when the new one is there
  }

  PyObject* itself(PyObject* const* args, std::size_t count) const {
    const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
    return given ? PyObject_CallObject(function_.get(), given.get()) : nullptr;
  }

  // Asks Python, which sees of a tensor whose presence alone is in the key no more than that. False: it raised.
  bool learn(PyObject* const* args, std::size_t count, const Key& key, std::shared_ptr<const Plan>& learnt) {
    auto entry = std::make_unique<Entry>();
    entry->key = key.copy();
    const py::Ref told = py::tuple(count, [&](std::size_t i) {
      const bool hidden = kinds_[i] == 'p' && !py::is_none(args[i]);
      return py::Ref::borrow(hidden ? py::true_object() : args[i]);
    });
    const py::Ref said(told ? PyObject_CallObject(plan_.get(), told.get()) : nullptr);
    if (!said) return false;
    if (!py::is_none(said.get())) {
      const auto plan = std::make_shared<Plan>();
      if (!read_plan(said.get(), {args, kinds_}, *plan)) {
        if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, "a plan is (allocations, launches, answer), or None");
        return false;
      }
      entry->plan = learnt = plan;
    }
    for (std::size_t i = 0; i < count; ++i) {
      entry->objects.push_back(py::Ref::borrow(reinterpret_cast<PyObject*>(py::type_of(args[i]))));
      if (kinds_[i] == 'v') entry->objects.push_back(py::Ref::borrow(args[i]));
    }
    const std::unique_ptr<Entry> replaced = entries_.keep(key, std::move(entry));  // goes when the new one is there
    return true;
  }

  // `whole`: what is known of the call, or null.
  static PyObject* follow(const Plan& plan, const Whole* whole, PyObject* const* args, Read& read) {
    const std::size_t made = plan.allocations.size();
    for (std::size_t i = 0; i < made; ++i) {
      read.objects[i] = plan.allocations[i].make();
      if (!read.objects[i]) return nullptr;
    }
    bool good = !read.context.asks_gradient && read_made(made, read);
    for (std::size_t i = 0; whole != nullptr && i < made; ++i) {
      if (alignment_of(read.made[i].address) != whole->made[i]) whole = nullptr;
    }
    for (std::size_t i = 0; i < plan.launches.size(); ++i) {
      const Launch& launch = plan.launches[i];
      KnownLaunch* known = i < kMostLaunches ? &read.launches[i] : nullptr;
      if (known != nullptr) *known = whole != nullptr ? whole->launches[i] : KnownLaunch();
      const Done done = good ? launch_read(launch, read, known) : Done::Unknown;
      if (done == Done::Raised) return nullptr;
      if (done == Done::Launched) continue;
      if (known != nullptr) *known = KnownLaunch();
      if (!launch_objects(launch, args, read)) return nullptr;
      good = false;  // Python may have run, and shapes of what was made may lie elsewhere now
    }
    const auto answer = [&](std::size_t i) { return py::Ref::borrow(object_of(plan.answers[i], args, read)); };
    return (plan.single ? answer(0) : py::tuple(plan.answers.size(), answer)).release();
  }

  static PyObject* object_of(const Item& item, PyObject* const* args, const Read& read) {
    if (item.kind == Item::Kind::Argument) return args[item.place];
    return item.kind == Item::Kind::Made ? read.objects[item.place].get() : item.object.get();
  }

  // False: one of them is no tensor, or cannot be read so.
  static bool read_made(std::size_t count, Read& read) {
    CallContext unused;
    for (std::size_t i = 0; i < count; ++i) {
      if (!read_tensor_fast(read.objects[i].get(), read.made[i], unused)) return py::clear_ordinary(), false;
    }
    return true;
  }

  // With what was read of the tensors already. Unknown: nothing is set, and nothing was launched.
  static Done launch_read(const Launch& launch, const Read& read, KnownLaunch* known) {
    if (!launch.fixed.known()) return Done::Unknown;
    static const TensorArg absent{0, nullptr, nullptr, 0, 0, {kDLCPU, 0}, false};
    std::array<const TensorArg*, kMostArguments> tensors;
    const std::size_t count = launch.fixed.tensors;
    for (std::size_t i = 0; i < count; ++i) {
      const Item& item = launch.items[i];
      tensors[i] = item.kind == Item::Kind::Argument ? &read.tensors[item.place]
                   : item.kind == Item::Kind::Made   ? &read.made[item.place]
                                                     : &absent;
    }
    return call_operator_read(launch.op.get(), {tensors.data(), count}, launch.fixed, read.context.api, known);
  }

  // Calls the operator as Python does, after which the same call is known. False: it raised.
  static bool launch_objects(const Launch& launch, PyObject* const* args, const Read& read) {
    std::array<PyObject*, kMostArguments> given;
    const std::size_t count = launch.items.size();
    for (std::size_t i = 0; i < count; ++i) given[i] = object_of(launch.items[i], args, read);
    const py::Ref done(call_operator(launch.op.get(), given.data(), count));
    if (!done) return false;
    fix_arguments(launch.op.get(), given.data(), count, launch.fixed);
    for (std::size_t i = 0; i < launch.fixed.tensors; ++i) {
      const Item& item = launch.items[i];
      if (item.kind == Item::Kind::Same && !py::is_none(item.object.get())) launch.fixed.forget();
    }
    for (std::size_t i = launch.fixed.tensors; i < count; ++i) {
      if (launch.items[i].kind != Item::Kind::Same) launch.fixed.forget();
    }
    return true;
  }

  py::Ref function_;
  py::Ref plan_;
  std::string kinds_;
  Remembered<std::unique_ptr<Entry>> entries_;
  Remembered<std::shared_ptr<const Whole>> wholes_;
  std::unique_ptr<Read> spare_;
};

struct PlansObject {
  PyObject base;
  py::Vectorcall vectorcall;
  Plans* plans;
};

PyTypeObject* plans_type = nullptr;

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

PyObject* type_error(const char* problem) {
  if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, problem);
  return nullptr;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (names != nullptr && PyTuple_Size(names) != 0) return type_error("Plans takes arguments by position alone");
  return reinterpret_cast<PlansObject*>(self)->plans->call(args, count & ~py::kVectorcallOffsetFlag);
}

PyObject* tuple_call(PyObject* self, PyObject* args, PyObject* keywords) {
  if (keywords != nullptr && PyDict_Size(keywords) != 0) return type_error("Plans takes arguments by position alone");
  std::vector<PyObject*> items(static_cast<std::size_t>(PyTuple_Size(args)));
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = PyTuple_GetItem(args, static_cast<Py_ssize_t>(i));
  return reinterpret_cast<PlansObject*>(self)->plans->call(items.data(), items.size());
}

PyObject* plans_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  std::string_view kinds;
  if ((keywords != nullptr && PyDict_Size(keywords) != 0) || PyTuple_Size(args) != 3 ||
      !py::read_text(PyTuple_GetItem(args, 2), kinds) || kinds.size() > kMostArguments ||
      kinds.find_first_not_of("tpv") != std::string_view::npos)
    return type_error(R"(Plans(function: Callable, plan: Callable, kinds: str) takes three arguments, kinds of "tpv")");
  PyObject* self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  auto* object = reinterpret_cast<PlansObject*>(self);
  object->plans =
      new Plans(py::Ref::borrow(PyTuple_GetItem(args, 0)), py::Ref::borrow(PyTuple_GetItem(args, 1)), kinds);
  object->vectorcall = vectorcall;
  return self;
}

void plans_dealloc(PyObject* self) {
  PyTypeObject* type = py::type_of(self);
  delete reinterpret_cast<PlansObject*>(self)->plans;
  PyObject_Free(self);
  Py_DecRef(as_object(type));
}

PyObject* get_function(PyObject* self, void*) {
  return py::Ref::borrow(reinterpret_cast<PlansObject*>(self)->plans->function()).release();
}

PyGetSetDef plans_getset[] = {
    {"function", get_function, nullptr, "What it remembers the calls of.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef plans_members[] = {
    {"__vectorcalloffset__", py::kMemberSsize, offsetof(PlansObject, vectorcall), py::kMemberReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot plans_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(plans_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(plans_dealloc)},
    {py::kSlotCall, reinterpret_cast<void*>(tuple_call)},
    {py::kSlotMembers, plans_members},
    {py::kSlotGetSet, plans_getset},
    {py::kSlotDoc,
     const_cast<char*>("Plans(function, plan, kinds): function(*args), remembered as calls of operators.")},
    {0, nullptr},
};

PyType_Spec plans_spec = {"aiter_prebuilt._native.Plans", sizeof(PlansObject), 0,
                          py::kFlagDefault | py::kFlagVectorcall, plans_slots};

}  // namespace

PyObject* make_plans_type() {
  if (plans_type == nullptr) plans_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plans_spec));
  if (plans_type != nullptr) Py_IncRef(as_object(plans_type));
  return as_object(plans_type);
}

}  // namespace apb
