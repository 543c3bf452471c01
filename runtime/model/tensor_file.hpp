#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/tensor_table.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace deepinfer::model {

/// A safetensors file whose tensors are written piece by piece, in any order, without ever being
/// whole in memory. Pieces that are never written read as zeros.
class tensor_file {
public:
  /// Makes (and replaces) `path` with the header of `entries`; their data follows in this order.
  /// `no_capacity` when the file system refuses.
  [[nodiscard]] static result<tensor_file> create(const std::filesystem::path& path,
                                                  std::span<const table_entry> entries);

  tensor_file(tensor_file&& other) noexcept
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        start_(std::move(other.start_)) {}
  tensor_file& operator=(tensor_file&&) = delete;
  ~tensor_file();

  [[nodiscard]] bool holds(std::string_view tensor) const { return start_.contains(tensor); }
  /// The tensor must be one of the file's; the piece must lie inside it.
  [[nodiscard]] result<void> write(std::string_view tensor,
                                   uint64_t offset,
                                   std::span<const std::byte> bytes) const;
  /// Reports what a delayed write could not do.
  [[nodiscard]] result<void> close();

private:
  explicit tensor_file(std::filesystem::path path) : path_(std::move(path)) {}
  [[nodiscard]] result<void> write_at(uint64_t place, std::span<const std::byte> bytes) const;
  [[nodiscard]] failure trouble() const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::map<std::string, uint64_t, std::less<>> start_;  ///< place of each tensor in the file
};

}  // namespace deepinfer::model
