#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace deepinfer::storage {

/// An open file of a `file_layer`, which alone knows what is in it. Closed by its destructor.
class stored_file {
public:
  virtual ~stored_file() = default;
};

/// One read or write. The bytes are two spans that lie behind one another in the file, so that a
/// block and its footer are one operation.
struct file_operation {
  enum class kind : uint8_t { read, write };
  enum class outcome : uint8_t {
    pending,
    done,    ///< all bytes; a read at the end of the file gives what there is, see `transferred`
    failed,  ///< the medium refused
    full,    ///< no space left
  };

  kind what = kind::read;
  stored_file* file = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> head, tail;  ///< a write does not change them
  outcome result = outcome::pending;
  uint64_t transferred = 0;
};

/// What a caller does for single operations while others are on their way, on its own thread.
struct operation_hooks {
  /// Before its bytes are looked at: it may still change head and tail.
  std::function<void(file_operation&)> begins = [](file_operation&) {};
  /// It has its outcome.
  std::function<void(const file_operation&)> ended = [](const file_operation&) {};
};

struct listed_file {
  std::string name;
  uint64_t bytes = 0;
};

/// The few things a store does with files, in one folder: the seam between stores and the
/// operating system, where tests put crashes and damage. From any thread; operations on the same
/// bytes of a file at one time are the caller's mistake.
class file_layer {
public:
  virtual ~file_layer() = default;

  /// A new file of `bytes` zeros, with space set aside where the medium can: writing inside a file
  /// is faster than making it longer. `invalid_argument` if the name is taken.
  virtual result<std::shared_ptr<stored_file>> create(const std::string& name, uint64_t bytes) = 0;
  virtual result<std::shared_ptr<stored_file>> open(const std::string& name) = 0;
  virtual result<std::vector<listed_file>> list() = 0;
  /// Cuts what lies behind `bytes`.
  virtual result<void> trim(const std::string& name, uint64_t bytes) = 0;
  /// Readers that have it open go on reading.
  virtual result<void> remove(const std::string& name) = 0;
  /// Runs all of them, in any order, and returns when all have an outcome. Each begins and ends at
  /// most once.
  virtual void run(std::span<file_operation> operations, const operation_hooks& hooks) = 0;
  void run(std::span<file_operation> operations) { run(operations, operation_hooks{}); }
  /// The file's bytes are on the device.
  virtual result<void> sync(stored_file& file) = 0;
  /// Names of created files are on the device.
  virtual result<void> sync_names() = 0;
};

}  // namespace deepinfer::storage
