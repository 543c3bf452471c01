#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace deepinfer::model {

/// A regular file mapped read-only for as long as this lives. Nothing is read before it is
/// touched, so a table of 100 GB costs what is looked up in it. A checkpoint must not be truncated
/// while it is in use: touching what is gone kills the process.
class mapped_file {
public:
  [[nodiscard]] static result<mapped_file> open(const std::filesystem::path& path);

  mapped_file(mapped_file&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~mapped_file();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  /// The pages that lie wholly inside the range need not stay in memory; they are read again when
  /// they are touched again. For scans of files larger than the memory.
  void give_back(size_t offset, size_t length) const;

private:
  explicit mapped_file(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace deepinfer::model
