// What AITER's HIP sources use of torch, in our own words. Their host code is parsed and never emitted: it says which kernels there
// are. So nothing here has a body but the 16-bit floats, with which kernels compute.
#pragma once

#include <hip/hip_runtime.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace c10 {

// A 16-bit float that computes in float and rounds each result to nearest even.
template <typename Bits>
struct narrow {
  Bits value;

  narrow() = default;
  __host__ __device__ constexpr narrow(float x) : value(static_cast<Bits>(x)) {}
  __host__ __device__ constexpr operator float() const { return static_cast<float>(value); }
};
struct Half : narrow<_Float16> {
  using narrow::narrow;
};
struct BFloat16 : narrow<__bf16> {
  using narrow::narrow;
};
#define STAND_IN_OPERATOR(T, OP)                                                        \
  __host__ __device__ inline T operator OP(const T& a, const T& b) {                    \
    return static_cast<float>(a) OP static_cast<float>(b);                              \
  }                                                                                     \
  __host__ __device__ inline float operator OP(const T& a, float b) {                   \
    return static_cast<float>(a) OP b;                                                  \
  }                                                                                     \
  __host__ __device__ inline float operator OP(float a, const T& b) {                   \
    return a OP static_cast<float>(b);                                                  \
  }                                                                                     \
  __host__ __device__ inline T& operator OP##=(T & a, const T & b) { return a = a OP b; }
#define STAND_IN_OPERATORS(T) \
  STAND_IN_OPERATOR(T, +) STAND_IN_OPERATOR(T, -) STAND_IN_OPERATOR(T, *) STAND_IN_OPERATOR(T, /)
STAND_IN_OPERATORS(Half)
STAND_IN_OPERATORS(BFloat16)
#undef STAND_IN_OPERATORS
#undef STAND_IN_OPERATOR

struct Float8_e4m3fnuz {
  uint8_t x;
  struct from_bits_t {};
  __host__ __device__ static constexpr from_bits_t from_bits() { return {}; }
  Float8_e4m3fnuz() = default;
  __host__ __device__ constexpr Float8_e4m3fnuz(uint8_t bits, from_bits_t) : x(bits) {}
};
struct Float8_e4m3fn {
  uint8_t x;
};

enum class ScalarType : int8_t {
  Byte,
  Char,
  Short,
  Int,
  Long,
  Half,
  Float,
  Double,
  Bool,
  BFloat16,
  Float8_e4m3fn,
  Float8_e4m3fnuz,
  Float4_e2m1fn_x2,
};
std::ostream& operator<<(std::ostream&, ScalarType);

enum class DeviceType : int8_t { CPU, CUDA };
struct Device {
  Device(DeviceType, int = 0);
  bool is_cuda() const;
  bool is_cpu() const;
  int index() const;
  bool operator==(Device) const;
  bool operator!=(Device) const;
};
[[noreturn]] __host__ __device__ void failed();

}  // namespace c10

namespace caffe2 {
struct TypeMeta {
  c10::ScalarType toScalarType() const;
  size_t itemsize() const;
  operator c10::ScalarType() const;
};
bool operator==(TypeMeta, c10::ScalarType);
bool operator!=(TypeMeta, c10::ScalarType);
}  // namespace caffe2

namespace at {
using c10::BFloat16;
using c10::Device;
using c10::DeviceType;
using c10::Float8_e4m3fn;
using c10::Float8_e4m3fnuz;
using c10::Half;
using c10::ScalarType;
#define STAND_IN_TYPE(NAME, OF) inline constexpr ScalarType NAME = ScalarType::OF;
STAND_IN_TYPE(kByte, Byte)
STAND_IN_TYPE(kUInt8, Byte)
STAND_IN_TYPE(kChar, Char)
STAND_IN_TYPE(kInt8, Char)
STAND_IN_TYPE(kShort, Short)
STAND_IN_TYPE(kInt, Int)
STAND_IN_TYPE(kInt32, Int)
STAND_IN_TYPE(kLong, Long)
STAND_IN_TYPE(kInt64, Long)
STAND_IN_TYPE(kHalf, Half)
STAND_IN_TYPE(kFloat16, Half)
STAND_IN_TYPE(kFloat, Float)
STAND_IN_TYPE(kFloat32, Float)
STAND_IN_TYPE(kDouble, Double)
STAND_IN_TYPE(kBool, Bool)
STAND_IN_TYPE(kBFloat16, BFloat16)
STAND_IN_TYPE(kFloat8_e4m3fn, Float8_e4m3fn)
STAND_IN_TYPE(kFloat8_e4m3fnuz, Float8_e4m3fnuz)
STAND_IN_TYPE(kFloat4_e2m1fn_x2, Float4_e2m1fn_x2)
#undef STAND_IN_TYPE
inline constexpr DeviceType kCUDA = DeviceType::CUDA;
inline constexpr DeviceType kCPU = DeviceType::CPU;

struct TensorOptions {
  TensorOptions();
  TensorOptions(ScalarType);
  TensorOptions dtype(ScalarType) const;
  TensorOptions device(Device) const;
  TensorOptions device(DeviceType) const;
};

class Tensor {
 public:
  int64_t size(int64_t) const;
  int64_t stride(int64_t) const;
  int64_t numel() const;
  int64_t dim() const;
  int64_t element_size() const;
  int64_t itemsize() const;
  std::vector<int64_t> sizes() const;
  ScalarType scalar_type() const;
  caffe2::TypeMeta dtype() const;
  Device device() const;
  TensorOptions options() const;
  bool is_contiguous() const;
  bool is_cuda() const;
  bool defined() const;
  void* data_ptr() const;
  template <typename T>
  T* data_ptr() const;
  template <typename T>
  T item() const;
  Tensor operator[](int64_t) const;
  Tensor to(Device) const;
  Tensor view(std::vector<int64_t>) const;
};

struct Generator {};
struct PhiloxCudaState {
  union value {
    uint64_t number;
    int64_t* pointer;
  };
  value seed_, offset_;
  uint32_t offset_intragraph_ = 0;
  bool captured_ = false;
};
struct CUDAGeneratorImpl {
  std::mutex mutex_;
  PhiloxCudaState philox_cuda_state(uint64_t);
};
template <typename T>
T* get_generator_or_default(const std::optional<Generator>&, const Generator&);
Tensor& sum_out(Tensor&, const Tensor&, int64_t);
Tensor empty(std::vector<int64_t>, TensorOptions);
Tensor from_blob(void*, std::vector<int64_t>, TensorOptions);
Device device_of(const Tensor&);

namespace cuda::detail {
const Generator& getDefaultCUDAGenerator();
}
namespace cuda::philox {
__device__ inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState s) {
  if (s.captured_) {
    return {static_cast<uint64_t>(*s.seed_.pointer), static_cast<uint64_t>(*s.offset_.pointer) + s.offset_intragraph_};
  }
  return {s.seed_.number, s.offset_.number};
}
}  // namespace cuda::philox
namespace hip {
hipStream_t getCurrentHIPStream();
struct OptionalHIPGuardMasqueradingAsCUDA {
  explicit OptionalHIPGuardMasqueradingAsCUDA(Device);
};
}  // namespace hip

// The element type that a dispatch hands to its body.
template <ScalarType>
struct cpp_type;
template <>
struct cpp_type<ScalarType::Byte> { using type = uint8_t; };
template <>
struct cpp_type<ScalarType::Char> { using type = int8_t; };
template <>
struct cpp_type<ScalarType::Short> { using type = int16_t; };
template <>
struct cpp_type<ScalarType::Int> { using type = int; };
template <>
struct cpp_type<ScalarType::Long> { using type = int64_t; };
template <>
struct cpp_type<ScalarType::Half> { using type = Half; };
template <>
struct cpp_type<ScalarType::Float> { using type = float; };
template <>
struct cpp_type<ScalarType::Double> { using type = double; };
template <>
struct cpp_type<ScalarType::BFloat16> { using type = BFloat16; };
}  // namespace at

namespace torch {
using namespace at;
}

// No do-while: one use ends without a semicolon.
#define TORCH_CHECK(HOLDS, ...) \
  if (!(HOLDS)) {               \
    c10::failed();              \
  }
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_DISPATCH_CASE(OF, ...)                   \
  case OF: {                                        \
    using scalar_t = typename at::cpp_type<OF>::type; \
    return __VA_ARGS__();                           \
  }
#define AT_DISPATCH_SWITCH(OF, NAME, ...) \
  [&] {                                   \
    switch (static_cast<c10::ScalarType>(OF)) { \
      __VA_ARGS__                         \
      default: c10::failed();             \
    }                                     \
  }()
