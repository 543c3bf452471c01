#pragma once

#include "proto/types/result.hpp"
#include "runtime/tokenizer/bpe.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::text {

struct tokenizer_limits {
  size_t max_file_bytes = size_t{64} << 20;  ///< the released file has 8 MB
  uint32_t max_vocabulary = 1u << 20;        ///< ids, added tokens included
  size_t max_text_bytes = size_t{64} << 20;  ///< one text to encode
};

/// A token outside the BPE vocabulary's reach: it is only ever produced by name.
struct added_token {
  int32_t id = 0;
  std::string text;
  bool special = false;  ///< left out when decoding "without special tokens"
};

/// What a `tokenizer.json` says, checked: every id in range and used once, all 256 bytes present,
/// every merge between known tokens into a known one, no merge and no byte giving an added token.
struct tokenizer_parts {
  std::vector<std::string> pieces;  ///< id -> bytes; empty for ids without a token
  std::vector<added_token> added;
  std::array<int32_t, 256> byte_ids{};
  std::vector<merge_rule> merges;
  std::vector<std::string> expressions;  ///< Split steps in order, behaviour "Isolated"
};

/// Reads a Hugging Face `tokenizer.json`. Only byte-level BPE without normalizer is supported:
/// anything that would change ids and is not implemented is refused (`unsupported`), never ignored.
[[nodiscard]] result<tokenizer_parts> parse_tokenizer_file(std::string_view json,
                                                           const tokenizer_limits& limits);

}  // namespace deepinfer::text
