#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/tokenizer/piece_table.hpp"
#include "runtime/tokenizer/splitter.hpp"
#include "runtime/tokenizer/utf8.hpp"

#include <algorithm>
#include <fstream>
#include <unordered_map>

namespace deepinfer::text {
namespace {

class bpe_tokenizer final : public tokenizer {
public:
  bpe_tokenizer(tokenizer_parts parts, std::unique_ptr<splitter> pieces, size_t max_text_bytes)
      : parts_(std::move(parts)),
        splitter_(std::move(pieces)),
        merger_(parts_.byte_ids, parts_.merges),
        whole_(merger_, parts_.pieces),
        max_text_bytes_(max_text_bytes) {
    parts_.merges = {};
    kinds_.resize(parts_.pieces.size());
    for (const added_token& token : parts_.added) {
      kinds_[static_cast<size_t>(token.id)] = token.special ? kind::special : kind::added;
      by_text_.emplace(token.text, token.id);
      by_first_byte_[static_cast<uint8_t>(token.text[0])].push_back(token.text);
    }
    for (auto& texts : by_first_byte_)
      std::sort(texts.begin(), texts.end(),
                [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
  }

  result<std::vector<int32_t>> encode(std::string_view text,
                                      std::span<const special_range> specials) const override {
    if (auto fine = check(text, specials); !fine) return fine.error();
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 4 + specials.size() + 1);
    size_t done = 0;
    for (const special_range& range : specials) {
      if (auto plain = append_plain(text.substr(done, range.begin - done), ids); !plain)
        return plain.error();
      ids.push_back(by_text_.find(text.substr(range.begin, range.end - range.begin))->second);
      done = range.end;
    }
    if (auto plain = append_plain(text.substr(done), ids); !plain) return plain.error();
    return ids;
  }

  result<void> check(std::string_view text,
                     std::span<const special_range> specials) const override {
    if (text.size() > max_text_bytes_)
      return failure{error_code::too_large,
                     "a text of " + std::to_string(text.size()) + " bytes, more than " +
                         std::to_string(max_text_bytes_) + " (max_text_bytes)"};
    if (!is_utf8(text)) return failure{error_code::invalid_argument, "the text is not UTF-8"};
    size_t done = 0;
    for (const special_range& range : specials) {
      if (range.begin < done || range.end <= range.begin || range.end > text.size())
        return failure{error_code::invalid_argument, "special ranges out of order or bounds"};
      if (!by_text_.contains(text.substr(range.begin, range.end - range.begin)))
        return failure{error_code::invalid_argument,
                       "a special range does not spell a token of this tokenizer"};
      done = range.end;
    }
    return {};
  }

  size_t next_cut(std::string_view text, size_t from) const override {
    return splitter_->next_cut(text, from);
  }

  std::vector<special_range> find_specials(std::string_view text) const override {
    std::vector<special_range> found;
    for (size_t at = 0; at < text.size();) {
      size_t length = 0;
      for (const std::string_view candidate : by_first_byte_[static_cast<uint8_t>(text[at])]) {
        if (!text.substr(at).starts_with(candidate)) continue;
        length = candidate.size();
        break;
      }
      if (length != 0) found.push_back({at, at + length});
      at += std::max<size_t>(1, length);
    }
    return found;
  }

  std::string decode(std::span<const int32_t> ids, decode_mode mode) const override {
    std::string bytes;
    for (const int32_t id : ids) {
      const bool left_out = mode == decode_mode::skip_special && kind_of(id) == kind::special;
      if (!left_out) bytes += token_text(id);
    }
    std::string out;
    out.reserve(bytes.size());
    append_lossy(out, bytes);
    return out;
  }

  std::string_view token_text(int32_t id) const override {
    const auto index = static_cast<uint32_t>(id);
    return index < parts_.pieces.size() ? std::string_view(parts_.pieces[index])
                                        : std::string_view{};
  }

  std::optional<int32_t> special_id(std::string_view text) const override {
    const auto found = by_text_.find(text);
    if (found == by_text_.end()) return std::nullopt;
    return found->second;
  }

  bool is_added(int32_t id) const override { return kind_of(id) != kind::plain; }

  uint32_t vocabulary_size() const override { return static_cast<uint32_t>(parts_.pieces.size()); }

private:
  enum class kind : uint8_t { plain, added, special };

  kind kind_of(int32_t id) const {
    const auto index = static_cast<uint32_t>(id);
    return index < kinds_.size() ? kinds_[index] : kind::plain;
  }

  result<void> append_plain(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.empty()) return {};
    std::vector<uint32_t> ends;
    ends.reserve(text.size() / 4 + 1);
    if (auto done = splitter_->split(text, ends); !done) return done;
    uint32_t begin = 0;
    for (const uint32_t end : ends) {
      const std::string_view piece = text.substr(begin, end - begin);
      if (const int32_t id = whole_.find(piece); id >= 0) {
        ids.push_back(id);
      } else {
        merger_.encode(piece, ids);
      }
      begin = end;
    }
    return {};
  }

  tokenizer_parts parts_;
  std::unique_ptr<splitter> splitter_;
  bpe_merger merger_;
  piece_table whole_;
  size_t max_text_bytes_;
  std::vector<kind> kinds_;
  // Both refer to the strings in parts_.added, which do not change any more.
  std::unordered_map<std::string_view, int32_t> by_text_;
  std::array<std::vector<std::string_view>, 256> by_first_byte_;
};

}  // namespace

result<std::shared_ptr<const tokenizer>> make_tokenizer(std::string_view json,
                                                        const tokenizer_limits& limits) {
  auto parts = parse_tokenizer_file(json, limits);
  if (!parts) return parts.error();
  std::unique_ptr<splitter> pieces;
  if (parts->expressions == deepseek_expressions()) {
    pieces = make_deepseek_splitter();
  } else {
    auto made = make_regex_splitter(parts->expressions);
    if (!made) return made.error();
    pieces = *std::move(made);
  }
  // Offsets are 32-bit, whatever the configured limit says.
  const size_t max_text_bytes = std::min<size_t>(limits.max_text_bytes, UINT32_MAX);
  return std::shared_ptr<const tokenizer>(
      std::make_shared<bpe_tokenizer>(*std::move(parts), std::move(pieces), max_text_bytes));
}

result<std::shared_ptr<const tokenizer>> load_tokenizer(const std::filesystem::path& file,
                                                        const tokenizer_limits& limits) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  std::error_code error;
  if (!in || std::filesystem::is_directory(file, error))
    return failure{error_code::not_found, "cannot read " + file.string()};
  const auto size = in.tellg();
  if (size < 0 || static_cast<uint64_t>(size) > limits.max_file_bytes)
    return failure{error_code::too_large, file.string() + " has more than " +
                                              std::to_string(limits.max_file_bytes) +
                                              " bytes (max_file_bytes)"};
  std::string json(static_cast<size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(json.data(), size))
    return failure{error_code::not_found, "cannot read " + file.string()};
  auto made = make_tokenizer(json, limits);
  if (!made) return failure{made.error().code, file.string() + ": " + made.error().detail};
  return made;
}

}  // namespace deepinfer::text
