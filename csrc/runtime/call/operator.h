// One operator as callers see it: finds what serves the device of the call, binds, remembers, launches.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "call/memo.h"
#include "choice/arguments.h"
#include "choice/select.h"
#include "driver/module_cache.h"
#include "python_glue.h"
#include "tensors/views.h"

namespace apb {

// The operator on one kind of device: the merged blocks of the bundles that serve it.
struct ServedOperator {
  std::vector<py::Ref> bundles;  // keeps them open
  MergedOperator merged;
  ArgumentParser parser;
  AddressUse address_use;
  std::int64_t compute_units = 0;

  // Merges `bundles` (a tuple of Bundle). False with an Error, or Raised.
  [[nodiscard]] bool build(std::string_view name, PyObject* bundle_tuple, std::int64_t cus, Error& error);
};

struct OperatorStats {
  std::uint64_t calls = 0;
  std::uint64_t memo_hits = 0;
  std::uint64_t selections = 0;  // calls that were bound and judged afresh
  std::uint64_t launches = 0;
};

class Operator {
 public:
  // `names`: called without arguments for the names of the tensors, when no bundle is there to say them; or null.
  // `restated`: called with the arguments of a call that was refused for shapes, strides, types or a gradient, or that no kernel takes, for
  // the arguments to call with instead and what to call after that, or None; with views= and such arguments where torch has to dispatch
  // the call, which it then does; or null.
  Operator(std::string name, py::Ref resolve, py::Ref names, py::Ref restated)
      : name_(std::move(name)),
        resolve_(std::move(resolve)),
        names_(std::move(names)),
        restated_(std::move(restated)) {}

  const std::string& name() const { return name_; }

  // One call; `stream` is the keyword's value or null, `viewing` says how tensors are seen, or is null. None, or null with an
  // exception set.
  PyObject* call(PyObject* const* args, std::size_t count, PyObject* stream, Viewing* viewing = nullptr);

  // The attributes of a call with these arguments, which it was just called with, for call_read. `out` stays unknown where some
  // may be others the next time, or nothing is served yet.
  void fix(PyObject* const* args, std::size_t count, FixedArguments& out) const;

  // A call whose tensors were read before, with `fixed` of fix(): launched where a call like it was launched before, on the
  // device of the last one. Tensors that ask for a gradient are not among them. `known`: null, or where the launch is noted; the
  // one that stands there is launched while it holds, of a call in which nothing else is than when it was noted.
  Done call_read(std::span<const TensorArg* const> tensors, const FixedArguments& fixed, const DLPackExchangeAPI* api,
                 Viewing* viewing, KnownLaunch* known);

  // The decisions for these arguments with these bundles and the user's tuned tables (null: none); nothing is opened or
  // launched.
  PyObject* explain(PyObject* bundle_tuple, std::int64_t compute_units, PyObject* tables, PyObject* const* args,
                    std::size_t count, Viewing* viewing) const;

  // Loads what a call with these arguments would launch, or all kernels when `args` is null.
  PyObject* preload(Vendor vendor, int ordinal, PyObject* const* args, std::size_t count, Viewing* viewing);

  PyObject* stats() const;

 private:
  struct OnDevice {
    ServedOperator served;
    DLDevice where;  // as the tensors name it
    Device* device = nullptr;
    Memo memo;
  };

  Prepared* find_fast(OnDevice& on, PyObject* const* args, std::size_t count, Viewing* viewing, Call& call,
                      void*& stream);
  // The same of one whose arguments are in `call`.
  Prepared* find_parsed(OnDevice& on, Viewing* viewing, Call& call, const KnownLaunch* known, void*& stream);
  Prepared* find_remembered(OnDevice& on, const Call& call);
  PyObject* launch_known(Device& device, Prepared& prepared, const Call& call, void* stream);
  PyObject* call_slow(PyObject* const* args, std::size_t count, PyObject* stream, Viewing* viewing);
  bool run_slow(PyObject* const* args, std::size_t count, PyObject* stream, Viewing* viewing, Error& error);
  // A call that was refused with `error`, once more with other arguments. False where there are none, with the error as it was.
  bool run_restated(PyObject* const* args, std::size_t count, Viewing* viewing, Error& error);
  // The same through torch's dispatcher, if a tensor is one that only torch can read. It leaves the error as it was, or raises torch's.
  bool run_dispatched(PyObject* const* args, std::size_t count, const Viewing* viewing, Error& error);
  // False when an argument asks for a gradient that torch would record.
  bool check_gradients(PyObject* const* args, std::size_t count, Error& error);
  std::string name_of_tensor(std::size_t i) const;
  // `like` has the stream that exporting a tensor may need.
  bool find_device(PyObject* const* args, std::size_t count, const CallContext& like, Vendor& vendor, int& ordinal,
                   Error& error) const;
  OnDevice* on_device(Vendor vendor, int ordinal, Error& error);
  bool resolve(Vendor vendor, int ordinal, OnDevice& out, Error& error) const;
  // `key` is null for a call that cannot be remembered; `unkept` then owns the answer.
  Prepared* prepare_call(OnDevice& on, const Call& call, const MemoKey* key, std::unique_ptr<Prepared>& unkept,
                         Error& error);
  // The bytes of two tensors of a call meet. Returns false.
  bool check_runtime(const OnDevice& on, const Call& call, Error& error) const;
  bool refuse_overlap(const OnDevice& on, const MemoryPair& pair, const Call& call, Error& error) const;
  bool load_all(OnDevice& on, Error& error) const;

  std::string name_;
  py::Ref resolve_;
  py::Ref names_;
  py::Ref restated_;
  std::map<std::pair<Vendor, int>, std::unique_ptr<OnDevice>> devices_;
  OnDevice* current_ = nullptr;  // that of the last call
  OperatorStats stats_;
  std::unique_ptr<Call> spare_call_;
  std::unique_ptr<MemoKey> key_;  // of the call that looks itself up; no Python runs meanwhile
};

// Binds one binding per block and selects.
[[nodiscard]] bool decide(const ServedOperator& served, const Call& call, std::vector<Binding>& bindings,
                          std::vector<Decision>& decisions, LaunchPlan& plan, Error& error);

}  // namespace apb
