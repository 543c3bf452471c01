#pragma once

#include "proto/types/check.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace deepinfer::storage {

/// For tables that are looked up all over: asks the kernel for large pages, since with small ones
/// every look-up also misses the translation cache (opening a store of 10 M records took a third
/// longer). What is small stays with the heap.
template <class T>
struct large_memory {
  using value_type = T;
  static constexpr size_t page = size_t{2} << 20;

  large_memory() = default;
  template <class U>
  large_memory(const large_memory<U>&) {}

  [[nodiscard]] T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < 2 * page) return static_cast<T*>(::operator new(bytes));
    void* made = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    DEEPINFER_CHECK(made != nullptr);
    static_cast<void>(::madvise(made, bytes / page * page, MADV_HUGEPAGE));  // a kernel may not
    return static_cast<T*>(made);
  }
  void deallocate(T* made, size_t count) {
    if (count * sizeof(T) < 2 * page)
      ::operator delete(made);
    else
      std::free(made);
  }
  friend bool operator==(const large_memory&, const large_memory&) { return true; }
};

}  // namespace deepinfer::storage
