#include "runtime/recipe/messages/block_format.hpp"

namespace deepinfer::recipe::messages {

void block_format::open(std::string& out, block_kind what, std::string_view name) {
  close(out);
  current_ = {what, opened_++, called_, name};
  if (what == block_kind::tool_use) ++called_;
  is_open_ = true;
  start_block(out, current_);
  current_.name = {};
}

void block_format::close(std::string& out) {
  if (is_open_) stop_block(out, current_);
  is_open_ = false;
}

void block_format::begin(std::string& out, const token_usage& prompt) {
  start_message(out, prompt);
  // A thinking answer begins with its thoughts, even if none come.
  if (thinking_) open(out, block_kind::thinking, {});
}

void block_format::chunk(std::string& out, const choice_chunk& piece) {
  using kind = output_chunk::kind;
  if (piece.what == kind::call) return open(out, block_kind::tool_use, piece.text);
  const block_kind what = piece.what == kind::arguments   ? block_kind::tool_use
                          : piece.what == kind::reasoning ? block_kind::thinking
                                                          : block_kind::text;
  if (!is_open_ || current_.what != what) {
    if (what == block_kind::tool_use) return;  // arguments of no call
    open(out, what, {});
  }
  extend_block(out, current_, piece.text);
}

void block_format::end(std::string& out, const choice_end& how) {
  close(out);
  stop_message(out, how);
}

}  // namespace deepinfer::recipe::messages
