#include "storage/memory/memory_store.hpp"

#include "tests/support/store_rules.hpp"

#include <doctest/doctest.h>

TEST_SUITE_BEGIN("storage/memory");

namespace deepinfer::storage {

TEST_CASE("the memory store keeps every rule of stores") {
  for (const auto& rule : test::store_rules()) {
    const std::string name = rule.name;
    CAPTURE(name);
    memory_medium medium{1};
    test::store_home home{[&medium](const store_config& config) { return medium.open(config); }};
    rule.check(home);
  }
}

}  // namespace deepinfer::storage

TEST_SUITE_END();
