// topk_softmax for gfx950 (CDNA4). What it does: hsa/include/topk_softmax.inc.
//
// Constants of the manifest, given as preprocessor macros: EXPERTS (row length), PER_LANE (values a lane holds), TOKENS
// (wavefronts, hence tokens, of a workgroup; a power of two up to 16), T (element type of the gating matrix: bf16, f16 or f32).
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.set JOIN(T_, T), 1
.set E, EXPERTS
.set VPT, PER_LANE
.set WAVES, TOKENS

// Two wave-wide sums at once. v_permlane32_swap_b32 exchanges the upper half of `a` with the lower half of `b`, so that one
// add folds both: `a` then sums in lanes 0..31 and `b` in lanes 32..63, and a single DPP chain finishes the two (7 steps where
// gfx942 takes 12). For one value alone (WAVE_MAX) the swap would need a copy, an exchange and a max where row_bcast:31 is one
// instruction; there the targets do not differ.
.macro SUM2_STEP a, control:vararg
  v_add_f32_dpp v[\a], v[\a], v[\a] \control
  s_nop 1
.endm

.macro SUM2 a, b
  v_permlane32_swap_b32_e32 v[\a], v[\b]
  v_add_f32_e32 v[\a], v[\a], v[\b]
  s_nop 1
  SUM2_STEP \a, row_ror:8 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, row_ror:4 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, row_ror:2 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, row_ror:1 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, row_bcast:15 row_mask:0xa bank_mask:0xf
  v_readlane_b32 s[sSum], v[\a], 31
  v_readlane_b32 s[sSel], v[\a], 63
.endm

.include "../include/topk_softmax.inc"
.include "../include/topk_softmax_object.inc"
OBJECT gfx950
