// What the HIP sources here ask of an AMD GPU, said for an NVIDIA one: in front of a source that is compiled for sm_90.
//
// The sources stay as they are, and count on waves of 64 lanes: here a wave is two warps. Lanes of one warp exchange by shuffles; what
// crosses the two goes through shared memory, and then all 64 lanes must be there. `LANES`, where a source has it, says how many lanes
// work together: with 32 or less, values never cross. What is not here does not compile, and its name is the error.
#pragma once

#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define AP_HERE static __device__ __attribute__((always_inline, unused)) inline

#define amdgpu_flat_work_group_size(least, most) launch_bounds(most)
#define __builtin_amdgcn_workitem_id_x() __nvvm_read_ptx_sreg_tid_x()
#define __builtin_amdgcn_workgroup_id_x() __nvvm_read_ptx_sreg_ctaid_x()
#define __builtin_amdgcn_workgroup_id_y() __nvvm_read_ptx_sreg_ctaid_y()
#define __builtin_amdgcn_workgroup_id_z() __nvvm_read_ptx_sreg_ctaid_z()
#define __builtin_amdgcn_fence(order, scope, memory) ((void)0)  // the barrier orders shared memory, too
#define __builtin_amdgcn_s_barrier() __nvvm_barrier_sync(0)
#define __builtin_amdgcn_fmed3f(x, low, high) __builtin_fminf(__builtin_fmaxf(x, low), high)
#define __builtin_amdgcn_rcpf(x) __nvvm_rcp_approx_ftz_f(x)
#define __builtin_amdgcn_rsqf(x) __nvvm_rsqrt_approx_f(x)
#define __builtin_amdgcn_exp2f(x) __nvvm_ex2_approx_f(x)
#define __builtin_amdgcn_readfirstlane(x) (x)  // only of what is the same in all lanes
#define __builtin_amdgcn_cvt_pk_fp8_f32 ap_nvidia::two_codes
#define __builtin_amdgcn_update_dpp(old, x, pattern, rows, banks, bound) \
  ap_nvidia::moved<pattern, rows>(static_cast<int>(old), x)
#define __builtin_amdgcn_ds_bpermute ap_nvidia::from_lane
#define __builtin_amdgcn_readlane(x, lane) ap_nvidia::from_one(x, lane)
#define __builtin_amdgcn_ballot_w64 ap_nvidia::ballot

namespace ap_nvidia {

inline constexpr unsigned kWaves = 16;  // of a block at most

AP_HERE unsigned lane() { return __nvvm_read_ptx_sreg_tid_x() % 64; }
AP_HERE unsigned wave() { return __nvvm_read_ptx_sreg_tid_x() / 64; }

// Both warps of a wave. There are 15 barriers beside that of the block: in a block of 16 waves all wait for all.
AP_HERE void wave_sync() {
  if (static_cast<unsigned>(__nvvm_read_ptx_sreg_ntid_x()) > 64 * (kWaves - 1))
    __nvvm_barrier_sync(0);
  else
    __nvvm_barrier_sync_cnt(1 + wave(), 64);
}

// Two numbers to OCP e4m3 in the lower or upper half; the others of `old` stay.
AP_HERE unsigned two_codes(float a, float b, unsigned old, bool upper) {
  unsigned codes = static_cast<unsigned short>(__nvvm_ff_to_e4m3x2_rn(b, a));
  return upper ? (old & 0xffffu) | codes << 16 : (old & 0xffff0000u) | codes;
}

AP_HERE int from_warp(int x, unsigned from) { return __nvvm_shfl_sync_idx_i32(__nvvm_activemask(), x, from, 31); }

// Of a lane of the wave, the same for all.
AP_HERE int from_one(int x, unsigned from) {
  __shared__ int held[kWaves];
  wave_sync();  // nobody still reads the last one
  if (lane() == from) held[wave()] = x;
  wave_sync();
  return held[wave()];
}

// Of lane address / 4.
AP_HERE int from_lane(int address, int x) {
  unsigned from = static_cast<unsigned>(address) / 4 % 64;
#if defined(LANES) && LANES <= 32
  return from_warp(x, from % 32);
#else
  __shared__ int held[kWaves][64];
  wave_sync();
  held[wave()][lane()] = x;
  wave_sync();
  return held[wave()][from];
#endif
}

AP_HERE unsigned long long ballot(bool said) {
  __shared__ unsigned held[kWaves][2];
  unsigned mine = __nvvm_vote_ballot_sync(0xffffffffu, said);
  wave_sync();
  if (lane() % 32 == 0) held[wave()][lane() / 32] = mine;
  wave_sync();
  return static_cast<unsigned long long>(held[wave()][1]) << 32 | held[wave()][0];
}

// DPP: a pattern of lanes in rows of 16. `old` where a lane has none to read, and in rows that are not asked for.
template <int PATTERN, int ROWS>
AP_HERE int moved(int old, int x) {
  unsigned at = lane() % 16, row = lane() / 16;
  bool wanted = ROWS >> row & 1;
  if constexpr (PATTERN < 0x100) {  // quad_perm: two bits for each lane of four
    unsigned from = at / 4 * 4 + (PATTERN >> at % 4 * 2 & 3);
    int other = from_warp(x, row % 2 * 16 + from);
    return wanted ? other : old;
  } else if constexpr (PATTERN > 0x110 && PATTERN < 0x120) {  // row_shr
    constexpr unsigned apart = PATTERN - 0x110;
    int other = from_warp(x, row % 2 * 16 + (at - apart) % 16);
    return wanted && at >= apart ? other : old;
  } else if constexpr (PATTERN == 0x140 || PATTERN == 0x141) {  // row_mirror, row_half_mirror
    int other = from_warp(x, row % 2 * 16 + (PATTERN == 0x140 ? 15 - at : at ^ 7));
    return wanted ? other : old;
  } else if constexpr (PATTERN == 0x142) {  // row_bcast:15, into the row behind
    int other = from_warp(x, 15);
    static_assert(!(ROWS & 4), "into row 2 it would cross");
    return wanted && row % 2 ? other : old;
  } else {
    static_assert(PATTERN == 0x143, "a pattern that nobody has needed here");
    int other = from_one(x, 31);  // row_bcast:31
    return wanted && row > 1 ? other : old;
  }
}

}  // namespace ap_nvidia

