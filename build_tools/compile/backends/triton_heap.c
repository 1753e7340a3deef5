// The heap of a process that compiles, at addresses that are the same on every machine and in every run.
//
// LLVM's Reassociate and the order of its pointer maps depend on where objects lie. glibc's heaps lie where the kernel's address
// randomisation puts them: a thread's second heap of 64 MiB is now above the first and now below it, and with it an addition
// has its operands in one order or the other. Preloaded, this gives addresses in the order of the requests from one fixed place.
// A fork starts at the next fixed place and gives back nothing of what its parent had, so that the parent's history, which
// knows the lengths of paths and the size of the environment, does not show either.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17
#endif

enum {
  UNIT = 16,            // alignment of every block, and the size of its header
  STEP = 64 << 20,      // bytes taken from the kernel at once
  FINE = 64,            // classes of UNIT bytes each: up to 1 KiB
  CLASSES = FINE + 128  // then four to each power of two
};

// Far below where Linux puts programs (0x55..) and libraries (0x7f..), and far above what an executable links at.
#define PLACE UINT64_C(0x100000000000)
// From a process's place to that of its forks: more than any of them asks for.
#define APART (UINT64_C(1) << 40)

typedef struct Header {
  uint64_t start;  // of the block, before its header; an aligned one lies further in
  uint32_t class;
  uint32_t unused;
} Header;

static atomic_flag busy = ATOMIC_FLAG_INIT;
static uint64_t bottom = PLACE, top = PLACE, end = PLACE;
static void* given_back[CLASSES];

static void lock(void) {
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
}

static void unlock(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static void forked(void) {
  bottom = top = end = bottom + APART;
  memset(given_back, 0, sizeof given_back);
  unlock();
}

__attribute__((constructor)) static void begin(void) { pthread_atfork(lock, unlock, forked); }

static uint32_t class_of(uint64_t size) {
  uint64_t units = (size + UNIT - 1) / UNIT;
  if (units <= FINE) return units ? (uint32_t)units - 1 : 0;
  uint32_t power = 63 - (uint32_t)__builtin_clzll(units - 1);
  return FINE + (power - 6) * 4 + (uint32_t)((units - 1) >> (power - 2) & 3);
}

static uint64_t size_of(uint32_t class) {
  if (class < FINE) return (uint64_t)(class + 1) * UNIT;
  uint32_t power = (class - FINE) / 4 + 6, part = (class - FINE) % 4;
  return ((UINT64_C(5) + part) << (power - 2)) * UNIT;
}

static uint64_t take(uint64_t size) {
  while (top + size > end) {
    uint64_t step = (size + STEP - 1) / STEP * STEP;
    void* got = mmap((void*)end, step, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != (void*)end) return 0;
    end += step;
  }
  uint64_t start = top;
  top += size;
  return start;
}

static void* allocate(uint64_t size, uint64_t alignment) {
  if (size > UINT64_C(1) << 40 || alignment > UINT64_C(1) << 30) {
    errno = ENOMEM;
    return NULL;
  }
  uint64_t more = alignment > UNIT ? alignment : 0;
  uint32_t class = class_of(size + more);
  lock();
  uint64_t start = (uint64_t)given_back[class];
  if (start)
    given_back[class] = *(void**)start;
  else
    start = take(size_of(class) + UNIT);
  unlock();
  if (!start) {
    errno = ENOMEM;
    return NULL;
  }
  uint64_t block = start + UNIT;
  if (more) block = (block + alignment - 1) / alignment * alignment;
  *(Header*)(block - UNIT) = (Header){start, class, 0};
  return (void*)block;
}

static Header* header_of(void* block) { return (Header*)((uint64_t)block - UNIT); }

static size_t room(void* block) {
  Header* header = header_of(block);
  return header->start + UNIT + size_of(header->class) - (uint64_t)block;
}

void* malloc(size_t size) { return allocate(size, UNIT); }

void free(void* block) {
  if (!block) return;
  Header header = *header_of(block);
  if (header.start < bottom) return;  // the parent's
  lock();
  *(void**)header.start = given_back[header.class];
  given_back[header.class] = (void*)header.start;
  unlock();
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void* block = allocate(bytes, UNIT);
  return block ? memset(block, 0, bytes) : NULL;
}

void* realloc(void* block, size_t size) {
  if (!block) return malloc(size);
  if (size && size <= room(block)) return block;
  void* other = malloc(size);
  if (!other) return NULL;
  size_t kept = room(block);
  memcpy(other, block, kept < size ? kept : size);
  free(block);
  return other;
}

void* reallocarray(void* block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, bytes);
}

void* aligned_alloc(size_t alignment, size_t size) { return allocate(size, alignment); }

void* memalign(size_t alignment, size_t size) { return allocate(size, alignment); }

int posix_memalign(void** out, size_t alignment, size_t size) {
  void* block = allocate(size, alignment);
  if (!block) return ENOMEM;
  *out = block;
  return 0;
}

void* valloc(size_t size) { return allocate(size, 4096); }

void* pvalloc(size_t size) { return allocate((size + 4095) / 4096 * 4096, 4096); }

size_t malloc_usable_size(void* block) { return block ? room(block) : 0; }
