#include "storage/segment/segment_store.hpp"
#include "tests/integration/storage/killed_writer.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/scratch_folder.hpp"

#include <csignal>
#include <cstdlib>

namespace deepinfer::storage {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("storage/rocks");

TEST_CASE("a writer killed at any moment leaves a whole store with all it committed") {
  const int rounds = std::getenv("DEEPINFER_LONG_TESTS") != nullptr ? 200 : 8;
  const test::scratch_folder folder;
  test::rng random{5};
  uint64_t next = 0;
  uint64_t rewritten = 0;  // lines told after a segment was rewritten
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    uint64_t told = next;
    {
      test::child_process writer{{DEEPINFER_STORE_WRITER, folder.path(), std::to_string(next)}};
      for (uint32_t lines = 1 + random.below(25); lines > 0; --lines) {
        const std::string line = writer.line();
        REQUIRE_MESSAGE(!line.empty(), "the writer ended by itself");
        told = std::stoull(line) + 1;
        rewritten += std::stoull(line.substr(line.find(' ') + 1)) > 0 ? 1 : 0;
      }
      writer.end(SIGKILL);
      // what it said before it died, and the test had not read yet, is told as well
      for (std::string line = writer.line(); !line.empty(); line = writer.line())
        told = std::stoull(line) + 1;
    }
    auto store = open_rocks_store(test::killed_store(folder.path()));
    REQUIRE_MESSAGE(store, (store ? "" : to_string(store.error())));
    const auto broken = dynamic_cast<segment_store&>(**store).broken_rule();
    REQUIRE_MESSAGE(!broken, broken.value_or(""));
    const auto now = test::at(std::chrono::seconds{told + 1});
    for (uint64_t number = 0; number < told + 2; ++number) {
      const auto kept = test::kept_chain(number), passing = test::passing_chain(number);
      const uint32_t blocks = test::stored_blocks(**store, kept, now);
      if (number < told) CHECK(blocks == test::killed_chain_blocks);
      CHECK(test::read_back(**store, kept, blocks, now) == blocks);
      const uint32_t others = test::stored_blocks(**store, passing, now);
      CHECK(test::read_back(**store, passing, others, now) == others);
    }
    CHECK((*store)->stats().quarantined == 0);
    next = told;
  }
  CHECK(next > static_cast<uint64_t>(rounds));
  CHECK(rewritten > 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
