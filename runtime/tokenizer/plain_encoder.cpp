#include "runtime/tokenizer/prompt_encoder.hpp"

#include <utility>

namespace deepinfer::text {
namespace {

class plain_encoder final : public prompt_encoder {
public:
  explicit plain_encoder(std::shared_ptr<const tokenizer> source) : source_(std::move(source)) {}

  result<std::vector<int32_t>> encode(std::string_view /*scope*/,
                                      std::string_view text,
                                      std::span<const special_range> specials) override {
    return source_->encode(text, specials);
  }

private:
  std::shared_ptr<const tokenizer> source_;
};

}  // namespace

std::unique_ptr<prompt_encoder> make_plain_encoder(std::shared_ptr<const tokenizer> source) {
  return std::make_unique<plain_encoder>(std::move(source));
}

}  // namespace deepinfer::text
