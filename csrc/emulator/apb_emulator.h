/* Entry points of the emulator that HIP does not have. C, stable within one version of the library; used by the Python package
 * aiter_prebuilt_emulator (coverage, counters) and by the instruction tests. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library is built with hidden symbols */

/* All strings are owned by the library's caller: free them with apb_emulator_free. Null: out of memory. */
void apb_emulator_free(char* text);
const char* apb_emulator_version(void);

/* {"version": 1, "target": ..., "instructions": [{"mnemonic", "count", "decoded", "executable"}]} or {"version": 1, "error": ...} */
char* apb_emulator_coverage(const void* image, size_t bytes);
/* What the loader reads of a code object, without a device: {"version": 1, "isa", "code_object", "kernels": [...]} or
 * {"version": 1, "error": ...} */
char* apb_emulator_metadata(const void* image, size_t bytes);
/* Source lines of a code object: {"version": 1, "files": [...], "lines": [{"offset", "frames": [{"function", "file", "line",
 * "column"}]}]}, offsets in the code at which the line changes; frames from the line to what it was inlined into. */
char* apb_emulator_lines(const void* image, size_t bytes);
/* What is wrong with a filter of AITER_PREBUILT_EMULATOR_TRACE, in words; empty when it is right. */
char* apb_emulator_trace_problem(const char* filter);
/* Counters since the start or the last reset, {"version": 2, "kernels": [...], "launches": [...], "findings": [{"kernel", "finding",
 * "offset", "source" (where the code says it), "count"}]}, and when some of rocprofv3's were asked for "pmc": {"counters", "dispatches", "dropped", "kernels"} */
char* apb_emulator_counters(void);
void apb_emulator_reset_counters(void);
/* rocprofv3's counters that there are, and why the others are not: {"version": 1, "counters": [{"name", "exactness", "targets",
 * "meaning"}], "absent": [{"names", "reason"}]} */
char* apb_emulator_pmc(void);
/* The message of the last kernel that faulted in this process, null before the first. Valid for ever: do not free. */
const char* apb_emulator_last_fault(void);
/* "v_add_f32_e32 v0, s1, v2" of the instruction at `code`; its size in dwords in *dwords (0: unknown, text says so). target: 942 or 950. */
char* apb_emulator_disassemble(int target, const uint32_t* code, size_t dwords_available, uint32_t address,
                               uint32_t* dwords);

/* One wave without a kernel, for tests: runs `code` until s_endpgm, its end, or `limit` instructions. */
typedef struct apb_wave_state { /* NOLINT(modernize-use-using): C */
  uint32_t vector[512 * 64];    /* v0.., then a0..; [register][lane] */
  uint32_t scalar[128];         /* s0..s101, 106 vcc, 124 m0, 126 exec */
  uint32_t scc, mode, pc;       /* pc in dwords */
  uint32_t lds_bytes;
  uint8_t* lds;
} apb_wave_state;
/* 0, or a fault kind (-1: the call itself is wrong) with its message in *message (null otherwise).
 * limit 0: none. Scratch: 4096 bytes per lane. Global addresses must be live HIP allocations or registered. */
int apb_emulator_run_wave(int target, const uint32_t* code, size_t dwords, apb_wave_state* state, uint64_t limit,
                          char** message);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
