#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::image {

/// Standard base64 (RFC 4648): no white space, no other alphabet, no stray bits in the last
/// character. One leniency, which the published service has too: where the text ends with '=', any
/// number of them is read as the right one. `invalid_argument` otherwise, `too_large` when more
/// than `most_bytes` would come out; nothing is allocated before that is known.
[[nodiscard]] result<std::vector<std::byte>> decode_base64(std::string_view text,
                                                           size_t most_bytes);

/// Content carried inside a URL (RFC 2397).
struct data_url {
  std::string media_type;  ///< lower case, without parameters; may be empty
  std::vector<std::byte> bytes;
};

/// True when `url` begins with "data:" in any case.
[[nodiscard]] bool is_data_url(std::string_view url);

/// `data:[type][;parameter]...;base64,<data>`; other encodings are `unsupported`.
[[nodiscard]] result<data_url> parse_data_url(std::string_view url, size_t most_bytes);

}  // namespace deepinfer::image
