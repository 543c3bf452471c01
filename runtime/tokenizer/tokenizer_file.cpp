#include "runtime/tokenizer/tokenizer_file.hpp"

#include "runtime/tokenizer/utf8.hpp"

#include <simdjson.h>

#include <unordered_map>
#include <unordered_set>

namespace deepinfer::text {
namespace {

namespace dom = simdjson::dom;

failure bad(std::string detail) {
  return {error_code::corrupt, "tokenizer.json: " + std::move(detail)};
}
failure not_ours(std::string detail) {
  return {error_code::unsupported, "tokenizer.json: " + std::move(detail)};
}

/// The alphabet of byte-level BPE files: printable Latin-1 characters stand for themselves, the
/// other bytes, in order, for U+0100 and up. Maps characters back to bytes.
const std::unordered_map<char32_t, uint8_t>& alphabet() {
  static const auto table = [] {
    std::unordered_map<char32_t, uint8_t> made;
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      made[printable ? static_cast<char32_t>(byte) : next++] = static_cast<uint8_t>(byte);
    }
    return made;
  }();
  return table;
}

/// The bytes a vocabulary key stands for; a key with a character outside the alphabet (control
/// tokens listed in the vocabulary) stands for itself.
std::string bytes_of(std::string_view key) {
  std::string bytes;
  for (size_t i = 0; i < key.size();) {
    const code_point c = decode_at(key, i);
    const auto found = alphabet().find(c.value);
    if (found == alphabet().end()) return std::string(key);
    bytes.push_back(static_cast<char>(found->second));
    i += c.bytes;
  }
  return bytes;
}

bool is_absent(dom::element parent, std::string_view key) {
  dom::element value;
  return parent[key].get(value) != simdjson::SUCCESS || value.is_null();
}

std::string_view text_at(dom::element parent, std::string_view key) {
  std::string_view text;
  return parent[key].get(text) == simdjson::SUCCESS ? text : std::string_view{};
}

/// True when `key` is present and neither null nor false.
bool is_set(dom::element parent, std::string_view key) {
  bool flag = true;
  return !is_absent(parent, key) && (parent[key].get(flag) != simdjson::SUCCESS || flag);
}

class file_reader {
public:
  file_reader(dom::element root, const tokenizer_limits& limits) : root_(root), limits_(limits) {}

  result<tokenizer_parts> read() {
    for (const auto step : {&file_reader::check_pipeline, &file_reader::read_expressions,
                            &file_reader::read_vocabulary, &file_reader::read_added,
                            &file_reader::read_merges, &file_reader::check_reach}) {
      if (auto done = (this->*step)(); !done) return done.error();
    }
    return std::move(parts_);
  }

private:
  result<void> check_pipeline() {
    if (root_["model"].get(model_) != simdjson::SUCCESS || !model_.is_object())
      return bad("no 'model' object");
    if (const auto type = text_at(model_, "type"); type != "BPE")
      return not_ours("model type '" + std::string(type) + "', only BPE is supported");
    for (const std::string_view key : {"dropout", "unk_token", "byte_fallback", "ignore_merges"})
      if (is_set(model_, key)) return not_ours("model." + std::string(key) + " is set");
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_at(model_, key).empty()) return not_ours("model." + std::string(key) + " is set");
    if (!is_absent(root_, "normalizer")) {
      dom::array steps;
      if (root_["normalizer"]["normalizers"].get(steps) != simdjson::SUCCESS || steps.size() != 0)
        return not_ours("a normalizer is set");
    }
    dom::element decoder;
    if (root_["decoder"].get(decoder) != simdjson::SUCCESS ||
        text_at(decoder, "type") != "ByteLevel")
      return not_ours("the decoder is not ByteLevel");
    return {};
  }

  result<void> read_expressions() {
    dom::array steps;
    if (root_["pre_tokenizer"]["pretokenizers"].get(steps) != simdjson::SUCCESS)
      return not_ours("the pre-tokenizer is not a sequence of Split and ByteLevel");
    size_t left = steps.size();
    for (const dom::element step : steps) {
      if (--left == 0) {
        if (text_at(step, "type") != "ByteLevel" || is_set(step, "add_prefix_space") ||
            is_absent(step, "use_regex") || is_set(step, "use_regex"))
          return not_ours("the last pre-tokenizer must be ByteLevel without regex and prefix");
        return {};
      }
      std::string_view expression;
      if (text_at(step, "type") != "Split" || text_at(step, "behavior") != "Isolated" ||
          is_set(step, "invert") || step["pattern"]["Regex"].get(expression) != simdjson::SUCCESS)
        return not_ours("pre-tokenizers other than Split with a Regex, Isolated");
      parts_.expressions.emplace_back(expression);
    }
    return not_ours("an empty pre-tokenizer");
  }

  /// Claims `id`, which must be free.
  result<void> place(int64_t id, std::string bytes) {
    if (id < 0) return bad("a negative token id");
    if (id >= static_cast<int64_t>(limits_.max_vocabulary))
      return failure{error_code::too_large,
                     "tokenizer.json: token id " + std::to_string(id) + " is not below " +
                         std::to_string(limits_.max_vocabulary) + " (max_vocabulary)"};
    const auto index = static_cast<size_t>(id);
    if (index >= parts_.pieces.size()) parts_.pieces.resize(index + 1);
    if (!parts_.pieces[index].empty()) return bad("id " + std::to_string(id) + " is given twice");
    if (bytes.empty()) return bad("id " + std::to_string(id) + " has no text");
    parts_.pieces[index] = std::move(bytes);
    return {};
  }

  result<void> read_vocabulary() {
    dom::object vocabulary;
    if (model_["vocab"].get(vocabulary) != simdjson::SUCCESS) return bad("no 'model.vocab' object");
    parts_.byte_ids.fill(-1);
    for (const auto [key, value] : vocabulary) {
      int64_t id = 0;
      if (value.get(id) != simdjson::SUCCESS)
        return bad("the id of vocabulary entry '" + std::string(key) + "' is not a number");
      std::string bytes = bytes_of(key);
      if (bytes.size() == 1)
        parts_.byte_ids[static_cast<uint8_t>(bytes[0])] = static_cast<int32_t>(id);
      if (auto done = place(id, std::move(bytes)); !done) return done;
      if (!ids_.emplace(key, static_cast<int32_t>(id)).second)
        return bad("vocabulary entry '" + std::string(key) + "' is given twice");
    }
    for (size_t byte = 0; byte < 256; ++byte)
      if (parts_.byte_ids[byte] < 0)
        return bad("the vocabulary has no token for byte " + std::to_string(byte));
    return {};
  }

  result<void> read_added() {
    dom::array added;
    if (root_["added_tokens"].get(added) != simdjson::SUCCESS) return {};
    std::unordered_set<std::string_view> seen;
    for (const dom::element token : added) {
      int64_t id = -1;
      const std::string_view text = text_at(token, "content");
      if (text.empty() || token["id"].get(id) != simdjson::SUCCESS)
        return bad("an added token without content or id");
      for (const std::string_view key : {"lstrip", "rstrip", "single_word"})
        if (is_set(token, key))
          return not_ours("added token '" + std::string(text) + "' has " + std::string(key));
      if (!seen.insert(text).second)
        return bad("added token '" + std::string(text) + "' is given twice");
      const auto known = ids_.find(text);  // control tokens may be listed in the vocabulary too
      if (known != ids_.end() && known->second != id)
        return bad("added token '" + std::string(text) + "' has another id in the vocabulary");
      if (known == ids_.end()) {
        if (auto done = place(id, std::string(text)); !done) return done;
      } else {
        parts_.pieces[static_cast<size_t>(id)] = text;
      }
      parts_.added.push_back(
          {static_cast<int32_t>(id), std::string(text), is_set(token, "special")});
    }
    return {};
  }

  /// A merge is "left right" or ["left", "right"].
  static bool read_pair(dom::element line, std::string_view& left, std::string_view& right) {
    dom::array both;
    if (line.get(both) == simdjson::SUCCESS)
      return both.size() == 2 && both.at(0).get(left) == simdjson::SUCCESS &&
             both.at(1).get(right) == simdjson::SUCCESS;
    std::string_view joined;
    if (line.get(joined) != simdjson::SUCCESS) return false;
    const size_t space = joined.find(' ');
    if (space == std::string_view::npos) return false;
    left = joined.substr(0, space);
    right = joined.substr(space + 1);
    return true;
  }

  result<void> read_merges() {
    dom::array merges;
    if (model_["merges"].get(merges) != simdjson::SUCCESS) return bad("no 'model.merges' array");
    std::string joined;
    for (const dom::element line : merges) {
      std::string_view left, right;
      if (!read_pair(line, left, right))
        return bad("merge " + std::to_string(parts_.merges.size()) + " is not a pair");
      joined.assign(left).append(right);
      const auto a = ids_.find(left), b = ids_.find(right), ab = ids_.find(joined);
      if (a == ids_.end() || b == ids_.end() || ab == ids_.end())
        return bad("merge " + std::to_string(parts_.merges.size()) + " ('" + std::string(left) +
                   "' '" + std::string(right) + "') names a token that the vocabulary lacks");
      parts_.merges.push_back({a->second, b->second, ab->second});
    }
    return {};
  }

  /// Plain text must not be able to become an added token.
  result<void> check_reach() {
    std::unordered_set<int32_t> added;
    for (const added_token& token : parts_.added) added.insert(token.id);
    const auto refuse = [](int32_t id) {
      return bad("plain text could become the added token " + std::to_string(id));
    };
    for (const int32_t id : parts_.byte_ids)
      if (added.contains(id)) return refuse(id);
    for (const merge_rule& rule : parts_.merges)
      if (added.contains(rule.merged)) return refuse(rule.merged);
    return {};
  }

  dom::element root_, model_;
  const tokenizer_limits& limits_;
  tokenizer_parts parts_;
  std::unordered_map<std::string_view, int32_t> ids_;  // vocabulary keys as the file spells them
};

}  // namespace

result<tokenizer_parts> parse_tokenizer_file(std::string_view json,
                                             const tokenizer_limits& limits) {
  if (json.size() > limits.max_file_bytes)
    return failure{error_code::too_large,
                   "tokenizer.json has " + std::to_string(json.size()) + " bytes, more than " +
                       std::to_string(limits.max_file_bytes) + " (max_file_bytes)"};
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root);
      error != simdjson::SUCCESS)
    return bad(simdjson::error_message(error));
  if (!root.is_object()) return bad("not a JSON object");
  return file_reader(root, limits).read();
}

}  // namespace deepinfer::text
