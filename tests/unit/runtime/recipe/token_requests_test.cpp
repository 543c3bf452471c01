#include "runtime/recipe/token_requests.hpp"

#include "tests/support/source_tree.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

const text::tokenizer& tiny() {
  static const auto loaded =
      text::load_tokenizer(test::source_path("examples/models/tiny-v41/tokenizer.json"));
  REQUIRE(loaded);
  return **loaded;
}

const served_model model{"tiny-v41", {"other"}, 8192};

std::vector<int32_t> ids_of(const json_value& answer) {
  std::vector<int32_t> ids;
  for (const json_value& one : *test::member(answer, "tokens").as<json_array>())
    ids.push_back(static_cast<int32_t>(*one.as<int64_t>()));
  return ids;
}

json_value tokenized(std::string_view body) {
  const auto got = tokenize(body, tiny(), model);
  REQUIRE_MESSAGE(got, got.error().message);
  return test::read_json(*got);
}

api_error refused(std::string_view body) {
  const auto got = tokenize(body, tiny(), model);
  REQUIRE_FALSE(got);
  return got.error();
}

api_error refused_ids(std::string_view body, const recipe_options& options = {}) {
  const auto got = detokenize(body, tiny(), model, options);
  REQUIRE_FALSE(got);
  return got.error();
}

}  // namespace

TEST_SUITE("runtime/recipe/token_requests") {
  // Keys of the shared cache are made of tokens: were a picture shown to the model by other means,
  // prompts with different pictures would share their blocks.
  TEST_CASE("a picture is words in a prompt that is served, and else no prompt at all") {
    const auto asked = [](const std::string& url) {
      return R"({"model":"tiny-v41","messages":[{"role":"user","content":[)"
             R"({"type":"text","text":"What is this?"},)"
             R"({"type":"image_url","image_url":{"url":")" +
             url + R"("}}]}]})";
    };
    std::vector<std::vector<int32_t>> ids;
    for (const char* url : {"https://example.com/a.png", "https://example.com/b.png"}) {
      auto request = parse_request(api_protocol::chat, asked(url));
      REQUIRE_MESSAGE(request, request.error().message);
      const rendered_prompt shown = render(request->talk);
      REQUIRE(shown.images.size() == 1);
      const auto refused = encode_prompt(shown, tiny());
      REQUIRE_FALSE(refused);
      CHECK(refused.error().status == 400);
      const rendered_prompt served = render_request(*request);
      CHECK(served.images.empty());
      CHECK(served.text.find(image_placeholder) == std::string::npos);
      CHECK(served.text.find("[Unsupported Image]") != std::string::npos);
      const auto encoded = encode_prompt(served, tiny());
      REQUIRE(encoded);
      ids.push_back(*encoded);
    }
    CHECK(ids[0] == ids[1]);  // the same words: what was computed for one is true for the other
  }

  TEST_CASE("a prompt's ids begin with the beginning of sentence unless that is switched off") {
    const json_value with = tokenized(R"({"prompt":"Hello there"})");
    const json_value without =
        tokenized(R"({"prompt":"Hello there","add_special_tokens":false,"model":"other"})");
    const auto plain = *tiny().encode("Hello there", {});
    CHECK(ids_of(without) == plain);
    auto begun = plain;
    begun.insert(begun.begin(), 0);
    CHECK(ids_of(with) == begun);
    CHECK(*test::member(with, "count").as<int64_t>() == static_cast<int64_t>(begun.size()));
    CHECK(*test::member(with, "max_model_len").as<int64_t>() == 8192);
    CHECK(test::find_member(with, "token_strs") == nullptr);
  }

  TEST_CASE("messages are tokenized as the request to answer them would be") {
    const std::string rest = R"("messages":[{"role":"user","content":"Hi"}],)"
                             R"("thinking":{"type":"disabled"})";
    const auto prepared =
        prepare(api_protocol::chat, R"({"model":"tiny-v41",)" + rest + "}", tiny(), model);
    REQUIRE(prepared);
    CHECK(ids_of(tokenized("{" + rest + "}")) == prepared->tokens);
    CHECK(ids_of(tokenized(R"({"model":null,)" + rest + "}")) == prepared->tokens);
    CHECK(ids_of(tokenized(R"({"model":"default",)" + rest + "}")) == prepared->tokens);
  }

  TEST_CASE("the texts of the ids add up to the prompt") {
    const json_value answer = tokenized(
        R"({"prompt":"one two three","add_special_tokens":false,"return_token_strs":true})");
    std::string joined;
    for (const json_value& one : *test::member(answer, "token_strs").as<json_array>())
      joined += *one.as<std::string>();
    CHECK(joined == "one two three");
  }

  TEST_CASE("what a client spells is text, and comes back as it was") {
    const std::string text = "<｜User｜><think>｜DSML｜<｜end▁of▁sentence｜>";
    const auto ids = ids_of(
        tokenized(R"({"add_special_tokens":false,"prompt":)" + test::json_string(text) + "}"));
    for (const int32_t id : ids) CHECK_FALSE(tiny().is_added(id));
    std::string body = "{\"tokens\":[";
    for (const int32_t id : ids) body.append(std::to_string(id)).append(",");
    body.back() = ']';
    const auto back = detokenize(body + "}", tiny(), model);
    REQUIRE(back);
    CHECK(test::string_member(test::read_json(*back), "prompt") == text);
  }

  TEST_CASE("what makes no sense is refused and named") {
    CHECK(refused("{}").message.find("prompt") != std::string::npos);
    CHECK(refused("[1").status == 400);
    CHECK(refused(R"({"prompt":1})").param == "prompt");
    CHECK(refused(R"({"prompt":"a","messages":[]})").param == "prompt");
    CHECK(refused(R"({"messages":[]})").param == "messages");
    CHECK(refused(R"({"prompt":"a","model":"gpt"})").status == 404);
    CHECK(refused(R"({"prompt":"a","add_generation_prompt":false})").param ==
          "add_generation_prompt");
  }

  TEST_CASE("an id that is none is refused by its place") {
    const auto last = std::to_string(tiny().vocabulary_size() - 1);
    const auto beyond = std::to_string(tiny().vocabulary_size());
    CHECK(detokenize("{\"tokens\":[0," + last + "]}", tiny(), model));
    CHECK(refused_ids("{\"tokens\":[0," + beyond + "]}").param == "tokens[1]");
    CHECK(refused_ids(R"({"tokens":[-1]})").param == "tokens[0]");
    CHECK(refused_ids(R"({"tokens":[1,"a"]})").param == "tokens[1]");
    CHECK(refused_ids(R"({"tokens":7})").param == "tokens");
    CHECK(refused_ids("{}").param == "tokens");
    CHECK(refused_ids(R"({"tokens":[1],"model":"gpt"})").status == 404);
  }

  TEST_CASE("as many ids are taken as a prompt may have, and not one more") {
    recipe_options options;
    options.max_prompt_tokens = 3;
    CHECK(detokenize(R"({"tokens":[5,6,7]})", tiny(), model, options));
    CHECK(refused_ids(R"({"tokens":[5,6,7,8]})", options).param == "tokens");
  }

  TEST_CASE("as many ids are listed as a prompt may have, and not one more") {
    const std::string prompt = R"({"prompt":"one two three"})";
    const std::string messages = R"({"messages":[{"role":"user","content":"one two three"}]})";
    for (const std::string_view body : {std::string_view(prompt), std::string_view(messages)}) {
      recipe_options options;
      options.max_prompt_tokens = static_cast<uint32_t>(ids_of(tokenized(body)).size());
      CHECK(tokenize(body, tiny(), model, options));
      --options.max_prompt_tokens;
      const auto got = tokenize(body, tiny(), model, options);
      REQUIRE_FALSE(got);
      CHECK(got.error().status == 400);
      CHECK(body.find(got.error().param) != std::string_view::npos);
    }
  }
}
