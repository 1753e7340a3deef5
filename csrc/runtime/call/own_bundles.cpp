#include "call/own_bundles.h"

#include <algorithm>
#include <utility>

#include "python_glue.h"

namespace apb {
namespace {

constexpr const char* kModule = "aiter_prebuilt.bundles.own_bundles";

// refuse(path, operator, error). What goes wrong there must not end the call that the product serves.
void report(std::string_view name, const RefusedBundle& refused) {
  const py::Ref module(PyImport_ImportModule(kModule));
  const py::Ref refuse(module ? PyObject_GetAttrString(module.get(), "refuse_operator") : nullptr);
  const py::Ref arguments = refuse ? py::tuple(3,
                                               [&](std::size_t i) {
                                                 return i == 2
                                                            ? py::exception(refused.error)
                                                            : py::text(i == 0 ? std::string_view(refused.path) : name);
                                               })
                                   : py::Ref();
  const py::Ref done(arguments ? PyObject_CallObject(refuse.get(), arguments.get()) : nullptr);
  py::clear_ordinary();
}

}  // namespace

bool report_refused(std::string_view name, MergedOperator& merged, Error& error) {
  for (const RefusedBundle& refused : std::exchange(merged.refused, {})) {
    report(name, refused);
    if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
  }
  return true;
}

bool drop_own(std::string_view name, MergedOperator& merged, const OperatorBlock* block, Error& error) {
  if (error.kind != ErrorKind::Load && error.kind != ErrorKind::BundleDamaged) return false;
  const auto place = std::ranges::find(merged.blocks, block);
  if (place == merged.blocks.end()) return false;
  return merged.drop(static_cast<std::size_t>(place - merged.blocks.begin()), error) &&
         report_refused(name, merged, error);
}

}  // namespace apb
