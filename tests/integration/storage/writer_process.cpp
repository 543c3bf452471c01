// Writes chains into a store until somebody kills it, and says which ones are committed and how
// many bytes it has rewritten.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/integration/storage/killed_writer.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  using namespace deepinfer;
  using namespace std::chrono_literals;
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler([](const doctest::AssertData&) { std::abort(); });
  if (argc != 3) return 2;
  auto store = storage::open_rocks_store(test::killed_store(argv[1]));
  if (!store) return 1;
  for (uint64_t number = std::stoull(argv[2]);; ++number) {
    const auto now = test::at(std::chrono::seconds{number});
    const auto kept = test::kept_chain(number), passing = test::passing_chain(number);
    test::chain_writer writer{**store};
    for (uint32_t from = 0; from < test::killed_chain_blocks; from += 4) {
      if (writer.put(kept, from, from + 4, now) != 4) return 3;
      if (writer.put(passing, from, from + 4, now) != 4) return 3;
    }
    std::printf("%llu %llu\n", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>((*store)->stats().compacted_bytes));
    std::fflush(stdout);
    if (number % 5 == 4 && !(*store)->purge(passing.scope, now)) return 4;
    if (!(*store)->compact(1 << 20, now) || !(*store)->scrub(1 << 16, now)) return 5;
  }
}
