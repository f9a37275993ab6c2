#include "tests/runtime/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> all{0};
thread_local int64_t own = 0;

void* allocate(size_t size, size_t alignment) {
  ++all;
  ++own;
  size_t rounded = (size + alignment) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}

constexpr size_t kDefault = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(size_t size) { return allocate(size, kDefault); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
// The library's own would take memory elsewhere than our delete gives it back.
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, kDefault); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace sigma1 {

int64_t allocation_count() { return all; }
int64_t own_allocation_count() { return own; }

}  // namespace sigma1
