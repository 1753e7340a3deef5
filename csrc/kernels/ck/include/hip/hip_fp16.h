// Stand-in for ROCm's hip/hip_fp16.h, which the pip toolchain does not carry.
// ck_tile includes that header for two names only; its own half type is the compiler's _Float16.
// Never put this folder before a real ROCm include folder: there the true header must win.
#pragma once

#include <cassert>

using __half  = _Float16;
using __half2 = _Float16 __attribute__((ext_vector_type(2)));
