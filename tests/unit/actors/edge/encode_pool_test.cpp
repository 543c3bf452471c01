#include "actors/edge/encode_pool.hpp"

#include "runtime/tokenizer/prompt_encoder.hpp"
#include "tests/unit/runtime/tokenizer/random_text.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace deepinfer;

namespace {

std::shared_ptr<encode_pool> pool_of(uint32_t helpers) {
  auto made = encode_pool::make(helpers);
  REQUIRE(made);
  return *std::move(made);
}

/// Lets nobody pass before `count` are there, or the deadline (then `complete` stays false).
class meeting {
public:
  explicit meeting(size_t count) : missing_(count) {}
  void arrive() {
    std::unique_lock lock{mutex_};
    if (--missing_ == 0) all_here_.notify_all();
    complete_ =
        all_here_.wait_for(lock, std::chrono::seconds{20}, [this] { return missing_ == 0; });
  }
  [[nodiscard]] bool complete() const { return complete_; }

private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  size_t missing_;
  bool complete_ = false;
};

}  // namespace

TEST_SUITE("actors/edge") {
  TEST_CASE("every piece is done once, with any number of helpers and pieces") {
    for (const uint32_t helpers : {0u, 1u, 3u}) {
      const auto pool = pool_of(helpers);
      CHECK(pool->width() == helpers + 1);
      for (const size_t count : {0u, 1u, 2u, 7u, 500u}) {
        std::vector<std::atomic<int>> done(count);
        pool->run(count, [&done](size_t number) { ++done[number]; });
        for (const auto& times : done) CHECK(times == 1);
      }
    }
  }

  TEST_CASE("all helpers and the caller work at the same time") {
    const auto pool = pool_of(3);
    meeting all(4);
    pool->run(4, [&all](size_t) { all.arrive(); });
    CHECK(all.complete());
  }

  TEST_CASE("a caller goes on alone while the helpers are busy with another") {
    const auto pool = pool_of(1);
    meeting begun(3), over(3);
    std::thread first{[&] {
      // Its own thread and the only helper, both held until the second caller is through.
      pool->run(2, [&](size_t) {
        begun.arrive();
        over.arrive();
      });
    }};
    begun.arrive();
    const auto me = std::this_thread::get_id();
    int done = 0;
    pool->run(50, [&done, me](size_t) { done += std::this_thread::get_id() == me; });
    CHECK(done == 50);
    over.arrive();
    first.join();
    CHECK(begun.complete());
    CHECK(over.complete());
  }

  TEST_CASE("several prompts at once get their own ids, from one cache") {
    const auto pool = pool_of(2);
    text::part_encoder_options options;
    options.reuse = std::make_shared<text::part_cache>();
    options.runner = pool;
    options.part_bytes = options.least_job_bytes = 64;
    const auto encoder = text::make_part_encoder(test::tiny_tokenizer(), options);
    test::rng random(1);
    std::vector<std::string> prompts;
    for (int i = 0; i < 6; ++i) prompts.push_back(test::random_text(random, 3000));
    std::atomic<int> right = 0;
    std::vector<std::thread> clients;
    for (size_t client = 0; client < 3; ++client)
      clients.emplace_back([&, client] {
        for (size_t turn = 0; turn < 12; ++turn) {
          const std::string& prompt = prompts[(client + turn) % prompts.size()];
          const auto ids = encoder->encode(std::to_string(turn % 2), prompt, {});
          const auto wanted = test::tiny_tokenizer()->encode(prompt, {});
          right += ids && wanted && *ids == *wanted;
        }
      });
    for (std::thread& client : clients) client.join();
    CHECK(right == 36);
    CHECK(options.reuse->counters().parts_found > 0);
  }

  TEST_CASE("ids do not depend on the number of threads, nor on how uneven the pieces are") {
    test::rng random(2);
    std::string prompt = std::string(60'000, 'a');  // cannot be cut
    for (int i = 0; i < 40; ++i)
      prompt +=
          test::random_text(random, random.below(600)) + " " + std::string(random.below(3000), 'b');
    const auto wanted = test::tiny_tokenizer()->encode(prompt, {});
    REQUIRE(wanted);
    for (const uint32_t helpers : {0u, 1u, 2u, 3u}) {
      text::part_encoder_options options;
      options.runner = pool_of(helpers);
      options.least_job_bytes = 1000;
      const auto ids =
          text::make_part_encoder(test::tiny_tokenizer(), options)->encode("", prompt, {});
      REQUIRE(ids);
      CHECK(*ids == *wanted);
    }
  }

  TEST_CASE("one helper too many is refused") {
    CHECK(encode_pool::make(most_encode_helpers));
    const auto refused = encode_pool::make(most_encode_helpers + 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == error_code::invalid_argument);
  }
}
