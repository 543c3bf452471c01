#pragma once

#include "proto/types/result.hpp"
#include "runtime/tokenizer/tokenizer_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::text {

/// Bytes [begin, end) of a text that spell one added token and are meant as that token. Everything
/// outside such ranges is plain: it can never become an added token, whatever it spells.
struct special_range {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const special_range&, const special_range&) = default;
};

/// How much a decoded text keeps.
enum class decode_mode { keep_special, skip_special };

/// Byte-level BPE from a `tokenizer.json`. Immutable: share one between threads. Ids are those of
/// the file; encoding adds no token by itself.
class tokenizer {
public:
  virtual ~tokenizer() = default;

  /// Ids of `text` with its special ranges (ascending, disjoint, each exactly one added token).
  /// Each maximal plain run is encoded as one text. Fails with `invalid_argument` on text that is
  /// not UTF-8 and on wrong ranges, with `too_large` beyond `max_text_bytes`.
  [[nodiscard]] virtual result<std::vector<int32_t>> encode(
      std::string_view text, std::span<const special_range> specials) const = 0;

  /// The failure that `encode` would give for these arguments, without encoding. (Expressions that
  /// are not DeepSeek's may give up on a text only when they run.)
  [[nodiscard]] virtual result<void> check(std::string_view text,
                                           std::span<const special_range> specials) const = 0;

  /// The first place at or after `from` (and after the first character) where the well-formed plain
  /// `text` may be cut: its parts, encoded one by one (by several threads, say) and joined, give
  /// the ids of the whole. `text.size()` when there is none; always so for expressions other than
  /// DeepSeek's. Depends on no byte behind the character at the place.
  [[nodiscard]] virtual size_t next_cut(std::string_view text, size_t from) const = 0;

  /// Ranges of all added tokens that `text` spells: leftmost first, longest of those. For trusted
  /// text only (tests, offline prompts); `encode(text, find_specials(text))` is what other
  /// libraries do by default.
  [[nodiscard]] virtual std::vector<special_range> find_specials(std::string_view text) const = 0;

  /// The text of `ids`, ill-formed UTF-8 replaced by U+FFFD. Ids without a token give nothing.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids,
                                           decode_mode mode) const = 0;

  /// Raw bytes of one token, possibly a part of a character; empty for ids without a token.
  [[nodiscard]] virtual std::string_view token_text(int32_t id) const = 0;

  /// Id of the added token spelled `text`.
  [[nodiscard]] virtual std::optional<int32_t> special_id(std::string_view text) const = 0;

  /// True for added tokens.
  [[nodiscard]] virtual bool is_added(int32_t id) const = 0;

  /// One more than the largest id.
  [[nodiscard]] virtual uint32_t vocabulary_size() const = 0;
};

/// From the bytes of a `tokenizer.json`, or from the file. Failures: `corrupt` (malformed),
/// `unsupported` (another kind of tokenizer), `too_large`, `not_found`.
[[nodiscard]] result<std::shared_ptr<const tokenizer>> make_tokenizer(
    std::string_view json, const tokenizer_limits& limits = {});
[[nodiscard]] result<std::shared_ptr<const tokenizer>> load_tokenizer(
    const std::filesystem::path& file, const tokenizer_limits& limits = {});

}  // namespace deepinfer::text
