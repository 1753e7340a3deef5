/* Names that an instrumented library calls and the preloaded runtimes lack, or must not find in the library itself. Built
 * without instrumentation.
 *
 * A recent clang calls __tsan_mem*, which an older libtsan lacks: they are the functions that libtsan intercepts. And a
 * library with a C++ runtime of its own would guard its function-local statics unseen: libtsan's guards are asked instead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#ifdef APB_THREAD
void* __tsan_memcpy(void* to, const void* from, size_t count) { return memcpy(to, from, count); }
void* __tsan_memmove(void* to, const void* from, size_t count) { return memmove(to, from, count); }
void* __tsan_memset(void* to, int value, size_t count) { return memset(to, value, count); }

typedef int (*Acquire)(uint64_t*);
typedef void (*Release)(uint64_t*);

int __cxa_guard_acquire(uint64_t* guard) { return ((Acquire)dlsym(RTLD_DEFAULT, "__cxa_guard_acquire"))(guard); }
void __cxa_guard_release(uint64_t* guard) { ((Release)dlsym(RTLD_DEFAULT, "__cxa_guard_release"))(guard); }
void __cxa_guard_abort(uint64_t* guard) { ((Release)dlsym(RTLD_DEFAULT, "__cxa_guard_abort"))(guard); }
#else
/* How much of a deque's block is in use: an older libasan keeps no such books, and checks the blocks as wholes. */
void __sanitizer_annotate_double_ended_contiguous_container(const void* start, const void* end, const void* old_start,
                                                            const void* old_end, const void* new_start,
                                                            const void* new_end) {
  (void)start, (void)end, (void)old_start, (void)old_end, (void)new_start, (void)new_end;
}
#endif
