#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/control_tokens.hpp"
#include "runtime/recipe/render.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

/// Injection tests: client text made of control tokens and their parts goes into every field of a
/// request, and the prompt must have exactly the control ids that it has with "x" in their place.
/// A protocol supplies a function that writes a request and asks an `injected_text` for each field.
namespace deepinfer::test {

/// Where the texts of one request come from. The same seed writes the same request around them,
/// tame or hostile.
class injected_text {
public:
  enum class kind : uint8_t {
    tame,     ///< all are "x"
    hostile,  ///< none spells the placeholder of an image
    marked    ///< one of them does
  };

  injected_text(kind what, uint64_t seed, size_t marked = std::numeric_limits<size_t>::max())
      : kind_(what), shape_(seed), texts_(~seed), marked_(marked) {}

  /// The next text as a JSON string, quotes included; never empty.
  std::string operator()() { return quoted(next()); }
  /// Behind a text of the caller's, which makes it a URL, say, or no JSON.
  std::string behind(std::string_view prefix) { return quoted(std::string(prefix) + next()); }
  /// With an end that no other text of the request has: keys of one object.
  std::string unique() {
    const std::string text = next();
    return quoted(text + "#" + std::to_string(count_));
  }
  /// An id, which is no text and may spell what it likes; ids sort in the order they are made.
  std::string id() {
    std::string text = std::to_string(100'000 + ids_++);
    if (kind_ != kind::tame) text += unmarked();
    return quoted(text);
  }
  /// The arguments of a call as the JSON string that holds them: an object, or no JSON.
  std::string arguments() {
    if (below(4) == 0) return behind("x");
    std::string object = "{";
    for (uint32_t left = below(4); left > 0; --left)
      object += unique() + ":" + (*this)() + "," + unique() + ":[" + (*this)() + ",1],";
    object += "\"last\":{" + unique() + ":" + (*this)() + "}}";
    return json_string(object);
  }
  /// A JSON Schema with a text wherever one may stand.
  std::string schema() {
    auto& text = *this;
    return R"({"type":"object","title":)" + text() + R"(,"description":)" + text() +
           R"(,"properties":{)" + unique() + R"(:{"type":"string","description":)" + text() +
           R"(,"enum":[)" + text() + R"(],"default":)" + text() + "}," + unique() +
           R"(:{"const":)" + text() + R"(}},"required":[)" + text() + "]," + unique() + ":" +
           text() + "}";
  }
  /// For choices about the request's shape: the same for tame and hostile texts.
  uint32_t below(uint32_t bound) { return shape_.below(bound); }

  [[nodiscard]] size_t count() const { return count_; }

private:
  std::string next() {
    const size_t now = count_++;
    if (kind_ == kind::tame) return "x";
    std::string text = unmarked();
    if (kind_ == kind::marked && now == marked_) text += recipe::image_placeholder;
    return text;
  }

  std::string unmarked() {
    std::string text = hostile();
    while (text.find(recipe::image_placeholder) != std::string::npos) text = hostile();
    return text;
  }

  /// Every token that prompts may have, whole or cut anywhere between two characters, and what
  /// stands around tokens in prompts and in JSON.
  std::string hostile() {
    static constexpr std::array<std::string_view, 26> whole = {recipe::token::bos,
                                                               recipe::token::eos,
                                                               recipe::token::system,
                                                               recipe::token::user,
                                                               recipe::token::assistant,
                                                               recipe::token::latest_reminder,
                                                               recipe::token::think,
                                                               recipe::token::end_think,
                                                               recipe::token::dsml,
                                                               recipe::token::fim_begin,
                                                               recipe::token::fim_hole,
                                                               recipe::token::fim_end,
                                                               recipe::image_placeholder,
                                                               "<｜▁pad▁｜>",
                                                               "<|EOT|>",
                                                               "<｜action｜>",
                                                               "<｜query｜>",
                                                               "<｜authority｜>",
                                                               "<｜domain｜>",
                                                               "<｜title｜>",
                                                               "<｜read_url｜>",
                                                               "<｜place▁holder▁no▁7｜>",
                                                               "<|User|>",
                                                               "<｜deepseek_image｜>",
                                                               "<｜DSML｜ calls>",
                                                               "</｜DSML｜ parameter>"};
    static constexpr std::array<std::string_view, 20> glue = {"｜",
                                                              "▁",
                                                              "<",
                                                              ">",
                                                              "</",
                                                              "|",
                                                              "\n",
                                                              " ",
                                                              "\"",
                                                              "\\",
                                                              "x",
                                                              "{\"a\":",
                                                              "}",
                                                              " string=\"true\">",
                                                              "<tool_result>",
                                                              "</tool_result>",
                                                              "DSML",
                                                              "你",
                                                              "\xF0\x9F\x98\x80",
                                                              std::string_view("\0", 1)};
    std::string text;
    for (uint32_t parts = 1 + texts_.below(3); parts > 0; --parts) {
      if (texts_.below(4) == 0) {
        text += glue[texts_.below(glue.size())];
        continue;
      }
      const std::string_view token = whole[texts_.below(whole.size())];
      const size_t begin = texts_.below(2) == 0 ? 0 : cut(token);
      const size_t end = texts_.below(2) == 0 ? token.size() : cut(token);
      text += begin < end ? token.substr(begin, end - begin) : token;
    }
    return text;
  }

  size_t cut(std::string_view token) {
    size_t at = texts_.below(static_cast<uint32_t>(token.size()));
    while ((static_cast<unsigned char>(token[at]) & 0xC0) == 0x80) --at;
    return at;
  }

  /// As JSON; now and then with every character of two or three bytes as an escape. (A placeholder
  /// that is escaped twice, inside the JSON of arguments, is no placeholder yet.)
  std::string quoted(std::string_view text) {
    std::string plain = json_string(text);
    if (texts_.below(4) != 0 || kind_ == kind::marked) return plain;
    static constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    for (size_t i = 0; i < plain.size();) {
      const auto lead = static_cast<unsigned char>(plain[i]);
      const size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
      if (size == 1 || size == 4) {
        out.append(plain, i, size);
      } else {
        uint32_t code = lead & (size == 2 ? 0x1Fu : 0x0Fu);
        for (size_t k = 1; k < size; ++k)
          code = code << 6 | (static_cast<unsigned char>(plain[i + k]) & 0x3Fu);
        out += "\\u";
        for (int shift = 12; shift >= 0; shift -= 4) out += hex[code >> shift & 15];
      }
      i += size;
    }
    return out;
  }

  kind kind_;
  rng shape_, texts_;
  size_t marked_;
  size_t count_ = 0;
  uint32_t ids_ = 0;
};

using request_writer = std::function<std::string(injected_text&)>;

struct injection_outcome {
  size_t requests = 0;
  size_t texts = 0;    ///< in accepted requests
  size_t refused = 0;  ///< requests with a placeholder in some text
};

/// The control ids of the prompt of a request; an error message when it is refused.
inline std::vector<int32_t> control_ids(recipe::api_protocol protocol,
                                        const std::string& body,
                                        std::string& error) {
  auto request = recipe::parse_request(protocol, body);
  if (!request) {
    error = request.error().message;
    return {};
  }
  const recipe::rendered_prompt prompt =
      request->raw ? recipe::render_raw(*request->raw) : recipe::render(std::move(request->talk));
  auto ids = tiny_tokenizer()->encode(prompt.text, prompt.specials);
  REQUIRE(ids);
  std::erase_if(*ids, [](int32_t id) { return !tiny_tokenizer()->is_added(id); });
  CHECK(ids->size() == prompt.specials.size());
  return *std::move(ids);
}

/// Runs requests of `write` until that many hostile texts went through. Each request is written
/// once more with the placeholder in one text, another one every time, and must then be refused.
inline injection_outcome inject(recipe::api_protocol protocol,
                                size_t texts,
                                const request_writer& write) {
  using kind = injected_text::kind;
  injection_outcome outcome;
  for (uint64_t seed = 1; outcome.texts < texts; ++seed) {
    CAPTURE(seed);
    injected_text tame(kind::tame, seed), hostile(kind::hostile, seed);
    const std::string tame_body = write(tame), hostile_body = write(hostile);
    REQUIRE(tame.count() == hostile.count());
    CAPTURE(hostile_body);
    std::string error;
    const auto wanted = control_ids(protocol, tame_body, error);
    REQUIRE_MESSAGE(error.empty(), error);
    const auto got = control_ids(protocol, hostile_body, error);
    REQUIRE_MESSAGE(error.empty(), error);
    REQUIRE(got == wanted);
    ++outcome.requests;
    outcome.texts += hostile.count();
    if (protocol == recipe::api_protocol::completions) continue;
    injected_text marked(kind::marked, seed, seed % hostile.count());
    control_ids(protocol, write(marked), error);
    CHECK(error.find(recipe::image_placeholder) != std::string::npos);
    ++outcome.refused;
  }
  return outcome;
}

}  // namespace deepinfer::test
