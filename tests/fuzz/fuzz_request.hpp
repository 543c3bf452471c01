#pragma once

#include "proto/types/check.hpp"
#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/control_tokens.hpp"
#include "runtime/recipe/render.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

/// What must hold for any bytes as the body of a request, up to the prompt; one target for each
/// protocol uses it.
namespace deepinfer::fuzz {

inline bytes body_seed(std::string_view body) {
  return {body.begin(), body.end()};
}

/// Whether a prompt may hold this control token; a raw one with a suffix has some of its own.
inline bool is_known_special(std::string_view spelled) {
  using namespace recipe;
  return spelled == token::fim_begin || spelled == token::fim_hole || spelled == token::fim_end ||
         std::find(std::begin(token::needed), std::end(token::needed), spelled) !=
             std::end(token::needed);
}

/// Ranges are ordered, apart, and spell tokens that prompts may have; one for each image.
inline void check_prompt(const recipe::rendered_prompt& prompt) {
  using namespace recipe;
  DEEPINFER_CHECK(text::is_utf8(prompt.text));
  size_t done = 0, images = 0;
  for (const text::special_range& range : prompt.specials) {
    DEEPINFER_CHECK(range.begin >= done && range.end > range.begin);
    DEEPINFER_CHECK(range.end <= prompt.text.size());
    const auto spelled = std::string_view(prompt.text).substr(range.begin, range.end - range.begin);
    const bool is_image = spelled == image_placeholder;
    images += is_image ? 1 : 0;
    DEEPINFER_CHECK(is_image || is_known_special(spelled));
    done = range.end;
  }
  DEEPINFER_CHECK(images == prompt.images.size());
}

/// A request becomes a prompt, or a 400 that says why in well-formed text.
inline int check_body(recipe::api_protocol protocol,
                      const uint8_t* data,
                      size_t size,
                      const recipe::conversion_options& options = {}) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  auto request = recipe::parse_request(protocol, body, options);
  if (request) {
    check_prompt(request->raw ? recipe::render_raw(*request->raw)
                              : recipe::render(std::move(request->talk)));
  } else {
    DEEPINFER_CHECK(request.error().status == 400);
    DEEPINFER_CHECK(!request.error().message.empty());
    DEEPINFER_CHECK(text::is_utf8(request.error().message));
    DEEPINFER_CHECK(text::is_utf8(request.error().param));
  }
  return 0;
}

}  // namespace deepinfer::fuzz
