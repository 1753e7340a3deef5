// topk_softmax for gfx942 (CDNA3). What it does: hsa/include/topk_softmax.inc.
//
// Constants of the manifest, given as preprocessor macros: EXPERTS (row length), PER_LANE (values a lane holds), TOKENS
// (wavefronts, hence tokens, of a workgroup; a power of two up to 16), T (element type of the gating matrix: bf16, f16 or f32).
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.set JOIN(T_, T), 1
.set E, EXPERTS
.set VPT, PER_LANE
.set WAVES, TOKENS

// Two wave-wide sums at once. CDNA3 has no exchange of rows between two registers, so there are two DPP chains; they are
// interleaved, and each step of one stands in the two wait states (write, then DPP read) of the other.
.macro SUM2_STEP a, b, control:vararg
  v_add_f32_dpp v[\a], v[\a], v[\a] \control
  v_add_f32_dpp v[\b], v[\b], v[\b] \control
  s_nop 0
.endm

.macro SUM2 a, b
  SUM2_STEP \a, \b, row_ror:8 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, \b, row_ror:4 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, \b, row_ror:2 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, \b, row_ror:1 row_mask:0xf bank_mask:0xf
  SUM2_STEP \a, \b, row_bcast:15 row_mask:0xa bank_mask:0xf
  SUM2_STEP \a, \b, row_bcast:31 row_mask:0xc bank_mask:0xf
  v_readlane_b32 s[sSum], v[\a], 63
  v_readlane_b32 s[sSel], v[\b], 63
.endm

.include "../include/topk_softmax.inc"
.include "../include/topk_softmax_object.inc"
OBJECT gfx942
