#include "call/operator.h"

#include <algorithm>

#include "bundle/bundle_type.h"
#include "call/own_bundles.h"
#include "call/trace.h"
#include "tensors/tangent.h"

namespace apb {
namespace {

py::Ref attribute(PyObject* object, const char* name) {
  return py::Ref(object == nullptr ? nullptr : PyObject_GetAttrString(object, name));
}

// Is it a torch.Tensor whose class has its own __torch_dispatch__? One that says itself where its elements lie is read as any other.
bool is_dispatched(PyObject* object) {
  if (py::is_none(object) || py::has_flag(object, py::kFlagTuple)) return false;
  PyObject* type = reinterpret_cast<PyObject*>(py::type_of(object));
  const py::Ref own = attribute(type, "__torch_dispatch__");
  const py::Ref name = py::text("torch");
  const py::Ref torch(own && name ? PyImport_GetModule(name.get()) : nullptr);
  const py::Ref tensor = attribute(torch.get(), "Tensor");
  const py::Ref usual = attribute(tensor.get(), "__torch_dispatch__");
  const py::Ref address = attribute(type, "data_ptr"), plain = attribute(tensor.get(), "data_ptr");
  py::clear_ordinary();
  return usual && own.get() != usual.get() && address.get() == plain.get();
}

}  // namespace

bool ServedOperator::build(std::string_view name, PyObject* bundle_tuple, std::int64_t cus, Error& error) {
  std::vector<Bundle*> opened;
  const Py_ssize_t count = py::has_flag(bundle_tuple, py::kFlagTuple) ? PyTuple_Size(bundle_tuple) : -1;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* object = PyTuple_GetItem(bundle_tuple, i);
    Bundle* bundle = bundle_of(object);
    if (bundle == nullptr) break;
    opened.push_back(bundle);
    bundles.push_back(py::Ref::borrow(object));
  }
  if (count < 0 || opened.size() != static_cast<std::size_t>(count)) {
    PyErr_SetString(PyExc_TypeError, "bundles must be a tuple of Bundle");
    return error.set(ErrorKind::Raised, "", "", "");
  }
  if (!merge(name, opened, merged, error) || !report_refused(name, merged, error)) return false;
  compute_units = cus;
  parser = ArgumentParser(*merged.blocks.front());
  for (const OperatorBlock* block : merged.blocks) {
    address_use.alignment = std::max(address_use.alignment, block->address_use().alignment);
    address_use.exact = address_use.exact || block->address_use().exact;
  }
  return true;
}

bool decide(const ServedOperator& served, const Call& call, std::vector<Binding>& bindings,
            std::vector<Decision>& decisions, LaunchPlan& plan, Error& error) {
  if (!bind_all(served.merged, call, served.compute_units, bindings, error)) return false;
  return select(served.merged, bindings, served.compute_units, decisions, plan, error);
}

PyObject* Operator::call(PyObject* const* args, std::size_t count, PyObject* stream, Viewing* viewing) {
  ++stats_.calls;
  OnDevice* on = current_;
  if (on != nullptr && stream == nullptr) {
    const CallPlace place(spare_call_);
    void* handle = nullptr;
    Prepared* prepared = find_fast(*on, args, count, viewing, place.get(), handle);
    if (prepared != nullptr && find_overlap(prepared->pairs, place.get()) == nullptr) [[likely]] {
      ++stats_.memo_hits;
      return launch_known(*on->device, *prepared, place.get(), handle);
    }
  }
  return call_slow(args, count, stream, viewing);
}

// The launch of a call that was seen before, with its stream, or null: take the other way. Nothing of the framework runs
// once it is found.
Prepared* Operator::find_fast(OnDevice& on, PyObject* const* args, std::size_t count, Viewing* viewing, Call& call,
                              void*& stream) {
  return on.served.parser.parse_fast(args, count, call) ? find_parsed(on, viewing, call, nullptr, stream) : nullptr;
}

Prepared* Operator::find_parsed(OnDevice& on, Viewing* viewing, Call& call, const KnownLaunch* known, void*& stream) {
  if (call.api == nullptr) return nullptr;
  if (viewing != nullptr) viewing->apply(call);
  if (call.api->current_work_stream(on.where.device_type, on.where.device_id, &stream) != 0) [[unlikely]]
    return nullptr;
  // Looked at now: the framework may have run Python, and another call may have taken its place in the memo.
  if (known != nullptr && known->on == &on && known->generation == on.memo.generation()) {
    on.memo.touch(*known->prepared);
    return known->prepared;
  }
  // The key has the device of every tensor in it, and this memo only has keys of its own device.
  Prepared* prepared = on.memo.find_next(call, on.served.address_use);
  return prepared != nullptr ? prepared : find_remembered(on, call);
}

void Operator::fix(PyObject* const* args, std::size_t count, FixedArguments& out) const {
  if (current_ == nullptr || !current_->served.parser.fix(args, count, out)) out.forget();
}

Done Operator::call_read(std::span<const TensorArg* const> tensors, const FixedArguments& fixed,
                         const DLPackExchangeAPI* api, Viewing* viewing, KnownLaunch* known) {
  OnDevice* on = current_;
  if (on == nullptr || fixed.parser != &on->served.parser) return Done::Unknown;
  const AddressUse& use = on->served.address_use;
  const CallPlace place(spare_call_);
  Call& call = place.get();
  call.api = api;
  call.tensor_count = tensors.size();
  call.attribute_count = fixed.integers.size();
  for (std::size_t i = 0; i < tensors.size(); ++i) call.tensors[i] = *tensors[i];
  std::copy(fixed.integers.begin(), fixed.integers.end(), call.integers.begin());
  std::copy(fixed.reals.begin(), fixed.reals.end(), call.reals.begin());
  std::copy(fixed.texts.begin(), fixed.texts.end(), call.texts.begin());
  void* stream = nullptr;
  Prepared* prepared = find_parsed(*on, viewing, call, known, stream);
  if (prepared == nullptr || find_overlap(prepared->pairs, call) != nullptr) {
    py::clear_ordinary();  // of the framework's stream; the other way meets it again
    return py::interrupted() ? Done::Raised : Done::Unknown;
  }
  ++stats_.calls;
  ++stats_.memo_hits;
  if (known != nullptr) *known = {on, prepared, on->memo.generation(), use.exact ? ~std::uint64_t{0} : use.alignment};
  const py::Ref done(launch_known(*on->device, *prepared, call, stream));
  return done ? Done::Launched : Done::Raised;
}

PyObject* Operator::launch_known(Device& device, Prepared& prepared, const Call& call, void* stream) {
  if (nothing_to_prepare(device, prepared)) [[likely]] {
    const LaunchFailure failure = launch_steps(device.driver(), prepared, call, stream, 0, stats_.launches);
    if (failure.step != nullptr) [[unlikely]]
      return py::raise(failure.error(device.driver(), prepared));
  } else {
    Error error;
    if (!launch(device, prepared, call, stream, stats_.launches, error)) return py::raise(error);
  }
  Py_IncRef(py::none());
  return py::none();
}

Prepared* Operator::find_remembered(OnDevice& on, const Call& call) {
  if (key_ == nullptr) key_ = std::make_unique_for_overwrite<MemoKey>();
  return build_key(call, on.served.address_use, *key_) ? on.memo.find(*key_) : nullptr;
}

PyObject* Operator::call_slow(PyObject* const* args, std::size_t count, PyObject* stream, Viewing* viewing) {
  const py::Recursion deeper;
  if (!deeper || py::interrupted()) return nullptr;
  PyErr_Clear();  // the fast path may have left one; whatever is wrong is found again, and worded, below
  Error error;
  const bool done =
      run_slow(args, count, stream, viewing, error) ||
      // Copies would not be part of a graph on a stream that is not torch's own.
      (stream == nullptr && (run_dispatched(args, count, viewing, error) || run_restated(args, count, viewing, error)));
  if (!done) return py::raise(error);
  Py_IncRef(py::none());
  return py::none();
}

// A call with a tensor of a trace, or one that wraps others, goes through torch's dispatcher, whatever stopped it here.
bool Operator::run_dispatched(PyObject* const* args, std::size_t count, const Viewing* viewing, Error& error) {
  if (!restated_ || error.kind == ErrorKind::Raised || std::none_of(args, args + count, is_dispatched)) return false;
  const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
  const py::Ref none(PyTuple_New(0));
  const py::Ref keywords(PyDict_New());
  PyObject* views = viewing == nullptr || viewing->said() == nullptr ? none.get() : viewing->said();
  const bool made = given && none && keywords && PyDict_SetItemString(keywords.get(), "views", views) == 0;
  const py::Ref done(made ? PyObject_Call(restated_.get(), given.get(), keywords.get()) : nullptr);
  return done ? true : error.set(ErrorKind::Raised, "", "", "");
}

bool Operator::run_restated(PyObject* const* args, std::size_t count, Viewing* viewing, Error& error) {
  const bool about = error.kind == ErrorKind::ArgumentShape || error.kind == ErrorKind::ArgumentStride ||
                     error.kind == ErrorKind::ArgumentDType || error.kind == ErrorKind::Unsupported ||
                     error.kind == ErrorKind::NoKernel;
  if (!restated_ || !about) return false;
  const py::Ref given = py::tuple(count, [&](std::size_t i) { return py::Ref::borrow(args[i]); });
  const py::Ref answer(given ? PyObject_CallObject(restated_.get(), given.get()) : nullptr);
  if (!answer) return error.set(ErrorKind::Raised, "", "", "");
  if (py::is_none(answer.get())) return false;
  const auto is_tuple = [](PyObject* object, std::size_t size) {
    return py::has_flag(object, py::kFlagTuple) && static_cast<std::size_t>(PyTuple_Size(object)) == size;
  };
  if (!is_tuple(answer.get(), 2) || !is_tuple(PyTuple_GetItem(answer.get(), 0), count)) {
    PyErr_SetString(PyExc_TypeError, "restated must return (arguments, what to call after them or None), or None");
    return error.set(ErrorKind::Raised, "", "", "");
  }
  PyObject* others = PyTuple_GetItem(answer.get(), 0);
  PyObject* after = PyTuple_GetItem(answer.get(), 1);
  std::vector<PyObject*> items(count);
  for (std::size_t i = 0; i < count; ++i) items[i] = PyTuple_GetItem(others, static_cast<Py_ssize_t>(i));
  const Error first = error;
  if (!run_slow(items.data(), count, nullptr, viewing, error)) {
    // What no kernel takes with copies either is said of the caller's tensors.
    if (first.kind == ErrorKind::NoKernel && error.kind == ErrorKind::NoKernel) error = first;
    return false;
  }
  const py::Ref finished(py::is_none(after) ? py::Ref::borrow(after).release() : PyObject_CallObject(after, nullptr));
  return finished ? true : error.set(ErrorKind::Raised, "", "", "");
}

bool Operator::run_slow(PyObject* const* args, std::size_t count, PyObject* stream, Viewing* viewing, Error& error) {
  const CallPlace place(spare_call_);
  Call& call = place.get();
  CallStorage storage;
  if (stream != nullptr && !py::is_none(stream)) {
    std::uint64_t handle = 0;
    if (!py::read_address(stream, handle)) {
      const bool number = py::has_flag(stream, py::kFlagLong);
      return error.set(ErrorKind::ArgumentKind, name_,
                       number ? "stream must be an address of 64 bits, got another number"
                              : "stream must be an int, the handle of the stream",
                       "Pass the stream's handle, such as torch.cuda.current_stream().cuda_stream");
    }
    call.stream = reinterpret_cast<void*>(handle);
    call.stream_given = true;
  }
  Vendor vendor = Vendor::Amd;
  int ordinal = 0;
  if (!check_gradients(args, count, error) || !find_device(args, count, call, vendor, ordinal, error)) return false;
  OnDevice* on = on_device(vendor, ordinal, error);
  if (on == nullptr || !on->served.parser.parse(args, count, call, storage, error)) return false;
  if (viewing != nullptr) viewing->apply(call);
  if (!check_runtime(*on, call, error)) return false;
  if (!call.stream_given && !current_stream(call, storage, on->where, call.stream, error)) return false;
  Prepared* prepared = find_remembered(*on, call);
  std::unique_ptr<Prepared> unkept;
  if (prepared != nullptr) {
    ++stats_.memo_hits;
  } else {
    // Built here, while the GIL is held and the tensors are as they were read.
    const auto key = std::make_unique_for_overwrite<MemoKey>();
    const bool keyed = build_key(call, on->served.address_use, *key);
    prepared = prepare_call(*on, call, keyed ? key.get() : nullptr, unkept, error);
    if (prepared == nullptr) return false;
  }
  current_ = on;
  if (const MemoryPair* pair = find_overlap(prepared->pairs, call)) return refuse_overlap(*on, *pair, call, error);
  return launch(*on->device, *prepared, call, call.stream, stats_.launches, error);
}

Prepared* Operator::prepare_call(OnDevice& on, const Call& call, const MemoKey* key, std::unique_ptr<Prepared>& unkept,
                                 Error& error) {
  std::vector<Binding> bindings;
  std::vector<Decision> decisions;
  LaunchPlan plan;
  ++stats_.selections;
  do {
    if (!decide(on.served, call, bindings, decisions, plan, error)) return nullptr;
    note_choice({on.served.merged, call, bindings, decisions, on.where, on.served.compute_units});
    const py::GilRelease released;
    unkept = prepare(*on.device, plan, true, call.stream, error);
  } while (unkept == nullptr && drop_own(name_, on.served.merged, plan.block, error));
  if (unkept == nullptr && error.kind == ErrorKind::Capture)
    error.fix = cat("Before the capture begins, run it once or call ",
                    preload_text(on.served.merged, call, bindings[0], on.where));
  if (unkept != nullptr) unkept->pairs = find_pairs(*on.served.merged.blocks.front(), call);
  if (unkept == nullptr || key == nullptr) return unkept.get();
  if (Prepared* other = on.memo.find(*key)) return other;  // another thread was faster while the GIL was free
  return on.memo.insert(*key, std::move(unkept));
}

// Checks calls that are not known yet or whose tensors are plain addresses. A framework's tensors come from the runtime that it
// is linked with, so its first call is enough.
bool Operator::check_runtime(const OnDevice& on, const Call& call, Error& error) const {
  const Driver& driver = on.device->driver();
  for (std::size_t i = 0; i < call.tensor_count; ++i) {
    const TensorArg& tensor = call.tensors[i];
    if (!tensor.given || tensor.address == 0) continue;
    const std::string other = runtime_elsewhere(driver, tensor.address);
    if (other.empty()) continue;
    return error.set(ErrorKind::ArgumentDevice, name_,
                     cat(on.served.parser.tensor_name(i), " has memory of the HIP runtime ", other,
                         ", but kernels are launched through ", driver.path),
                     "Load one HIP runtime in a process; to see which are loaded: aiter-prebuilt doctor");
  }
  return true;
}

bool Operator::refuse_overlap(const OnDevice& on, const MemoryPair& pair, const Call& call, Error& error) const {
  const auto place = [&](std::size_t i, std::uint64_t bytes) {
    return cat(bytes, " bytes from ", hex_text(call.tensors[i].address));
  };
  const std::string other(on.served.parser.tensor_name(pair.other));
  const bool in_place = on.served.merged.blocks.front()->tensors()[pair.written].in_place == pair.other + 1;
  return error.set(ErrorKind::ArgumentStride, name_,
                   cat(on.served.parser.tensor_name(pair.written), " is written, and its memory (",
                       place(pair.written, pair.written_bytes), ") overlaps ", other, " (",
                       place(pair.other, pair.other_bytes), ")"),
                   in_place ? cat("Pass ", other, " itself, with the same address, shape and strides, or other memory")
                            : std::string("Pass memory of its own"));
}

bool Operator::check_gradients(PyObject* const* args, std::size_t count, Error& error) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool tangent = tangents_matter() && carries_tangent(args[i]);
    const bool asks = !tangent && argument_asks_gradient(args[i]);
    const bool recorded = asks && !py::interrupted() && gradients_recorded();
    if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
    if (!recorded && !tangent) continue;
    // Its name stands in the signature, which a device's bundle has; without one its place must do.
    Vendor vendor = Vendor::Amd;
    int ordinal = 0;
    const OnDevice* on =
        find_device(args, count, CallContext(), vendor, ordinal, error) ? on_device(vendor, ordinal, error) : nullptr;
    if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
    PyErr_Clear();
    const std::string name(on != nullptr ? std::string(on->served.parser.tensor_name(i)) : name_of_tensor(i));
    if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
    const std::string argument(name.empty() ? cat(i + 1) : name);
    return tangent ? refuse_tangent(name_, argument, error) : refuse_gradient(name_, argument, error);
  }
  return true;
}

// Without a bundle: from the package's own list. Empty when that does not know it either.
std::string Operator::name_of_tensor(std::size_t i) const {
  const py::Ref names(names_ ? PyObject_CallObject(names_.get(), nullptr) : nullptr);
  std::string_view text;
  std::string name;
  if (names && py::has_flag(names.get(), py::kFlagTuple) && i < static_cast<std::size_t>(PyTuple_Size(names.get())) &&
      py::read_text(PyTuple_GetItem(names.get(), static_cast<Py_ssize_t>(i)), text))
    name = text;
  py::clear_ordinary();
  return name;
}

bool Operator::find_device(PyObject* const* args, std::size_t count, const CallContext& like, Vendor& vendor,
                           int& ordinal, Error& error) const {
  Error first;
  bool seen = false;
  for (std::size_t i = 0; i < count; ++i) {
    const bool meant = looks_like_tensor(args[i]);
    if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
    if (!meant) continue;
    CallContext call = like;
    CallStorage storage;
    TensorArg tensor;
    Error problem;
    const bool read = read_tensor(args[i], tensor, call, storage, problem);
    if (problem.kind == ErrorKind::Raised) {
      error = std::move(problem);
      return false;
    }
    if (read && vendor_of(tensor.device.device_type) >= 0) {
      vendor = static_cast<Vendor>(vendor_of(tensor.device.device_type));
      ordinal = tensor.device.device_id;
      return true;
    }
    if (read)
      problem.set(ErrorKind::ArgumentDevice, "",
                  cat("must be on the GPU, got ", memory_text(tensor.device.device_type)),
                  "Move the tensors to the GPU first");
    if (!seen) {
      first = std::move(problem);
      const std::string known = name_of_tensor(i);
      first.about(name_, known.empty() ? cat("argument ", i + 1) : known);
    }
    seen = true;
  }
  if (seen) {
    error = std::move(first);
    return false;
  }
  return error.set(ErrorKind::ArgumentKind, name_, cat("none of the ", count, " arguments is a tensor"),
                   "Pass the tensors in the order of the signature");
}

Operator::OnDevice* Operator::on_device(Vendor vendor, int ordinal, Error& error) {
  if (forked_after_open()) {
    fork_error(cat("call ", name_), error);
    return nullptr;
  }
  const auto key = std::pair{vendor, ordinal};
  if (const auto known = devices_.find(key); known != devices_.end()) return known->second.get();
  auto made = std::make_unique<OnDevice>();
  if (!resolve(vendor, ordinal, *made, error)) return nullptr;
  for (const OperatorBlock* block : made->served.merged.blocks) {
    const Bundle& bundle = block->bundle();
    if (static_cast<Vendor>(bundle.root().vendor) == vendor) continue;
    error.set(ErrorKind::BundleTarget,
              cat("call ", name_, " on ", kVendors[static_cast<std::size_t>(vendor)], " device ", ordinal),
              cat(bundle.path(), " is for ", bundle.text(bundle.root().target)),
              "Reinstall the wheel that owns this file");
    return nullptr;
  }
  Driver* driver = opened_driver(vendor);
  if (driver == nullptr) {
    const py::GilRelease released;
    driver = open_driver(vendor, std::string(), error);
  }
  if (driver != nullptr) made->device = device_of(*driver, ordinal, error);
  if (made->device == nullptr) return nullptr;
  made->where = {vendor == Vendor::Amd ? kDLROCM : kDLCUDA, ordinal};
  return devices_.try_emplace(key, std::move(made)).first->second.get();
}

// Asks Python what serves the device: resolve(vendor, ordinal) -> (bundles, compute units[, the user's tuned tables]).
bool Operator::resolve(Vendor vendor, int ordinal, OnDevice& out, Error& error) const {
  const py::Ref arguments = py::tuple(2, [&](std::size_t i) {
    return i == 0 ? py::text(kVendors[static_cast<std::size_t>(vendor)]) : py::integer(ordinal);
  });
  const py::Ref answer(arguments ? PyObject_CallObject(resolve_.get(), arguments.get()) : nullptr);
  if (!answer) return error.set(ErrorKind::Raised, "", "", "");
  std::int64_t compute_units = 0;
  const Py_ssize_t parts = py::has_flag(answer.get(), py::kFlagTuple) ? PyTuple_Size(answer.get()) : 0;
  if ((parts != 2 && parts != 3) || !py::read_integer(PyTuple_GetItem(answer.get(), 1), compute_units)) {
    if (!py::interrupted())
      PyErr_SetString(PyExc_TypeError, "resolve must return (bundles, compute units[, tuned tables])");
    return error.set(ErrorKind::Raised, "", "", "");
  }
  return out.served.build(name_, PyTuple_GetItem(answer.get(), 0), compute_units, error) &&
         (parts == 2 || read_user_tables(PyTuple_GetItem(answer.get(), 2), out.served.merged, error));
}

PyObject* Operator::stats() const {
  std::uint64_t memo_size = 0;
  for (const auto& [key, on] : devices_) memo_size += on->memo.size();
  const py::Ref out(PyDict_New());
  const auto count = [](std::uint64_t value) { return py::integer(static_cast<std::int64_t>(value)); };
  const bool done = out && py::put(out.get(), "calls", count(stats_.calls)) &&
                    py::put(out.get(), "memo_hits", count(stats_.memo_hits)) &&
                    py::put(out.get(), "memo_size", count(memo_size)) &&
                    py::put(out.get(), "selections", count(stats_.selections)) &&
                    py::put(out.get(), "launches", count(stats_.launches)) &&
                    py::put(out.get(), "modules_loaded", count(Device::modules_loaded()));
  return done ? py::Ref::borrow(out.get()).release() : nullptr;
}

}  // namespace apb
