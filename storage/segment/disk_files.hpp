#pragma once

#include "storage/segment/file_layer.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace deepinfer::storage {

struct disk_options {
  enum class caching : uint8_t {
    page_cache,  ///< through the kernel's cache
    direct,      ///< past it where the file system can (falls back by itself)
  };
  enum class submission : uint8_t {
    ring,   ///< io_uring, many operations at once (falls back by itself)
    calls,  ///< one system call an operation: any file system, any kernel
  };
  caching cache = caching::page_cache;
  submission submit = submission::ring;
  uint32_t queue_depth = 64;  ///< operations in flight per ring
  uint32_t rings = 4;         ///< calls of `run` at one time; more of them use system calls
  /// Operations in a ring fail when the device has answered none of them for so long. System calls
  /// cannot be given up, so while a ring waits for its device, reads do not go around it.
  std::chrono::milliseconds patience = std::chrono::seconds{10};
};

/// What was really got, for reports.
struct disk_report {
  bool ring = false;
  bool direct = false;
  uint32_t stuck_rings = 0;  ///< that wait for a device
};

/// Files of one folder of a mounted file system; the folder is made if it is not there.
class disk_files : public file_layer {
public:
  static result<std::unique_ptr<disk_files>> in(const std::string& folder,
                                                const disk_options& options);
  [[nodiscard]] virtual disk_report report() const = 0;
};

}  // namespace deepinfer::storage
