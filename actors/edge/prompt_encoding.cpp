#include "actors/edge/prompt_encoding.hpp"

#include "actors/edge/encode_pool.hpp"

#include <algorithm>

namespace deepinfer {
namespace {

class measured_encoder final : public text::prompt_encoder {
public:
  measured_encoder(std::unique_ptr<text::prompt_encoder> real, const encoding_setup& setup)
      : real_(std::move(real)), metrics_(setup.metrics), now_(setup.now) {}

  result<std::vector<int32_t>> encode(std::string_view scope,
                                      std::string_view text,
                                      std::span<const text::special_range> specials) override {
    const auto begun = now_();
    auto ids = real_->encode(scope, text, specials);
    const std::chrono::duration<double> took = now_() - begun;
    if (!ids) return ids;
    if (metrics_->prompts != nullptr) metrics_->prompts->add();
    if (metrics_->tokens != nullptr) metrics_->tokens->add(static_cast<double>(ids->size()));
    if (metrics_->seconds != nullptr) metrics_->seconds->observe(took.count());
    return ids;
  }

private:
  std::unique_ptr<text::prompt_encoder> real_;
  std::shared_ptr<encoding_metrics> metrics_;
  std::function<std::chrono::nanoseconds()> now_;
};

}  // namespace

std::vector<std::pair<std::string, int64_t>> prompt_encoding::counters() const {
  if (!reuse) return {};
  const text::part_cache_counters now = reuse->counters();
  return {{"shared_reused_tokens", static_cast<int64_t>(now.ids_found)},
          {"shared_reused_bytes", static_cast<int64_t>(now.bytes_found)},
          {"shared_remembered_bytes", static_cast<int64_t>(now.bytes)}};
}

result<prompt_encoding> make_prompt_encoding(
    const std::shared_ptr<const text::tokenizer>& tokenizer, const encoding_setup& setup) {
  prompt_encoding made;
  text::part_encoder_options options;
  if (setup.config.reuse_bytes > 0) {
    text::part_cache_limits limits;
    limits.max_bytes = setup.config.reuse_bytes;
    limits.max_scope_bytes =
        std::min(setup.config.reuse_bytes, setup.config.reuse_bytes_per_client);
    options.reuse = made.reuse = std::make_shared<text::part_cache>(limits);
  }
  if (setup.config.helpers > 0) {
    auto pool = encode_pool::make(setup.config.helpers);
    if (!pool) return pool.error();
    options.runner = *std::move(pool);
  }
  auto encoder = text::make_part_encoder(tokenizer, std::move(options));
  if (setup.metrics)
    made.encoder = std::make_shared<measured_encoder>(std::move(encoder), setup);
  else
    made.encoder = std::move(encoder);
  return made;
}

}  // namespace deepinfer
