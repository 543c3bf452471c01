#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace deepinfer::text {

/// Turns output ids into text one by one, never releasing half a character. Ids are held back
/// while their text ends inside a character (or in one that cannot be decoded); they are released,
/// and counted, together. What is still held when the output ends gives neither text nor count.
class stream_decoder {
public:
  /// What one id released: `tokens` is 0 while ids are held back.
  struct released {
    std::string_view text;  ///< well-formed; valid until the next push
    uint32_t tokens = 0;
  };

  explicit stream_decoder(std::shared_ptr<const tokenizer> source) : source_(std::move(source)) {}

  [[nodiscard]] released push(int32_t id);

private:
  std::shared_ptr<const tokenizer> source_;
  std::string held_;  // bytes of the ids not yet released; bounded by the length of the output
  std::string text_;
  uint32_t held_ids_ = 0;
};

}  // namespace deepinfer::text
