// In place of CK's header of host classes, which reads <regex>: what gridwise headers name of it. A wrapper's instance is one that
// AITER compiles, so whether CK would refuse it is not asked.
#pragma once

#include "ck/utility/get_id.hpp"

namespace ck {
namespace tensor_operation {
namespace device {

struct BaseArgument
{
};

template <index_t, index_t, index_t, index_t, index_t, index_t, index_t, typename,
          InMemoryDataOperationEnum = InMemoryDataOperationEnum::Set>
__device__ constexpr bool IsValidGemmCompilationParameter();

} // namespace device
} // namespace tensor_operation
} // namespace ck

#define IS_VALID_COMPILATION_PARAMETER_IMPL(type)
