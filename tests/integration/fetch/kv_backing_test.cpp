#include "actors/cache/kv_backing.hpp"

#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace deepinfer {

namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

/// One life of a store in this folder, and what it took for its size.
struct life {
  uint64_t capacity = 0;
  size_t mended = 0;
};
life open_once(const std::string& folder, uint64_t setting, const std::string& engine = "rocks") {
  kv_store_config config;
  config.engine = engine;
  config.path = folder + (engine == "shared" ? "/shared" : "");
  if (engine == "shared") config.index_path = folder;
  config.store.segment_bytes = mib;
  config.capacity_bytes = setting;
  const auto backing = open_kv_backing(config, {{}, {1, 2}, {3, 4}});
  REQUIRE(backing);
  CHECK(backing->store->stats().capacity_bytes == backing->capacity_bytes);
  return {backing->capacity_bytes, backing->mended.size()};
}

}  // namespace

TEST_SUITE_BEGIN("actors/cache");

TEST_CASE("a size that nobody set is that of the first start, however full the disk is now") {
  for (const std::string engine : {"rocks", "shared"}) {
    CAPTURE(engine);
    const test::scratch_folder folder;
    const std::string home = folder.path() + "/0";
    const uint64_t chosen = open_once(folder.path(), 0, engine).capacity;
    CHECK(chosen >= mib);
    REQUIRE(storage::read_capacity(home));
    CHECK(*storage::read_capacity(home) == chosen);
    // as if half of the disk had been this much then
    REQUIRE(storage::write_capacity(home, 24 * mib));
    for (int lives = 0; lives < 2; ++lives)
      CHECK(open_once(folder.path(), 0, engine).capacity == 24 * mib);
    // a size that is set counts, and the one that was chosen is forgotten
    CHECK(open_once(folder.path(), 16 * mib, engine).capacity == 16 * mib);
    CHECK(storage::read_capacity(home).error().code == error_code::not_found);
    CHECK(open_once(folder.path(), 0, engine).capacity != 24 * mib);
    CHECK(storage::read_capacity(home));
  }
}

TEST_CASE("the file of the size may be removed or damaged: the size is chosen anew") {
  const test::scratch_folder folder;
  const std::string home = folder.path() + "/0";
  open_once(folder.path(), 0);
  REQUIRE(storage::write_capacity(home, 24 * mib));
  std::filesystem::remove(home + "/capacity");
  const life removed = open_once(folder.path(), 0);
  CHECK(removed.capacity != 24 * mib);
  CHECK(removed.mended == 0);
  REQUIRE(storage::write_capacity(home, 24 * mib));
  {
    std::fstream file{home + "/capacity", std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(3);
    file.put('7');  // still a number
  }
  CHECK(storage::read_capacity(home).error().code == error_code::corrupt);
  const life damaged = open_once(folder.path(), 0);
  CHECK(damaged.capacity != 24 * mib);
  CHECK(damaged.mended == 1);
  CHECK(open_once(folder.path(), 0).mended == 0);
}

TEST_SUITE_END();

}  // namespace deepinfer
