#include "runtime/tokenizer/splitter.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <utf8proc.h>

#include <array>

namespace deepinfer::text {
namespace {

// What the expressions can ask about a character. Exactly one of the first six for a general
// category that an expression names, none of them for C (other) and Z (separator).
enum : uint8_t {
  letter = 1,         // \p{L}
  mark = 2,           // \p{M}
  number = 4,         // \p{N}
  punctuation = 8,    // \p{P} or \p{S}
  space = 16,         // \s, which is White_Space
  line_break = 32,    // CR or LF
  cjk = 64,           // the second expression's class
  ascii_letter = 128  // [A-Za-z]
};

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

uint8_t classify(char32_t c) {
  uint8_t found = category_of(c);
  if (is_white_space(c)) found |= space;
  if (c == '\r' || c == '\n') found |= line_break;
  if ((c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF)) found |= cjk;
  if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) found |= ascii_letter;
  return found;
}

const std::array<uint8_t, 128> ascii_classes = [] {
  std::array<uint8_t, 128> table{};
  for (char32_t c = 0; c < 128; ++c) table[c] = classify(c);
  return table;
}();

/// One segment (a stretch that the first two expressions left whole) under the third expression.
class scanner {
public:
  scanner(std::string_view text, std::vector<uint32_t>& ends) : text_(text), ends_(ends) {}

  void run(size_t begin, size_t end) {
    end_ = end;
    size_t unmatched = begin;  // start of characters that no alternative took so far
    for (size_t at = begin; at < end;) {
      const size_t stop = match(at);
      if (stop == at) {
        at += look(at).bytes;
        continue;
      }
      if (unmatched != at) emit(at);
      emit(stop);
      at = unmatched = stop;
    }
    if (unmatched != end) emit(end);
  }

  struct character {
    uint8_t classes;
    uint32_t bytes;
  };
  [[nodiscard]] character look(size_t at) const {
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 128) return {ascii_classes[byte], 1};
    const code_point found = decode_at(text_, at);
    return {classify(found.value), found.bytes};
  }

private:
  void emit(size_t end) { ends_.push_back(static_cast<uint32_t>(end)); }

  /// End of the run of characters in `wanted` that starts at `at`.
  [[nodiscard]] size_t run_of(uint8_t wanted, size_t at) const {
    while (at < end_) {
      const character next = look(at);
      if ((next.classes & wanted) == 0) break;
      at += next.bytes;
    }
    return at;
  }

  /// End of the match at `at`, or `at`. Alternatives in the order of the expression.
  [[nodiscard]] size_t match(size_t at) const {
    const character first = look(at);
    const size_t second = at + first.bytes;
    // [ASCII punctuation][A-Za-z]+
    if ((first.classes & punctuation) != 0 && first.bytes == 1) {
      const size_t stop = run_of(ascii_letter, second);
      if (stop != second) return stop;
    }
    // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ : a mark may serve as the optional character, with the
    // same result as when it starts the run.
    if ((first.classes & (letter | mark)) != 0) return run_of(letter | mark, second);
    if ((first.classes & (line_break | punctuation)) == 0) {
      const size_t stop = run_of(letter | mark, second);
      if (stop != second) return stop;
    }
    //  ?[\p{P}\p{S}]+[\r\n]*
    const size_t after_space = text_[at] == ' ' ? second : at;
    const size_t after_marks = run_of(punctuation, after_space);
    if (after_marks != after_space) return run_of(line_break, after_marks);
    return (first.classes & space) != 0 ? match_space(at) : at;
  }

  /// \s*[\r\n]+|\s+(?!\S)|\s+ on a run of white space: up to its last line break; else, at the end
  /// of the segment, all of it; else all but the last character, which goes to what follows.
  [[nodiscard]] size_t match_space(size_t at) const {
    size_t stop = at, last = at, after_break = at;
    while (stop < end_) {
      const character next = look(stop);
      if ((next.classes & space) == 0) break;
      last = stop;
      stop += next.bytes;
      if ((next.classes & line_break) != 0) after_break = stop;
    }
    if (after_break != at) return after_break;
    return stop == end_ || last == at ? stop : last;
  }

  std::string_view text_;
  std::vector<uint32_t>& ends_;
  size_t end_ = 0;
};

class deepseek_splitter final : public splitter {
public:
  result<void> split(std::string_view text, std::vector<uint32_t>& ends) const override {
    scanner scan(text, ends);
    size_t begin = 0;
    while (begin < text.size()) {
      // A maximal run of numbers, of the CJK class, or of neither.
      const auto first = scan.look(begin);
      const uint8_t kind = first.classes & (number | cjk);
      size_t end = begin;
      size_t digits = 0;
      while (end < text.size()) {
        const auto next = scan.look(end);
        if ((next.classes & (number | cjk)) != kind) break;
        end += next.bytes;
        if (kind == number && ++digits % 3 == 0) ends.push_back(static_cast<uint32_t>(end));
      }
      if (kind != number) {
        scan.run(begin, end);
      } else if (digits % 3 != 0) {
        ends.push_back(static_cast<uint32_t>(end));
      }
      begin = end;
    }
    return {};
  }
};

}  // namespace

const std::vector<std::string>& deepseek_expressions() {
  static const std::vector<std::string> expressions = {
      "\\p{N}{1,3}",
      "[一-龥぀-ゟ゠-ヿ]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
      "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
      "\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
  };
  return expressions;
}

std::unique_ptr<splitter> make_deepseek_splitter() {
  return std::make_unique<deepseek_splitter>();
}

}  // namespace deepinfer::text
