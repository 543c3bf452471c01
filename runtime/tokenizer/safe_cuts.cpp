#include "runtime/tokenizer/tokenizer.hpp"

namespace deepinfer::text {
namespace {

bool is_break(char c) {
  return c == '\r' || c == '\n';
}

// Bytes of characters beyond ASCII count as "may be white space": that only loses cuts.
bool is_solid(char c) {
  return c > ' ' && c != 0x7F;
}

bool may_cut(char before, char after) {
  if (after == ' ' || after == '\t') return is_solid(before);
  return is_break(before) && is_solid(after);
}

}  // namespace

std::vector<size_t> safe_cuts(std::string_view text, size_t part_bytes) {
  std::vector<size_t> cuts;
  for (size_t at = part_bytes == 0 ? 1 : part_bytes; at < text.size();) {
    while (at < text.size() && !may_cut(text[at - 1], text[at])) ++at;
    if (at >= text.size()) break;
    cuts.push_back(at);
    at += part_bytes == 0 ? 1 : part_bytes;
  }
  return cuts;
}

}  // namespace deepinfer::text
