#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The safetensors format: a 64-bit header length, a JSON header
/// (name -> {dtype, shape, data_offsets}), then the data the offsets point into.
namespace deepinfer::model {

/// Bounds of what a header may claim before it is believed.
namespace safetensors_limits {
inline constexpr uint64_t header_bytes = uint64_t{100} << 20;
inline constexpr size_t tensors = 1u << 20;
inline constexpr size_t name_bytes = 512;
inline constexpr size_t dimensions = 8;
}  // namespace safetensors_limits

enum class tensor_type : uint8_t {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64,
};

[[nodiscard]] std::string_view to_string(tensor_type type);  ///< as in the header: "BF16"
[[nodiscard]] uint32_t element_bytes(tensor_type type);

/// A tensor inside a mapped file; valid as long as the file is.
struct tensor_view {
  std::string name;
  tensor_type type = tensor_type::u8;
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};

/// "BF16 [192, 64]"
[[nodiscard]] std::string to_string(const tensor_view& tensor);

/// The tensors of one file, sorted by name. `corrupt` when the header is malformed, claims bytes
/// that are not there, or two tensors share a name or bytes; `too_large` over a limit.
[[nodiscard]] result<std::vector<tensor_view>> parse_safetensors(std::span<const std::byte> file);

/// What a header says of one tensor.
struct tensor_layout {
  std::string_view name;
  tensor_type type = tensor_type::u8;
  std::span<const uint64_t> shape;
  uint64_t bytes = 0;
};

/// The start of a file whose data lies in this order without gaps: length field and JSON, padded
/// so that the data begins at a multiple of 8.
[[nodiscard]] std::string safetensors_start(std::span<const tensor_layout> tensors);

/// Writes (and replaces) one file. Shapes must match the bytes.
[[nodiscard]] result<void> write_safetensors(const std::filesystem::path& file,
                                             std::span<const tensor_view> tensors);

}  // namespace deepinfer::model
