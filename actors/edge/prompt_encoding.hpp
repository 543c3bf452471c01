#pragma once

#include "runtime/base/config.hpp"
#include "runtime/base/metrics.hpp"
#include "runtime/tokenizer/part_cache.hpp"
#include "runtime/tokenizer/prompt_encoder.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// The encoder that all codecs of a process share: it remembers, has helpers, and is measured.
namespace deepinfer {

/// Section `[encoder]`.
struct encoder_config {
  uint32_t helpers = 1;
  uint64_t reuse_bytes = 128 << 20;
  uint64_t reuse_bytes_per_client = 32 << 20;

  template <class V>
  void describe(V& v) {
    v.field("helpers", helpers, between(0, 64),
            "Threads that help the codecs to encode a long prompt.");
    v.bytes("reuse_bytes", reuse_bytes, between(0, int64_t{1} << 36),
            "Prompt text and ids remembered, so that a known beginning is not encoded again; 0: "
            "none.");
    v.bytes("reuse_bytes_per_client", reuse_bytes_per_client, between(0, int64_t{1} << 36),
            "Of that, for one client: those that bring one credential are one.");
  }
};

/// What operators want to know of all prompts together; thread-safe. Members may be null.
struct encoding_metrics {
  counter* prompts = nullptr;
  counter* tokens = nullptr;
  histogram* seconds = nullptr;
};

struct encoding_setup {
  encoder_config config;
  std::shared_ptr<encoding_metrics> metrics;  ///< may be null
  std::function<std::chrono::nanoseconds()> now;
};

struct prompt_encoding {
  std::shared_ptr<text::prompt_encoder> encoder;
  std::shared_ptr<text::part_cache> reuse;  ///< null without

  /// Of the whole process, for the console: every codec shows the same.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> counters() const;
};

/// Fails as `encode_pool::make` does.
[[nodiscard]] result<prompt_encoding> make_prompt_encoding(
    const std::shared_ptr<const text::tokenizer>& tokenizer, const encoding_setup& setup);

}  // namespace deepinfer
