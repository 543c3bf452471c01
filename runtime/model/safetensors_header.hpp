#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/safetensors.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// What the header of a safetensors file says, before it is compared with the file.
namespace deepinfer::model {

/// One entry; nothing of it is to be believed yet.
struct tensor_claim {
  std::string name;
  tensor_type type = tensor_type::u8;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  ///< offsets into the data behind the header
  uint64_t end = 0;

  /// Bytes that type and shape call for; nothing when they do not fit 64 bits.
  [[nodiscard]] std::optional<uint64_t> needed_bytes() const;
};

/// "BF16 [192, 64]"
[[nodiscard]] std::string to_string(const tensor_claim& claim);

struct safetensors_header {
  uint64_t data_start = 0;           ///< offset of the data in the file
  std::vector<tensor_claim> claims;  ///< in the header's order
  std::vector<failure> malformed;    ///< entries that say no type, shape or range
};

/// Fails when there is no readable header at all: `corrupt`, or `too_large` over a limit.
[[nodiscard]] result<safetensors_header> read_safetensors_header(std::span<const std::byte> file);

/// The type a header names, if there is such a type.
[[nodiscard]] std::optional<tensor_type> parse_tensor_type(std::string_view name);

}  // namespace deepinfer::model
