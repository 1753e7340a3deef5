// What moe_sorting.hip instantiates: ck_tile's kernel that sorts in one workgroup, while others zero the buffer behind.
//
// ck_tile starts another instance where all tokens fit into LDS at once (SubTokenOneShot).  That one lacks a barrier: a wave moves an
// expert's end on while others have yet to read it as the next one's begin.  The instance that walks has the barrier, and takes both.
#pragma once

#include "../include/aiter_ck/config.hpp"

#include "ck_tile/ops/fused_moe/kernel/moe_sorting_kernel.hpp"
#include "ck_tile/ops/fused_moe/kernel/moe_sorting_problem.hpp"

namespace tile {

// Rows of LDS that are no tokens': counts, and ends.
inline constexpr int other_rows = 2;

template <bool Masked>
using MoeSorting = ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int, float, 1, false, Masked, false>>;

}  // namespace tile
