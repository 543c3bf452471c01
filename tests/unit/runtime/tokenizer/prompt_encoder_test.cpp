#include "runtime/tokenizer/prompt_encoder.hpp"

#include "tests/unit/runtime/tokenizer/random_text.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace deepinfer;
using text::special_range;

namespace {

struct prompt {
  std::string text;
  std::vector<special_range> specials;

  void add(const std::string& plain) { text += plain; }
  void add_special(const std::string& token) {
    specials.push_back({text.size(), text.size() + token.size()});
    text += token;
  }
  void add_turn(const std::string& user, const std::string& assistant) {
    add_special("<｜User｜>");
    add(user);
    add_special("<｜Assistant｜>");
    add_special("<think>");
    add_special("</think>");
    add(assistant);
    add_special("<｜end▁of▁sentence｜>");
  }
};

/// Runs the parts in an order picked by a seed, as threads would, in one thread.
class shuffled_runner final : public text::part_runner {
public:
  explicit shuffled_runner(uint64_t seed) : random_(seed) {}

  void run(size_t count, const std::function<void(size_t)>& work) override {
    largest_ = std::max(largest_, count);
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i) order[i] = i;
    for (size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[random_.below(static_cast<uint32_t>(i))]);
    for (const size_t number : order) work(number);
  }
  [[nodiscard]] size_t width() const override { return 3; }
  [[nodiscard]] size_t largest() const { return largest_; }

private:
  test::rng random_;
  size_t largest_ = 0;
};

void check_ids(text::prompt_encoder& encoder, const std::string& scope, const prompt& p) {
  const auto made = encoder.encode(scope, p.text, p.specials);
  const auto wanted = test::tiny_tokenizer()->encode(p.text, p.specials);
  REQUIRE(wanted);
  REQUIRE(made);
  CHECK(*made == *wanted);
}

std::string words(test::rng& random, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += random.below(5) == 0 ? "Once upon a time, " : "the boat ";
  return out;
}

std::unique_ptr<text::prompt_encoder> with_cache(const std::shared_ptr<text::part_cache>& cache,
                                                 size_t part_bytes) {
  text::part_encoder_options options;
  options.reuse = cache;
  options.part_bytes = part_bytes;
  return text::make_part_encoder(test::tiny_tokenizer(), options);
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("every encoder gives the tokenizer's ids, however a conversation grows and changes") {
    size_t most_jobs = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      const auto runner = std::make_shared<shuffled_runner>(seed);
      text::part_encoder_options options;
      options.part_bytes = 1 + random.below(120);
      options.least_job_bytes = 1 + random.below(200);
      if (seed % 2 == 0) options.runner = runner;
      if (seed % 3 != 0) options.reuse = std::make_shared<text::part_cache>();
      const auto parts = text::make_part_encoder(test::tiny_tokenizer(), options);
      const auto plain = text::make_plain_encoder(test::tiny_tokenizer());
      std::vector<prompt> turns(1);
      for (int turn = 0; turn < 8; ++turn) {
        // Mostly the next turn of the latest one; sometimes a fork of an older one.
        prompt next = random.below(4) == 0
                          ? turns[random.below(static_cast<uint32_t>(turns.size()))]
                          : turns.back();
        next.add_turn(test::random_text(random, random.below(100)),
                      test::random_text(random, random.below(200)));
        if (random.below(4) == 0) next.add(test::random_text(random, 30));
        check_ids(*parts, "a", next);
        check_ids(*plain, "a", next);
        turns.push_back(next);
      }
      most_jobs = std::max(most_jobs, runner->largest());
    }
    CHECK(most_jobs > 3);
  }

  TEST_CASE("every encoder fails as the tokenizer does") {
    const auto plain = text::make_plain_encoder(test::tiny_tokenizer());
    const auto parts = with_cache(std::make_shared<text::part_cache>(), 4);
    const std::string fine = "a<think>b</think> and more";
    const std::vector<std::pair<std::string, std::vector<special_range>>> cases = {
        {"\xFF", {}},
        {"a\xC3", {}},
        {fine + "\xE4\xB8", {{1, 8}}},
        {fine, {{9, 17}, {1, 8}}},
        {fine, {{1, 7}}},
        {fine, {{1, 800}}}};
    for (const auto& [text, specials] : cases) {
      const auto wanted = test::tiny_tokenizer()->encode(text, specials);
      REQUIRE_FALSE(wanted);
      for (const auto* encoder : {&plain, &parts}) {
        const auto made = (*encoder)->encode("a", text, specials);
        REQUIRE_FALSE(made);
        CHECK(made.error().code == wanted.error().code);
        CHECK(made.error().detail == wanted.error().detail);
      }
    }
  }

  TEST_CASE("the failure of one part is the prompt's, with and without a runner") {
    std::string json = test::read_source("examples/models/tiny-v41/tokenizer.json");
    const size_t at = json.find("\\\\p{N}{1,3}");
    REQUIRE(at != std::string::npos);
    json.replace(at, 11, "(a+a+)+$");
    const auto source = text::make_tokenizer(json);
    REQUIRE(source);
    prompt p;
    p.add("short");
    p.add_special("<｜User｜>");
    p.add(std::string(5000, 'a') + "b");
    for (const bool threads : {false, true}) {
      text::part_encoder_options options;
      options.part_bytes = options.least_job_bytes = 1;
      options.reuse = std::make_shared<text::part_cache>();
      if (threads) options.runner = std::make_shared<shuffled_runner>(1);
      const auto made = text::make_part_encoder(*source, options)->encode("a", p.text, p.specials);
      REQUIRE_FALSE(made);
      CHECK(made.error().code == error_code::too_large);
      CHECK(options.reuse->counters().parts == 0);
    }
  }

  TEST_CASE("an appended message costs itself and a part, not the conversation") {
    test::rng random(1);
    const auto cache = std::make_shared<text::part_cache>();
    const auto encoder = with_cache(cache, 1024);
    prompt p;
    for (int turn = 0; turn < 40; ++turn) p.add_turn(words(random, 100), words(random, 700));
    check_ids(*encoder, "a", p);
    const auto before = cache->counters();
    CHECK(before.bytes_found == 0);
    const size_t old_size = p.text.size();
    p.add_turn(words(random, 300), words(random, 300));
    check_ids(*encoder, "a", p);
    const auto after = cache->counters();
    const size_t encoded = p.text.size() - (after.bytes_found - before.bytes_found);
    CHECK(encoded <= p.text.size() - old_size + 2048);
    // Turns share: what both hold is about one text and its ids.
    const auto ids = test::tiny_tokenizer()->encode(p.text, p.specials);
    CHECK(after.bytes <= (p.text.size() + 4 * ids->size()) * 3 / 2);
  }

  TEST_CASE("a change in the middle costs the parts it touches") {
    test::rng random(2);
    const auto cache = std::make_shared<text::part_cache>();
    const auto encoder = with_cache(cache, 200);
    std::vector<std::string> texts;
    for (int i = 0; i < 30; ++i) texts.push_back(words(random, 400 + random.below(400)));
    const auto make = [&texts] {
      prompt p;
      for (const auto& said : texts) p.add_turn("go on", said);
      return p;
    };
    check_ids(*encoder, "a", make());
    const auto before = cache->counters();
    texts[3] = "Something else.";
    const prompt changed = make();
    check_ids(*encoder, "a", changed);
    const size_t found = cache->counters().bytes_found - before.bytes_found;
    CHECK(changed.text.size() - found < 3000);
  }

  TEST_CASE("text that spells a token is not the token, though its bytes are the same") {
    const auto cache = std::make_shared<text::part_cache>();
    const auto encoder = with_cache(cache, 8);
    prompt meant, spelled;
    meant.add("Hello");
    meant.add_special("<｜User｜>");
    meant.add("you");
    spelled.add(meant.text);
    for (int round = 0; round < 2; ++round) {
      check_ids(*encoder, "a", meant);
      check_ids(*encoder, "a", spelled);
    }
    const auto user = *test::tiny_tokenizer()->special_id("<｜User｜>");
    const auto ids = *encoder->encode("a", spelled.text, {});
    CHECK(std::count(ids.begin(), ids.end(), user) == 0);
    CHECK(cache->counters().parts_found > 0);
  }

  TEST_CASE("digests that all collide cost speed, never an id") {
    const auto all_equal = [](const text::text_part&) { return digest128{7, 7}; };
    const auto cache = std::make_shared<text::part_cache>(text::part_cache_limits{}, all_equal);
    const auto encoder = with_cache(cache, 16);
    prompt meant, spelled;
    meant.add_turn("Tell me a story about a cat", "Once upon a time");
    spelled.add(meant.text);
    for (int round = 0; round < 3; ++round) {
      check_ids(*encoder, "a", meant);
      check_ids(*encoder, "a", spelled);
    }
    CHECK(cache->counters().parts == 1);
  }

  TEST_CASE("scopes never find each other's prompts") {
    test::rng random(3);
    const auto cache = std::make_shared<text::part_cache>();
    const auto encoder = with_cache(cache, 64);
    prompt p;
    for (int turn = 0; turn < 5; ++turn) p.add_turn(words(random, 100), words(random, 100));
    const std::vector<std::string> scopes = {"a", "b", "", "a ", std::string("a\0", 2)};
    for (const auto& scope : scopes) {
      const auto before = cache->counters();
      check_ids(*encoder, scope, p);
      CHECK(cache->counters().parts_found == before.parts_found);
    }
    CHECK(cache->counters().scopes == scopes.size());
    const auto before = cache->counters();
    check_ids(*encoder, "b", p);
    CHECK(cache->counters().parts_found > before.parts_found);
  }

  TEST_CASE("a last part that the next turn will go on with is not kept") {
    const auto cache = std::make_shared<text::part_cache>();
    const auto encoder = with_cache(cache, 100);
    prompt p;
    p.add_special("<｜User｜>");
    p.add("Hello");
    check_ids(*encoder, "a", p);
    CHECK(cache->counters().parts == 0);
    p.add(std::string(100, 'x'));
    check_ids(*encoder, "a", p);
    CHECK(cache->counters().parts == 1);  // one of full size may well come again
  }

  TEST_CASE("an empty prompt has no ids") {
    const auto encoder = with_cache(std::make_shared<text::part_cache>(), 64);
    check_ids(*encoder, "a", {});
  }
}
