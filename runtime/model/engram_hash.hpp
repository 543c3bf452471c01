#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace deepinfer::model {

/// Prime moduli of the hash columns, per Engram layer, n-gram-major. One global search that never
/// hands out a prime twice; each (layer, n-gram) row starts again at `prime_start` and ascends.
[[nodiscard]] std::vector<std::vector<uint64_t>> engram_primes(const engram_config& config);

/// Table rows of the Engram layers as a function of token ids alone.
class engram_hash {
public:
  /// A look-back position before the sequence's first token.
  static constexpr int64_t no_token = -1;

  /// `side_file` is engram_meta.json: {compressed_vocab_size, token_map, multipliers}.
  /// `invalid_argument` when it does not fit the configuration.
  [[nodiscard]] static result<engram_hash> make(const engram_config& config,
                                                uint32_t vocabulary,
                                                std::string_view side_file);

  /// Number of the class of tokens whose text normalises alike.
  [[nodiscard]] int64_t compressed(int32_t token) const { return token_map_[token]; }
  [[nodiscard]] size_t mapped_tokens() const { return token_map_.size(); }
  [[nodiscard]] const std::vector<std::vector<int64_t>>& multipliers() const {
    return multipliers_;
  }
  /// Compressed ids kept behind the current one.
  [[nodiscard]] uint32_t look_back() const { return longest_ngram_ - 1; }
  [[nodiscard]] uint32_t columns() const { return longest_ngram_ <= 1 ? 0 : look_back() * heads_; }

  /// `recent[i]` is the compressed id i positions back, `recent[0]` the token's own; the first
  /// `no_token` blocks everything behind it. Writes one table row per column.
  void rows(uint32_t layer_number, std::span<const int64_t> recent, std::span<int64_t> out) const;

private:
  engram_hash() = default;

  uint32_t longest_ngram_ = 1;
  uint32_t heads_ = 0;
  int64_t pad_ = 0;
  std::vector<int64_t> token_map_;
  std::vector<std::vector<int64_t>> multipliers_;  ///< [layer][look-back]
  std::vector<std::vector<uint64_t>> primes_;      ///< [layer][column]
  std::vector<std::vector<int64_t>> offsets_;      ///< [layer][column], into that layer's table
};

}  // namespace deepinfer::model
