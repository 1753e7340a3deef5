#include "plans.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "call_words.h"
#include "making.h"
#include "operator_type.h"

namespace apb {
namespace {

constexpr std::size_t kMostWords = 256;
constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kMostMade = 8;
constexpr std::size_t kMostLaunches = 8;  // of a plan whose calls are known whole
constexpr std::size_t kMostWholeWords = 512;
// As much as anything asks of an address where a call is known whole.
constexpr std::uint64_t kMostAlignment = 256;

using Key = CallWords<kMostWords>;

// What a call of an operator is given, or what the function returns: an argument, something made, or always the same object.
struct Item {
  enum class Kind { Argument, Made, Same } kind = Kind::Same;
  std::size_t place = 0;
  py::Ref object;
};

struct Launch {
  py::Ref op;
  std::vector<Item> items;
  // What of the call is the same each time, in the terms of the device that it was last on. Written with the GIL held.
  mutable FixedArguments fixed;
};

struct Plan {
  std::vector<Making> makings;
  std::vector<Launch> launches;
  std::vector<Item> answers;  // of several a tuple
  bool single = true;
};

struct Entry {
  std::vector<std::uint64_t> key;
  std::vector<py::Ref> objects;      // whose addresses stand in the key
  std::shared_ptr<const Plan> plan;  // null: the function itself is called
};

// What the arguments of the call that is planned were, and what they are called with.
struct Given {
  PyObject* const* args;
  std::string_view kinds;
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

// (place,) of an argument, (-1 - place,) of what was made; all else is itself.
bool read_item(PyObject* object, std::size_t arguments, std::size_t made, Item& item) {
  if (!py::has_flag(object, py::kFlagTuple)) {
    item.object = py::Ref::borrow(object);
    return true;
  }
  std::int64_t place = 0;
  if (PyTuple_Size(object) != 1 || !py::read_integer(PyTuple_GetItem(object, 0), place)) return false;
  item.kind = place < 0 ? Item::Kind::Made : Item::Kind::Argument;
  item.place = static_cast<std::size_t>(place < 0 ? -1 - place : place);
  return item.place < (place < 0 ? made : arguments);
}

bool is_tuple(PyObject* object, Py_ssize_t size) {
  return py::has_flag(object, py::kFlagTuple) && (size < 0 || PyTuple_Size(object) == size);
}

bool read_launch(PyObject* said, const Given& given, std::size_t made, Launch& launch) {
  if (!is_tuple(said, 2) || !is_operator(PyTuple_GetItem(said, 0)) || !is_tuple(PyTuple_GetItem(said, 1), -1))
    return false;
  launch.op = py::Ref::borrow(PyTuple_GetItem(said, 0));
  PyObject* items = PyTuple_GetItem(said, 1);
  launch.items.resize(static_cast<std::size_t>(PyTuple_Size(items)));
  for (std::size_t i = 0; i < launch.items.size(); ++i) {
    Item& item = launch.items[i];
    if (!read_item(PyTuple_GetItem(items, static_cast<Py_ssize_t>(i)), given.kinds.size(), made, item)) return false;
    if (item.kind != Item::Kind::Argument || given.kinds[item.place] != 'v') continue;
    // Its value, or which object it is, stands in the key.
    item.kind = Item::Kind::Same;
    item.object = py::Ref::borrow(given.args[item.place]);
  }
  return launch.items.size() <= kMostArguments;
}

// An item, or a tuple of items.
bool read_answers(PyObject* said, std::size_t arguments, std::size_t made, Plan& plan) {
  plan.single = !is_tuple(said, -1) || PyTuple_Size(said) == 1;
  plan.answers.resize(plan.single ? 1 : static_cast<std::size_t>(PyTuple_Size(said)));
  if (plan.single) return read_item(said, arguments, made, plan.answers[0]);
  for (std::size_t i = 0; i < plan.answers.size(); ++i) {
    if (!read_item(PyTuple_GetItem(said, static_cast<Py_ssize_t>(i)), arguments, made, plan.answers[i])) return false;
  }
  return true;
}

// ((function, arguments) of what is made, ...), ((operator, items), ...), what is returned.
bool read_plan(PyObject* said, const Given& given, Plan& plan) {
  if (!is_tuple(said, 3) || !is_tuple(PyTuple_GetItem(said, 0), -1) || !is_tuple(PyTuple_GetItem(said, 1), -1))
    return false;
  PyObject* makings = PyTuple_GetItem(said, 0);
  const auto made = static_cast<std::size_t>(PyTuple_Size(makings));
  if (made > kMostMade) return false;
  plan.makings.resize(made);
  for (std::size_t i = 0; i < made; ++i) {
    if (!read_making(PyTuple_GetItem(makings, static_cast<Py_ssize_t>(i)), plan.makings[i])) return false;
  }
  PyObject* launches = PyTuple_GetItem(said, 1);
  plan.launches.resize(static_cast<std::size_t>(PyTuple_Size(launches)));
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    if (!read_launch(PyTuple_GetItem(launches, static_cast<Py_ssize_t>(i)), given, made, plan.launches[i]))
      return false;
  }
  return read_answers(PyTuple_GetItem(said, 2), given.kinds.size(), made, plan);
}

// Which powers of two divide an address; null is a class of its own, as to a memo.
std::uint64_t alignment_of(std::uint64_t address) {
  return address == 0 ? 63 : static_cast<std::uint64_t>(__builtin_ctzll(address | kMostAlignment));
}

// Compares the words of a call with a key as they are made: nothing is stored. False at the first that differs.
class Comparing {
 public:
  explicit Comparing(const std::vector<std::uint64_t>& key) : at_(key.data()), end_(key.data() + key.size()) {}

  bool put(std::uint64_t word) {
    if (at_ == end_ || *at_ != word) return false;
    ++at_;
    return true;
  }
  bool done() const { return at_ == end_; }

  // The dims of a tensor, sizes and strides, which then are those of the key: whatever becomes of the tensor, they stay.
  bool put_dims(TensorArg& tensor) {
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    if (static_cast<std::size_t>(end_ - at_) < 2 * rank) return false;
    const auto* kept = reinterpret_cast<const std::int64_t*>(at_);
    std::int64_t difference = 0;
    for (std::size_t d = 0; d < rank; ++d)
      difference |= (kept[d] ^ tensor.shape[d]) | (kept[rank + d] ^ tensor.strides[d]);
    tensor.shape = kept;
    tensor.strides = kept + rank;
    at_ += 2 * rank;
    return difference == 0;
  }

 private:
  const std::uint64_t* at_;
  const std::uint64_t* end_;
};

// Stores them.
class Storing {
 public:
  explicit Storing(CallWords<kMostWholeWords>& words) : words_(words) { words_.count = 0; }

  bool put(std::uint64_t word) { return words_.put(word); }

  bool put_dims(TensorArg& tensor) {
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    if (words_.count + 2 * rank > kMostWholeWords) return false;
    auto* kept = reinterpret_cast<std::int64_t*>(words_.words.data() + words_.count);
    std::copy_n(tensor.shape, rank, kept);
    std::copy_n(tensor.strides, rank, kept + rank);
    tensor.shape = kept;
    tensor.strides = kept + rank;
    words_.count += 2 * rank;
    return true;
  }

 private:
  CallWords<kMostWholeWords>& words_;
};

// What is read of one call, each tensor once. On the heap: a thread's stack may be small, and a tensor may call again while it is
// read.
struct Read {
  Key key;
  CallContext context;
  std::array<TensorArg, kMostArguments> tensors;  // of what is a tensor, or None where one may be
  std::array<TensorArg, kMostMade> made;
  std::array<py::Ref, kMostMade> objects;  // what was made
  CallWords<kMostWholeWords> whole;
  std::array<KnownLaunch, kMostLaunches> launches;  // what became of those of this call
};

// As CallPlace has a call.
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
    const std::shared_ptr<const Whole> whole = wholes_.place(read.whole);
    if (whole != nullptr && read.whole.are(whole->key) && !read.context.asks_gradient)
      return follow(*whole->plan, whole.get(), args, read);
    return call_planned(args, count, read);
  }

 private:
  // Is it the call that `whole` is of? Nothing is set unless interrupted().
  bool is(const Whole& whole, PyObject* const* args, Read& read) const {
    Comparing comparing(whole.key);
    read.context = CallContext();
    read.context.gradients_matter = gradients_matter();
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
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (tell(args[i], kinds_[i], storing, read.tensors[i], read.context)) continue;
      py::clear_ordinary();
      return false;
    }
    return true;
  }

  // Everything that is read of an argument. False: it is another one, or cannot be told; an exception may be set.
  template <class Sink>
  static bool tell(PyObject* object, char kind, Sink& sink, TensorArg& tensor, CallContext& context) {
    if (py::is_none(object)) {
      tensor.given = false;
      return sink.put(number_of(object));
    }
    PyTypeObject* type = py::type_of(object);
    if (!sink.put(number_of(type))) return false;
    if (kind == 'v') return tell_value(object, type, sink);
    if (!read_for_words(object, tensor, context)) return false;
    return sink.put(tensor.dtype | (std::uint64_t{static_cast<std::uint32_t>(tensor.ndim)} << 32) |
                    (alignment_of(tensor.address) << 40) |
                    (static_cast<std::uint64_t>(tensor.device.device_type) << 48) |
                    (static_cast<std::uint64_t>(tensor.device.device_id) << 56)) &&
           sink.put_dims(tensor);
  }

  template <class Sink>
  static bool tell_value(PyObject* object, PyTypeObject* type, Sink& sink) {
    if (object == py::true_object() || object == py::false_object()) return sink.put(number_of(object));
    if (type == &PyFloat_Type) return sink.put(std::bit_cast<std::uint64_t>(PyFloat_AsDouble(object)));
    if (type == &PyLong_Type) {
      std::int64_t value = 0;
      return py::read_integer(object, value) && sink.put(static_cast<std::uint64_t>(value));
    }
    if (type == &PyUnicode_Type) return tell_text(object, sink);
    return !py::has_flag(object, py::kFlagTuple) && tensor_type(type).api == nullptr && sink.put(number_of(object));
  }

  // What it says: two texts that are equal are one to a plan.
  template <class Sink>
  static bool tell_text(PyObject* object, Sink& sink) {
    std::string_view text;
    if (!py::read_text(object, text) || !sink.put(text.size())) return false;
    for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
      if (!sink.put(word)) return false;
    }
    return true;
  }

  // A call that is not known whole: by what its plan hangs on, and by what its operators remember.
  PyObject* call_planned(PyObject* const* args, std::size_t count, Read& read) {
    bool known = true;
    for (std::size_t i = 0; known && i < count; ++i) known = add(args[i], kinds_[i], read.tensors[i], read.key);
    if (!known) return itself(args, count);
    std::unique_ptr<Entry>& entry = entries_.place(read.key);
    std::shared_ptr<const Plan> plan;
    if (entry != nullptr && read.key.are(entry->key))
      plan = entry->plan;
    else if (!learn(args, count, read.key, entry, plan))
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
    for (std::size_t i = 0; i < plan->makings.size(); ++i) whole->made[i] = alignment_of(read.made[i].address);
    std::shared_ptr<const Whole> kept = std::move(whole);
    std::swap(wholes_.place(read.whole), kept);  // the old one goes when the new one is there: its end may run Python
  }

  PyObject* itself(PyObject* const* args, std::size_t count) const {
    const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
    return given ? PyObject_CallObject(function_.get(), given.get()) : nullptr;
  }

  // Asks Python, which sees of a tensor whose presence alone is in the key no more than that. False: it raised.
  bool learn(PyObject* const* args, std::size_t count, const Key& key, std::unique_ptr<Entry>& place,
             std::shared_ptr<const Plan>& learnt) {
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
        if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, "a plan is (makings, launches, answer), or None");
        return false;
      }
      entry->plan = learnt = plan;
    }
    for (std::size_t i = 0; i < count; ++i) {
      entry->objects.push_back(py::Ref::borrow(reinterpret_cast<PyObject*>(py::type_of(args[i]))));
      if (kinds_[i] == 'v') entry->objects.push_back(py::Ref::borrow(args[i]));
    }
    std::swap(place, entry);  // the old one goes when the new one is there: its end may run Python
    return true;
  }

  // `whole`: what is known of the call, or null.
  static PyObject* follow(const Plan& plan, const Whole* whole, PyObject* const* args, Read& read) {
    const std::size_t made = plan.makings.size();
    for (std::size_t i = 0; i < made; ++i) {
      read.objects[i] = plan.makings[i].make();
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

  // As Python calls it, after which the same call is known. False: it raised.
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

PyMemberDef plans_members[] = {
    {"__vectorcalloffset__", py::kMemberSsize, offsetof(PlansObject, vectorcall), py::kMemberReadOnly, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot plans_slots[] = {
    {py::kSlotNew, reinterpret_cast<void*>(plans_new)},
    {py::kSlotDealloc, reinterpret_cast<void*>(plans_dealloc)},
    {py::kSlotCall, reinterpret_cast<void*>(tuple_call)},
    {py::kSlotMembers, plans_members},
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
