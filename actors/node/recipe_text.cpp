#include "actors/node/recipe_text.hpp"

#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <charconv>

namespace deepinfer {
namespace {

constexpr std::string_view space = " \t\r\n";

failure wrong(std::string_view word, uint32_t vocabulary) {
  std::string text;
  recipe::append_json_string(text, word.substr(0, 40));  // no control characters on a terminal
  text.append(" is no token id; ids go from 0 to ");
  return {error_code::invalid_argument, text + std::to_string(vocabulary - 1)};
}

result<std::vector<int32_t>> parse_array(std::string_view text, uint32_t vocabulary) {
  const auto parsed = recipe::parse_json(text, {text.size(), 2, text.size() + 1});
  const auto* items = parsed ? parsed->as<recipe::json_array>() : nullptr;
  if (items == nullptr)
    return failure{error_code::invalid_argument, "standard input is no JSON array of token ids"};
  std::vector<int32_t> ids;
  ids.reserve(items->size());
  for (const recipe::json_value& item : *items) {
    const auto* id = item.as<int64_t>();
    if (id == nullptr || *id < 0 || *id >= int64_t{vocabulary}) {
      std::string shown;
      recipe::append_spaced_json(shown, item);
      return wrong(shown, vocabulary);
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace

std::string marked_prompt(const recipe::rendered_prompt& prompt) {
  std::string out;
  size_t done = 0;
  for (const text::special_range& range : prompt.specials) {
    out.append(prompt.text, done, range.begin - done).append("\u27E6");
    out.append(prompt.text, range.begin, range.end - range.begin).append("\u27E7");
    done = range.end;
  }
  return out.append(prompt.text, done);
}

std::string token_lines(const text::tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::string out;
  for (const int32_t id : ids) {
    out.append(std::to_string(id)).append("\t");
    recipe::append_json_string(out, tokenizer.decode({&id, 1}, text::decode_mode::keep_special));
    out += '\n';
  }
  return out;
}

result<std::vector<int32_t>> parse_ids(std::string_view text, uint32_t vocabulary) {
  size_t at = text.find_first_not_of(space);
  if (at != std::string_view::npos && text[at] == '[') return parse_array(text, vocabulary);
  std::vector<int32_t> ids;
  while (at != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(space, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || stop != word.data() + word.size() || id < 0 ||
        static_cast<uint32_t>(id) >= vocabulary)
      return wrong(word, vocabulary);
    ids.push_back(id);
    at = text.find_first_not_of(space, end);
  }
  return ids;
}

}  // namespace deepinfer
