// Stand-in for ROCm's hip/hip_bfloat16.h, which the pip toolchain does not carry.
// ck_tile includes that header and uses no name of it: its own bfloat16 is a type of its own.
// Never put this folder before a real ROCm include folder: there the true header must win.
#pragma once
