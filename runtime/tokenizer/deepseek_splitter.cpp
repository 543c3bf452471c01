#include "runtime/tokenizer/deepseek_classes.hpp"
#include "runtime/tokenizer/splitter.hpp"

#include <algorithm>

namespace deepinfer::text {
namespace {

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
        at += look_at(text_, at).bytes;
        continue;
      }
      if (unmatched != at) emit(at);
      emit(stop);
      at = unmatched = stop;
    }
    if (unmatched != end) emit(end);
  }

private:
  void emit(size_t end) { ends_.push_back(static_cast<uint32_t>(end)); }

  /// End of the run of characters in `wanted` that starts at `at`.
  [[nodiscard]] size_t run_of(uint8_t wanted, size_t at) const {
    while (at < end_) {
      const classed_character next = look_at(text_, at);
      if ((next.classes & wanted) == 0) break;
      at += next.bytes;
    }
    return at;
  }

  /// End of the match at `at`, or `at`. Alternatives in the order of the expression.
  [[nodiscard]] size_t match(size_t at) const {
    const classed_character first = look_at(text_, at);
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
      const classed_character next = look_at(text_, stop);
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
      const auto first = look_at(text, begin);
      const uint8_t kind = first.classes & (number | cjk);
      size_t end = begin;
      size_t digits = 0;
      while (end < text.size()) {
        const auto next = look_at(text, end);
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

  size_t next_cut(std::string_view text, size_t from) const override {
    size_t at = std::max<size_t>(from, 1);
    while (at < text.size() && is_inside(text[at])) ++at;
    if (at >= text.size()) return text.size();
    size_t last = at - 1;
    while (is_inside(text[last])) --last;
    uint8_t before = look_at(text, last).classes;
    while (at < text.size()) {
      const classed_character next = look_at(text, at);
      if (may_cut(before, next.classes, text[at])) return at;
      before = next.classes;
      at += next.bytes;
    }
    return text.size();
  }

private:
  /// True for the second and later bytes of a character.
  static bool is_inside(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

  /// No expression matches across such a place, and none looks across it: numbers and the CJK class
  /// are pieces of their own before the third expression runs; that one takes a space or tab only
  /// as the first character of a match or among white space, and ends at the last of the line
  /// breaks it takes.
  static bool may_cut(uint8_t before, uint8_t after, char first_byte) {
    if (((before ^ after) & (number | cjk)) != 0) return true;
    if (first_byte == ' ' || first_byte == '\t') return (before & space) == 0;
    return (before & line_break) != 0 && (after & space) == 0;
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
