#include "storage/folder/store_folder.hpp"
#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

namespace deepinfer::storage {

TEST_SUITE_BEGIN("storage/folder");

TEST_CASE("owners take one folder after another, and a new one finds the old one's name") {
  const test::scratch_folder base;
  auto first = store_folder::claim(base.path(), {1, 2});
  REQUIRE(first);
  std::optional<store_folder> held{*std::move(first)};
  CHECK(held->path() == base.path() + "/0");
  CHECK(held->id() == store_id{1, 2});
  CHECK(is_owned(held->path()));
  const auto second = store_folder::claim(base.path(), {3, 4});
  REQUIRE(second);
  CHECK(second->path() == base.path() + "/1");
  held.reset();
  CHECK_FALSE(is_owned(base.path() + "/0"));
  const auto again = store_folder::claim(base.path(), {5, 6});
  REQUIRE(again);
  CHECK(again->path() == base.path() + "/0");
  CHECK(again->id() == store_id{1, 2});
}

TEST_CASE("a damaged or missing id comes back from its copy, and is new when both are damaged") {
  const test::scratch_folder base;
  const std::string id = base.path() + "/0/id", copy = id + ".copy";
  const auto claimed = [&](const store_id& fresh) {
    const auto folder = store_folder::claim(base.path(), fresh);
    REQUIRE(folder);
    CHECK(*read_store_id(folder->path()) == folder->id());
    CHECK(*read_store_id_copy(folder->path()) == folder->id());
    return std::pair(folder->id(), !folder->mended().empty());
  };
  CHECK(claimed({1, 2}) == std::pair(store_id{1, 2}, false));
  std::ofstream{id} << "not an id\n";
  CHECK(read_store_id(base.path() + "/0").error().code == error_code::corrupt);
  CHECK(claimed({3, 4}) == std::pair(store_id{1, 2}, true));
  std::filesystem::remove(id);
  CHECK(claimed({3, 4}) == std::pair(store_id{1, 2}, true));
  std::ofstream{copy} << "";
  CHECK(claimed({3, 4}) == std::pair(store_id{1, 2}, true));
  std::filesystem::remove(copy);  // as of an older release
  CHECK(claimed({3, 4}) == std::pair(store_id{1, 2}, false));
  std::ofstream{id} << "?";
  std::ofstream{copy} << "?";
  CHECK(claimed({5, 6}) == std::pair(store_id{5, 6}, true));
}

TEST_CASE(
    "what is set aside takes the place of what was, and a folder that cannot be made is said") {
  const test::scratch_folder base;
  for (const char* what : {"one", "two"}) {
    std::filesystem::create_directories(base.path() + "/index");
    std::ofstream{base.path() + "/index/" + what} << "x";
    const auto aside = set_aside(base.path() + "/index");
    REQUIRE(aside);
    CHECK_FALSE(std::filesystem::exists(base.path() + "/index"));
    CHECK(std::filesystem::exists(*aside + "/" + what));
  }
  CHECK_FALSE(std::filesystem::exists(base.path() + "/index.damaged/one"));
  CHECK_FALSE(set_aside(base.path() + "/nothing"));
  std::ofstream{base.path() + "/file"} << "x";
  const auto blocked = store_folder::claim(base.path() + "/file", {1, 2});
  REQUIRE_FALSE(blocked);
  CHECK(blocked.error().code == error_code::unreachable);
}

TEST_CASE("more nodes than there are slots find none") {
  const test::scratch_folder base;
  std::vector<store_folder> all;
  for (uint64_t i = 0; i < store_folder::most_slots; ++i)
    all.push_back(*store_folder::claim(base.path(), {i + 1, 1}));
  const auto one_more = store_folder::claim(base.path(), {99, 1});
  REQUIRE_FALSE(one_more);
  CHECK(one_more.error().code == error_code::no_capacity);
}

TEST_CASE("a mark is read back, and its absence told from damage") {
  const test::scratch_folder folder;
  CHECK(read_mark(folder.path()).error().code == error_code::not_found);
  REQUIRE(write_mark(folder.path(), {7, 8}));
  CHECK(*read_mark(folder.path()) == store_id{7, 8});
  REQUIRE(write_mark(folder.path(), {9, 10}));
  CHECK(*read_mark(folder.path()) == store_id{9, 10});
  std::ofstream{folder.path() + "/mark"} << "0123";
  CHECK(read_mark(folder.path()).error().code == error_code::corrupt);
}

TEST_SUITE_END();

}  // namespace deepinfer::storage
