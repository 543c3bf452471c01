#pragma once

#include "storage/block_store.hpp"
#include "storage/store_config.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace deepinfer::test {

/// A place where one store lives; opening it again is its next life.
struct store_home {
  std::function<result<std::unique_ptr<storage::block_store>>(const storage::store_config&)> open;

  [[nodiscard]] std::unique_ptr<storage::block_store> opened(const storage::store_config& config);
};

/// What every store promises, one rule after another, each in an empty home.
struct store_rule {
  const char* name;
  void (*check)(store_home&);
};
[[nodiscard]] const std::vector<store_rule>& store_rules();
/// These, and those about moving groups, or purges.
[[nodiscard]] std::vector<store_rule> with_group_rules(std::vector<store_rule> others);
[[nodiscard]] std::vector<store_rule> with_purge_rules(std::vector<store_rule> others);

/// Small enough that every limit is near.
[[nodiscard]] storage::store_config small_store();

}  // namespace deepinfer::test
