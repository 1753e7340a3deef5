#include "choice/bind.h"

#include <bitset>
#include <vector>

#include "tensors/footprint.h"
#include "tensors/shape.h"

namespace apb {
namespace {

class Binder {
 public:
  Binder(const OperatorBlock& block, const Call& call, Binding& binding, Error& error)
      : block_(block),
        call_(call),
        binding_(binding),
        error_(error),
        shaped_(block.tensors().size()),
        footprints_(block.tensors().size()) {}

  bool run(std::int64_t compute_units);

 private:
  const layout::Tensor& spec(std::size_t i) const { return block_.tensors()[i]; }
  const TensorArg& arg(std::size_t i) const { return call_.tensors[i]; }
  std::span<const layout::Dim> dims(std::size_t i) const { return block_.array(spec(i).dims); }
  std::span<const layout::Dim> strides(std::size_t i) const { return block_.array(spec(i).strides); }
  std::string_view slot_name(std::size_t slot) const { return block_.text(block_.array(block_.op().slots)[slot]); }
  std::size_t rank(std::size_t i) const { return arg(i).ndim < 0 ? 0 : static_cast<std::size_t>(arg(i).ndim); }
  std::string shape_text(std::size_t i) const { return list_text(arg(i).shape, rank(i)); }
  std::string strides_text(std::size_t i) const { return list_text(arg(i).strides, rank(i)); }
  std::string signature_text(std::size_t i) const;

  // `found`: a predicate, such as "must be contiguous, got ...". The tensor's name becomes its subject.
  bool refuse(ErrorKind kind, std::size_t i, const std::string& found, std::string fix);
  void set_slot(std::size_t slot, std::int64_t value) {
    binding_.slots[slot] = value;
    bound_.set(slot);
  }

  void bind_attributes(std::int64_t compute_units);
  bool look_at_tensor(std::size_t i);
  bool check_device(std::size_t i);
  bool check_type(std::size_t i);
  bool check_layout(std::size_t i);
  bool check_own_overlap(std::size_t i);
  bool check_memory(std::size_t i);
  bool is_scalar_for_one(std::size_t i) const;
  bool check_shape(std::size_t i);
  bool bind_dims(std::size_t i);
  bool check_dim_expressions(std::size_t i);
  bool bind_strides(std::size_t i);
  void bind_free_strides(std::size_t i);
  bool check_stride_expressions(std::size_t i);
  bool evaluate(std::size_t i, layout::Code code, const char* what, std::int64_t& value);

  const OperatorBlock& block_;
  const Call& call_;
  Binding& binding_;
  Error& error_;
  std::bitset<kMaxSlots> bound_;
  std::vector<Shaped> shaped_;
  std::vector<Footprint> footprints_;
  std::size_t device_from_ = kMaxTensors;  // the first given tensor
};

bool Binder::run(std::int64_t compute_units) {
  const std::size_t count = block_.tensors().size();
  for (std::size_t i = 0; i < block_.op().slots.count; ++i) binding_.slots[i] = 0;
  for (std::size_t i = 0; i < block_.op().floats.count; ++i) binding_.floats[i] = 0;
  binding_.types.fill(kOpenType);
  bind_attributes(compute_units);
  for (std::size_t i = 0; i < count; ++i) {
    if (!look_at_tensor(i)) return false;
  }
  const auto each_given = [&](auto&& step) {
    for (std::size_t i = 0; i < count; ++i) {
      if (arg(i).given && !step(i)) return false;
    }
    return true;
  };
  return each_given([&](std::size_t i) { return bind_dims(i); }) &&
         each_given([&](std::size_t i) { return check_dim_expressions(i); }) &&
         each_given([&](std::size_t i) { return bind_strides(i); }) && each_given([&](std::size_t i) {
           bind_free_strides(i);
           return true;
         }) &&
         each_given([&](std::size_t i) { return check_stride_expressions(i); });
}

std::string Binder::signature_text(std::size_t i) const {
  std::string out = "[";
  for (const layout::Dim& dim : dims(i)) {
    if (out.size() > 1)
      out += ", ";
    else if (spec(i).star != 0)
      out += '*';
    const auto kind = static_cast<DimKind>(dim.kind);
    std::int64_t value = 0;
    if (kind == DimKind::Bind)
      out += slot_name(dim.slot);
    else if (kind == DimKind::Any)
      out += '_';
    else if (evaluate_program(block_.code(dim.code), binding_.slots.data(), value) == EvaluateStatus::Ok)
      out += cat(value);
    else
      out += '?';
  }
  return out + ']';
}

bool Binder::refuse(ErrorKind kind, std::size_t i, const std::string& found, std::string fix) {
  return error_.set(kind, cat(block_.name()), cat(block_.text(spec(i).name), " ", found), std::move(fix));
}

void Binder::bind_attributes(std::int64_t compute_units) {
  const auto attributes = block_.attributes();
  binding_.texts = {call_.texts.data(), attributes.size()};
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (static_cast<AttributeKind>(attributes[i].kind) == AttributeKind::Float) {
      binding_.floats[attributes[i].slot] = call_.reals[i];
    } else {
      set_slot(attributes[i].slot, call_.integers[i]);
    }
  }
  if (block_.cus_slot() >= 0) set_slot(static_cast<std::size_t>(block_.cus_slot()), compute_units);
}

bool Binder::look_at_tensor(std::size_t i) {
  set_slot(spec(i).given_slot, arg(i).given ? 1 : 0);
  set_slot(spec(i).address_slot, arg(i).given ? static_cast<std::int64_t>(arg(i).address) : 0);
  if (!arg(i).given) {
    if (spec(i).optional != 0) return true;
    return refuse(ErrorKind::ArgumentKind, i, "must be a tensor, got None", "");
  }
  return check_device(i) && check_type(i) && check_layout(i) && check_shape(i) && check_memory(i);
}

bool Binder::check_device(std::size_t i) {
  const DLDevice device = arg(i).device;
  const int vendor = vendor_of(device.device_type);
  if (vendor < 0) {
    return refuse(ErrorKind::ArgumentDevice, i, cat("must be on the GPU, got ", memory_text(device.device_type)),
                  "Move it to the GPU first");
  }
  if (device_from_ == kMaxTensors) device_from_ = i;
  const DLDevice first = arg(device_from_).device;
  if (vendor_of(first.device_type) == vendor && first.device_id == device.device_id) return true;
  return refuse(ErrorKind::ArgumentDevice, i,
                cat("must be on device ", first.device_id, ", as ", block_.text(spec(device_from_).name),
                    " is; got device ", device.device_id),
                "Move all tensors of a call to one device");
}

bool Binder::check_type(std::size_t i) {
  const layout::Tensor& tensor = spec(i);
  const std::uint32_t dtype = arg(i).dtype;
  const auto wrong = [&](const std::string& wanted) {
    const bool fp8 = ((dtype & 0xff) == kDTypes[10].dlpack_code || (dtype & 0xff) == kDTypes[11].dlpack_code) &&
                     wanted.find("e4m3") != std::string::npos;
    return refuse(
        ErrorKind::ArgumentDType, i, cat("must be ", wanted, ", got ", dtype_text(dtype)),
        fp8 ? "e4m3fn and e4m3fnuz encode different numbers: convert to the type of this GPU" : "Convert it first");
  };
  if (tensor.type_var == kNone8) {
    return dtype == pack_dtype(kDTypes[tensor.dtype]) || wrong(kDTypes[tensor.dtype].name);
  }
  const layout::TypeVariable& variable = block_.array(block_.op().type_variables)[tensor.type_var];
  std::uint8_t& bound = binding_.types[tensor.type_var];
  if (bound != kOpenType) {
    if (dtype == pack_dtype(kDTypes[bound])) return true;
    return wrong(cat(kDTypes[bound].name, ", as the other tensors of type ", block_.text(variable.name), " are"));
  }
  std::string wanted;
  for (const std::uint8_t number : block_.array(variable.allowed)) {
    if (dtype == pack_dtype(kDTypes[number])) {
      bound = number;
      return true;
    }
    wanted += cat(wanted.empty() ? "" : " or ", kDTypes[number].name);
  }
  return wrong(wanted);
}

bool Binder::check_memory(std::size_t i) {
  if (shaped_[i].empty) return true;
  if (arg(i).address == 0) {
    return refuse(ErrorKind::ArgumentDevice, i, "has elements but no memory: it is a fake or meta tensor",
                  "Pass a tensor with storage");
  }
  const std::uint64_t bytes = footprints_[i].bytes;
  if (arg(i).address + bytes < bytes) {
    return refuse(ErrorKind::ArgumentStride, i,
                  cat("must end within 64-bit addresses, got ", bytes, " bytes at ", hex_text(arg(i).address)),
                  "Pass the tensor's own address and strides");
  }
  // Memory instructions fault or split on an element that straddles its own size.
  const std::uint64_t align = std::max<std::uint64_t>(spec(i).align, element_bytes(arg(i).dtype));
  if (align <= 1 || arg(i).address % align == 0) return true;
  return refuse(ErrorKind::ArgumentAlignment, i,
                cat("must be aligned to ", align, " bytes, got the address ", hex_text(arg(i).address)),
                cat("Copy it with clone(), or slice at a multiple of ", align, " bytes"));
}

// Programs and kernels reckon with offsets that grow: a negative stride would read and write in front of the tensor.
bool Binder::check_layout(std::size_t i) {
  if (arg(i).ndim < 0 || rank(i) > kMaxRank) return true;  // check_shape has the words
  Footprint& footprint = footprints_[i];
  switch (find_footprint(arg(i), footprint)) {
    case LayoutProblem::None: return check_own_overlap(i);
    case LayoutProblem::Shape:
      return refuse(ErrorKind::ArgumentShape, i,
                    cat("must be a shape of sizes from 0 that fit 64 bits, got ", shape_text(i)), "");
    case LayoutProblem::NegativeStride:
      return refuse(ErrorKind::ArgumentStride, i,
                    cat("must have no negative stride, got strides ", strides_text(i), " with shape ", shape_text(i)),
                    "Call contiguous() on it, or copy it");
    case LayoutProblem::TooFar: break;
  }
  return refuse(ErrorKind::ArgumentStride, i,
                cat("must fit 64-bit offsets, got strides ", strides_text(i), " with shape ", shape_text(i)),
                "Pass the tensor's own strides, in elements");
}

bool Binder::check_own_overlap(std::size_t i) {
  if (static_cast<Role>(spec(i).role) == Role::In || !overlaps_itself(arg(i))) return true;
  return refuse(
      ErrorKind::ArgumentStride, i,
      cat("is written and must not overlap itself, got strides ", strides_text(i), " with shape ", shape_text(i)),
      "Pass a tensor that is not expanded, or call contiguous() on it and copy back");
}

// vLLM and others pass one number, such as a scale, as a 0-dim tensor where a signature says [1].
bool Binder::is_scalar_for_one(std::size_t i) const {
  return arg(i).ndim == 0 && dims(i).size() == 1 && static_cast<DimKind>(dims(i)[0].kind) == DimKind::Expression;
}

bool Binder::check_shape(std::size_t i) {
  switch (shape_tensor(arg(i), dims(i).size(), spec(i).star != 0 || is_scalar_for_one(i), shaped_[i])) {
    case ShapeProblem::None: break;
    case ShapeProblem::Rank:
      return refuse(ErrorKind::ArgumentShape, i,
                    cat("must be ", signature_text(i), ", got ", shape_text(i), " (", arg(i).ndim, " dims)"),
                    "Reshape it");
    case ShapeProblem::Impossible:
      return refuse(ErrorKind::ArgumentShape, i,
                    cat("must be a shape of sizes from 0 that fit 64 bits, got ", shape_text(i)), "");
    case ShapeProblem::NotCollapsible:
      return refuse(ErrorKind::ArgumentStride, i,
                    cat("must have leading dims that collapse into one, got strides ", strides_text(i), " with shape ",
                        shape_text(i)),
                    "Call contiguous() on it, or pass it with one leading dim");
  }
  if (spec(i).contiguous == 0 || is_dense(shaped_[i])) return true;
  return refuse(ErrorKind::ArgumentStride, i,
                cat("must be contiguous, got strides ", strides_text(i), " with shape ", shape_text(i)),
                "Call contiguous() on it");
}

bool Binder::bind_dims(std::size_t i) {
  const auto all = dims(i);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (static_cast<DimKind>(all[d].kind) != DimKind::Bind) continue;
    const std::size_t slot = all[d].slot;
    const std::int64_t size = shaped_[i].size[d];
    if (!bound_.test(slot)) set_slot(slot, size);
    if (binding_.slots[slot] != size) {
      return refuse(ErrorKind::ArgumentShape, i,
                    cat("must be ", signature_text(i), ", got ", shape_text(i), ": ", slot_name(slot), " is ",
                        binding_.slots[slot], " in the arguments before it, not ", size),
                    "");
    }
  }
  return true;
}

bool Binder::evaluate(std::size_t i, layout::Code code, const char* what, std::int64_t& value) {
  const EvaluateStatus status = evaluate_program(block_.code(code), binding_.slots.data(), value);
  if (status == EvaluateStatus::Ok) return true;
  return refuse(ErrorKind::ArgumentShape, i, cat("has ", what, " that cannot be checked: ", evaluate_text(status)),
                "Check the sizes of the other arguments");
}

bool Binder::check_dim_expressions(std::size_t i) {
  const auto all = dims(i);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (static_cast<DimKind>(all[d].kind) != DimKind::Expression) continue;
    std::int64_t wanted = 0;
    if (!evaluate(i, all[d].code, "a shape", wanted)) return false;
    if (shaped_[i].size[d] != wanted) {
      return refuse(ErrorKind::ArgumentShape, i,
                    cat("must be ", signature_text(i), ", got ", shape_text(i), ": dim ", d, " must be ", wanted), "");
    }
  }
  return true;
}

bool Binder::bind_strides(std::size_t i) {
  const auto all = strides(i);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (static_cast<DimKind>(all[d].kind) != DimKind::Bind || shaped_[i].size[d] <= 1 || shaped_[i].empty) continue;
    const std::size_t slot = all[d].slot;
    if (!bound_.test(slot)) set_slot(slot, shaped_[i].stride[d]);
    if (binding_.slots[slot] != shaped_[i].stride[d]) {
      return refuse(ErrorKind::ArgumentStride, i,
                    cat("must have the same ", slot_name(slot), " as the arguments before it, ", binding_.slots[slot],
                        "; got strides ", strides_text(i)),
                    "Pass tensors whose strides agree, or make them contiguous");
    }
  }
  return true;
}

void Binder::bind_free_strides(std::size_t i) {
  const auto all = strides(i);
  for (std::size_t d = 0; d < all.size(); ++d) {
    const bool symbol = static_cast<DimKind>(all[d].kind) == DimKind::Bind;
    if (symbol && !bound_.test(all[d].slot)) set_slot(all[d].slot, dense_stride(shaped_[i], d));
  }
}

bool Binder::check_stride_expressions(std::size_t i) {
  const auto all = strides(i);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (static_cast<DimKind>(all[d].kind) != DimKind::Expression || shaped_[i].size[d] <= 1 || shaped_[i].empty)
      continue;
    std::int64_t wanted = 0;
    if (!evaluate(i, all[d].code, "strides", wanted)) return false;
    if (shaped_[i].stride[d] != wanted) {
      return refuse(ErrorKind::ArgumentStride, i,
                    cat("must have stride ", wanted, " in dim ", d, ", got strides ", strides_text(i)),
                    "Call contiguous() on it");
    }
  }
  return true;
}

}  // namespace

bool bind(const OperatorBlock& block, const Call& call, std::int64_t compute_units, Binding& binding, Error& error) {
  return Binder(block, call, binding, error).run(compute_units);
}

}  // namespace apb
