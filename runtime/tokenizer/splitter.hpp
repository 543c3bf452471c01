#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// Pre-tokenization: cutting text into the pieces inside which BPE merges.
namespace deepinfer::text {

class splitter {
public:
  virtual ~splitter() = default;
  /// Appends the end offset of every piece of `text` (well-formed UTF-8, shorter than 4 GiB); the
  /// last one is `text.size()`. Safe to call from several threads at once.
  [[nodiscard]] virtual result<void> split(std::string_view text,
                                           std::vector<uint32_t>& ends) const = 0;

  /// The first place at or after `from` (and after the first character) where `text` may be cut:
  /// both parts, split one by one, give the pieces of the whole. `text.size()` when no such place
  /// is known. Depends on no byte behind the character at the place.
  [[nodiscard]] virtual size_t next_cut(std::string_view text, size_t from) const = 0;
};

/// The three Split expressions that DeepSeek tokenizers V3, V4 and V4.1 share, as regular
/// expressions in the order they are applied.
[[nodiscard]] const std::vector<std::string>& deepseek_expressions();

/// Those three steps in one pass, without a regex engine: linear time, no stack, Unicode 15
/// categories. Equal to `make_regex_splitter(deepseek_expressions())`, which a test checks.
[[nodiscard]] std::unique_ptr<splitter> make_deepseek_splitter();

/// Any list of expressions, each applied inside the pieces of the one before it; every match and
/// every stretch between matches is a piece ("Isolated"). PCRE2 semantics. `invalid_argument` when
/// an expression does not compile.
[[nodiscard]] result<std::unique_ptr<splitter>> make_regex_splitter(
    const std::vector<std::string>& expressions);

}  // namespace deepinfer::text
