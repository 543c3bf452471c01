#pragma once

#include "proto/types/result.hpp"
#include "runtime/tokenizer/part_cache.hpp"
#include "runtime/tokenizer/part_runner.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstddef>
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

/// What a part encoder works with, and its limits. `reuse` and `runner` may be null.
struct part_encoder_options {
  std::shared_ptr<part_cache>
      reuse;  ///< remembers parts; may be shared by encoders of one tokenizer
  std::shared_ptr<part_runner> runner;  ///< threads for what has to be encoded
  size_t part_bytes = 2048;             ///< least size of a part: what one changed byte costs
  size_t least_job_bytes = 16 * 1024;   ///< less than two jobs of this is not worth a second thread
};

/// Cuts prompts into parts, takes what `reuse` knows, and has the rest encoded by `runner`: an
/// appended message costs itself, not its conversation, and a long one costs several threads a
/// share each.
[[nodiscard]] std::unique_ptr<prompt_encoder> make_part_encoder(
    std::shared_ptr<const tokenizer> source, part_encoder_options options);

/// Encodes every prompt anew, in the calling thread.
[[nodiscard]] std::unique_ptr<prompt_encoder> make_plain_encoder(
    std::shared_ptr<const tokenizer> source);

}  // namespace deepinfer::text
