#include "runtime/tokenizer/deepseek_classes.hpp"

#include <utf8proc.h>

namespace deepinfer::text {
namespace {

/// White_Space of the Unicode property list: not the same as category Z, and without U+001C-1F.
bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

uint8_t category_of(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return number;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return punctuation;
    default:
      return 0;
  }
}

}  // namespace

uint8_t classify(char32_t c) noexcept {
  if (c >= 0x4E00 && c <= 0x9FA5) return letter | cjk;  // most of what is not ASCII in many texts
  uint8_t found = category_of(c);
  if (is_white_space(c)) found |= space;
  if (c == '\r' || c == '\n') found |= line_break;
  if (c >= 0x3040 && c <= 0x30FF) found |= cjk;
  if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) found |= ascii_letter;
  return found;
}

const std::array<uint8_t, 128> ascii_classes = [] {
  std::array<uint8_t, 128> table{};
  for (char32_t c = 0; c < 128; ++c) table[c] = classify(c);
  return table;
}();

}  // namespace deepinfer::text
