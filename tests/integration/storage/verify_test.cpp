#include "storage/rocks/rocks_store.hpp"
#include "storage/segment/segment_format.hpp"
#include "storage/verify/verify_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/store_rules.hpp"

#include <filesystem>
#include <fstream>
#include <map>

namespace deepinfer::storage {

using namespace std::chrono_literals;

namespace {

/// Two chains in a store that is closed.
struct closed_store {
  closed_store() {
    auto store = open_rocks_store({folder.path(), {}, {}, test::small_store()});
    REQUIRE(store);
    REQUIRE(test::chain_writer{**store}.put(chain, 0, 6, test::at(0s)) == 6);
    REQUIRE(test::chain_writer{**store}.put(other, 0, 3, test::at(0s)) == 3);
    REQUIRE((*store)->flush());
  }
  [[nodiscard]] verify_options options() const {
    return {folder.path() + "/index", folder.path() + "/segments", 0, {}, {}};
  }
  /// The file that has the blocks.
  [[nodiscard]] std::string segment() const {
    for (const auto& file : std::filesystem::directory_iterator{folder.path() + "/segments"})
      if (file.path().extension() == ".kv") return file.path();
    FAIL("no segment");
    return {};
  }

  test::scratch_folder folder;
  test::block_chain chain = test::make_chain("a", 1, 6);
  test::block_chain other = test::make_chain("b", 2, 3);
};

std::map<std::string, std::filesystem::file_time_type> times_in(const std::string& folder) {
  std::map<std::string, std::filesystem::file_time_type> all;
  for (const auto& file : std::filesystem::recursive_directory_iterator{folder})
    if (file.is_regular_file()) all[file.path()] = file.last_write_time();
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("storage/verify");

TEST_CASE("a whole store is well, and looking at it changes no file") {
  const closed_store store;
  const auto before = times_in(store.folder.path());
  uint64_t last = 0, all = 0;
  auto options = store.options();
  options.progress = [&](uint64_t done, uint64_t of) {
    last = done;
    all = of;
  };
  const auto report = verify_store(options);
  REQUIRE(report);
  CHECK(report->wrong() == 0);
  CHECK(report->blocks == 9);
  CHECK(report->scopes == 2);
  CHECK(report->bytes == 9 * store.chain.length);
  CHECK(last == 9);
  CHECK(all == 9);
  CHECK(times_in(store.folder.path()) == before);
}

TEST_CASE("a flipped bit is found and its block named") {
  const closed_store store;
  {
    std::fstream file{store.segment(), std::ios::in | std::ios::out | std::ios::binary};
    file.seekg(4096 + 17);  // of the first block, behind the header
    const auto old = static_cast<char>(file.get());
    file.seekp(4096 + 17);
    file.put(static_cast<char>(old ^ 4));
  }
  const auto report = verify_store(store.options());
  REQUIRE(report);
  CHECK(report->wrong_bytes == 1);
  CHECK(report->wrong() == 1);
  REQUIRE(report->first_problems.size() == 1);
  CHECK(report->first_problems[0].find(to_string(store.chain.keys[0])) != std::string::npos);
}

TEST_CASE("a file that is gone or cut short takes its blocks with it") {
  const closed_store store;
  std::filesystem::resize_file(store.segment(), 4096 * 4);
  const auto cut = verify_store(store.options());
  REQUIRE(cut);
  CHECK(cut->wrong_bytes == 6);
  std::filesystem::remove(store.segment());
  const auto gone = verify_store(store.options());
  REQUIRE(gone);
  CHECK(gone->wrong_bytes == 9);
}

TEST_CASE("blocks without the parent that they need are broken chains") {
  const closed_store store;
  {
    auto journal = open_rocks_journal(store.folder.path() + "/index", {});
    REQUIRE(journal);
    journal_batch batch;
    batch.erase = {store.chain.keys[3]};
    REQUIRE((*journal)->apply(batch, journal_wait::device));
  }
  auto options = store.options();
  const auto report = verify_store(options);
  REQUIRE(report);
  CHECK(report->broken_chains == 1);
  options.group_blocks = 4;  // then it begins a group
  const auto grouped = verify_store(options);
  REQUIRE(grouped);
  CHECK(grouped->wrong() == 0);
}

TEST_CASE("damage around the bytes of blocks is found: headers, footers, places that overlap") {
  const closed_store store;
  const auto poke = [&](uint64_t offset) {
    std::fstream file{store.segment(), std::ios::in | std::ios::out | std::ios::binary};
    file.seekg(static_cast<std::streamoff>(offset));
    const auto old = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(old ^ 1));
  };
  poke(4096 * 2 - 20);  // in the footer of the first block
  poke(9);              // in the header of the file
  const auto frames = verify_store(store.options());
  REQUIRE(frames);
  CHECK(frames->wrong_frames == 2);
  CHECK(frames->wrong() == 2);
  {
    auto journal = open_rocks_journal(store.folder.path() + "/index", {});
    REQUIRE(journal);
    journal_batch batch;
    REQUIRE((*journal)->load([&](const block_record& r) {
      if (r.key == store.chain.keys[5]) batch.put.push_back(r);
    }));
    REQUIRE(batch.put.size() == 1);
    batch.put[0].location.offset = 4096;  // where the first one lies
    REQUIRE((*journal)->apply(batch, journal_wait::device));
  }
  const auto places = verify_store(store.options());
  REQUIRE(places);
  CHECK(places->misplaced == 1);
  CHECK(places->wrong_bytes == 1);
}

TEST_CASE("garbage in the log of the index is found, and what is in front of it is still read") {
  const closed_store store;
  for (const auto& file : std::filesystem::directory_iterator{store.folder.path() + "/index"})
    if (file.path().extension() == ".log" && file.file_size() > 300) {
      std::fstream log{file.path(), std::ios::in | std::ios::out | std::ios::binary};
      log.seekp(static_cast<std::streamoff>(file.file_size() - 200));
      log << std::string(100, 'U');
    }
  const auto report = verify_store(store.options());
  REQUIRE(report);
  CHECK(report->damaged_index == 1);
  CHECK(report->blocks > 0);
}

TEST_CASE("files of segments that no record names are counted, and are not wrong") {
  const closed_store store;
  std::filesystem::copy_file(store.segment(),
                             store.folder.path() + "/segments/" + segment_name(77));
  const auto report = verify_store(store.options());
  REQUIRE(report);
  CHECK(report->unnamed_files == 1);
  CHECK(report->wrong() == 0);
}

TEST_SUITE_END();

}  // namespace deepinfer::storage
