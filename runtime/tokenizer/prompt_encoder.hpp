#pragma once

#include "proto/types/result.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer::text {

/// How rendered prompts become ids. Every implementation gives exactly the ids, and the failures,
/// of `tokenizer::encode`; they differ in what they remember and how many threads they use.
class prompt_encoder {
public:
  virtual ~prompt_encoder() = default;

  /// `scope` separates clients that must not learn of each other's prompts, by time or otherwise
  /// (a tenant). Safe to call from several threads at once.
  [[nodiscard]] virtual result<std::vector<int32_t>> encode(
      std::string_view scope, std::string_view text, std::span<const special_range> specials) = 0;
};

/// Encodes every prompt anew, in the calling thread.
[[nodiscard]] std::unique_ptr<prompt_encoder> make_plain_encoder(
    std::shared_ptr<const tokenizer> source);

}  // namespace deepinfer::text
