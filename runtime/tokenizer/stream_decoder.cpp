#include "runtime/tokenizer/stream_decoder.hpp"

#include "runtime/tokenizer/utf8.hpp"

#include <utility>

namespace deepinfer::text {

stream_decoder::released stream_decoder::push(int32_t id) {
  held_ += source_->token_text(id);
  ++held_ids_;
  if (ends_undecided(held_)) return {};
  text_.clear();
  append_lossy(text_, held_);
  held_.clear();
  return {text_, std::exchange(held_ids_, 0)};
}

}  // namespace deepinfer::text
