#include "runtime/recipe/system_prompt.hpp"

#include "proto/types/check.hpp"

#include <array>
#include <utility>

namespace deepinfer::recipe {
namespace {

/// The header of the turn to generate: who speaks, and whether it thinks.
constexpr size_t header_tokens = 2;

}  // namespace

api_result<std::vector<std::vector<int32_t>>> system_beginnings(const std::string& text,
                                                                const prompt_reader& reader) {
  std::vector<std::vector<int32_t>> beginnings;
  // 0: no thinking
  for (const uint8_t asked : std::array<uint8_t, 4>{0, effort::low, effort::high, effort::max}) {
    conversation talk;
    talk.messages.push_back(message{.from = role::system, .content = text});
    talk.thinking = asked != 0;
    if (talk.thinking) talk.effort = asked;
    rendered_prompt prompt = render(std::move(talk));
    DEEPINFER_CHECK(prompt.specials.size() > header_tokens);
    const auto header = prompt.specials.end() - header_tokens;
    prompt.text.resize(header->begin);
    prompt.specials.erase(header, prompt.specials.end());
    auto tokens = encode_prompt(prompt, reader);
    if (!tokens) return tokens.error();
    beginnings.push_back(*std::move(tokens));
  }
  return beginnings;
}

}  // namespace deepinfer::recipe
