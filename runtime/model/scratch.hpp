#pragma once

#include <cstddef>
#include <vector>

namespace deepinfer::model {

/// Scratch memory that only grows.
template <class T>
T* room(std::vector<T>& memory, size_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

}  // namespace deepinfer::model
