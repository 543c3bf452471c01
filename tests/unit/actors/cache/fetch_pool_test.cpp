#include "actors/cache/fetch_pool.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

/// Notes what ran and what was refused, by letter.
struct pool_world {
  explicit pool_world(uint32_t workers) : pool(workers, 500ms) {}

  void add(const std::string& folder, char name) {
    pool.add({folder, [this, name] { ran += name; }, [this, name] { refused += name; }});
  }
  /// Starts all that may start; their workers.
  std::vector<uint32_t> begin(std::chrono::milliseconds now = 0ms) {
    std::vector<uint32_t> workers;
    while (const auto one = pool.next(now)) {
      one->run();
      workers.push_back(one->worker);
    }
    return workers;
  }
  void refuse(std::chrono::milliseconds now) {
    for (const auto& one : pool.hopeless(now)) one();
  }

  std::string ran, refused;
  fetch_pool pool;
};

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE("works begin in the order in which they came, one for each worker") {
    pool_world w{2};
    for (const char name : {'a', 'b', 'c'}) w.add("", name);
    const auto workers = w.begin();
    CHECK(w.ran == "ab");
    CHECK(workers == std::vector<uint32_t>{0, 1});
    w.pool.over(1);
    CHECK(w.begin() == std::vector<uint32_t>{1});
    CHECK(w.ran == "abc");
    CHECK(w.pool.waiting() == 0);
  }

  TEST_CASE("when all that may read files hang, no folder is waited for") {
    pool_world w{4};
    for (const char name : {'a', 'b'}) w.add("/x", name);
    w.add("/y", 'y');  // of the same mount
    w.begin();
    w.add("/z", 'z');
    w.refuse(400ms);
    CHECK(w.refused.empty());
    w.add("", 'v');
    w.refuse(600ms);
    CHECK(w.refused == "z");
    w.begin(600ms);
    CHECK(w.ran == "abyv");
  }

  TEST_CASE("readers of files leave a worker for those who verify, and one for other folders") {
    pool_world w{4};
    for (const char name : {'a', 'b', 'c', 'd'}) w.add("/x", name);
    w.add("/y", 'y');
    w.add("/z", 'z');
    w.add("", 'v');
    w.begin();
    CHECK(w.ran == "abyv");
    w.pool.over(2);  // the reader of /y
    w.begin();
    CHECK(w.ran == "abyvz");
  }

  TEST_CASE("one worker alone does everything, one by one") {
    pool_world w{1};
    w.add("/x", 'a');
    w.add("", 'v');
    CHECK(w.begin().size() == 1);
    w.pool.over(0);
    w.begin();
    CHECK(w.ran == "av");
  }

  TEST_CASE("what waits for a folder that hangs is refused, and only that") {
    pool_world w{4};
    for (const char name : {'a', 'b', 'c', 'd'}) w.add("/x", name);
    w.begin();
    w.refuse(499ms);
    CHECK(w.refused.empty());
    w.add("/y", 'y');
    CHECK(w.pool.late(500ms) == 2);
    w.refuse(500ms);
    CHECK(w.refused == "cd");
    w.begin(500ms);
    CHECK(w.ran == "aby");
    // it is back: its blocks are read from it again
    w.pool.over(0);
    w.pool.over(1);
    w.add("/x", 'e');
    w.refuse(600ms);
    w.begin(600ms);
    CHECK(w.ran == "abye");
    CHECK(w.refused == "cd");
  }

  TEST_CASE("verifying is never refused, however long others take") {
    pool_world w{2};
    w.add("", 'a');
    w.add("", 'b');
    w.begin();
    w.add("", 'c');
    w.refuse(10s);
    CHECK(w.refused.empty());
    w.pool.over(0);
    w.pool.over(0);  // twice is once
    CHECK(w.begin(10s).size() == 1);
    CHECK(w.ran == "abc");
  }
}
