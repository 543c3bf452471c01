#include "storage/rocks/rocks_store.hpp"
#include "storage/segment/disk_files.hpp"
#include "storage/shared/shared_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/store_rules.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

namespace deepinfer::storage {
namespace {

using namespace std::chrono_literals;

void check_all(const disk_options& disk) {
  for (const auto& rule : test::store_rules()) {
    const std::string name = rule.name;
    CAPTURE(name);
    const test::scratch_folder folder;
    test::store_home home{[&](const store_config& config) {
      return open_rocks_store({folder.path(), disk, {}, config});
    }};
    rule.check(home);
  }
}

/// Changes one byte of a file.
void damage(const std::string& path, uint64_t offset) {
  std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
  REQUIRE(file.good());
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

TEST_SUITE_BEGIN("storage/rocks");

TEST_CASE("the embedded store keeps every rule of stores, by rings") {
  check_all({});
}

TEST_CASE("the embedded store keeps every rule of stores, by plain calls") {
  check_all({.submit = disk_options::submission::calls});
}

TEST_CASE("the embedded store keeps every rule of stores, past the page cache") {
  check_all({.cache = disk_options::caching::direct});
}

/// How often `text` stands in the files of a folder, those of folders in it too.
size_t count_in_files(const std::string& folder, std::span<const std::byte> text) {
  const std::string wanted{reinterpret_cast<const char*>(text.data()), text.size()};
  size_t count = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator{folder}) {
    if (!file.is_regular_file()) continue;
    std::ifstream in{file.path(), std::ios::binary};
    const std::string all{std::istreambuf_iterator<char>{in}, {}};
    for (size_t at = all.find(wanted); at != std::string::npos; at = all.find(wanted, at + 1))
      ++count;
  }
  return count;
}

TEST_CASE("when upkeep has followed a purge, no file holds what was purged, tokens included") {
  const test::scratch_folder folder;
  const auto gone = test::make_chain("gone", 1, 20);
  const auto kept = test::make_chain("kept", 2, 20);
  auto store = open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(store);
  for (uint32_t i = 0; i < 20; ++i)  // blocks of both in every file
    for (const auto* chain : {&gone, &kept})
      REQUIRE(test::chain_writer{**store}.put(*chain, i, i + 1, test::at(0s)) == 1);
  REQUIRE((*store)->flush());
  const auto bytes_of_one = [](const test::block_chain& chain) {
    return test::bytes_of(chain.keys[7], chain.length);
  };
  CHECK(count_in_files(folder.path(), gone.content(7)) > 0);
  CHECK(count_in_files(folder.path(), bytes_of_one(gone)) > 0);
  REQUIRE((*store)->purge(gone.scope, test::at(1s)));
  for (int round = 0; round < 3; ++round) REQUIRE((*store)->compact(64 << 20, test::at(2s)));
  CHECK(count_in_files(folder.path(), gone.content(7)) == 0);
  CHECK(count_in_files(folder.path(), bytes_of_one(gone)) == 0);
  CHECK(count_in_files(folder.path(), kept.content(7)) > 0);
  CHECK(count_in_files(folder.path(), bytes_of_one(kept)) > 0);
  CHECK(test::stored_blocks(**store, kept, test::at(2s)) == 20);
}

TEST_CASE("purged contents are erased in the next life, too, when no segment is left of them") {
  const test::scratch_folder folder;
  const auto gone = test::make_chain("gone", 1, 20);
  {
    auto store = open_rocks_store({folder.path(), {}, {}, test::small_store()});
    REQUIRE(store);
    REQUIRE(test::chain_writer{**store}.put(gone, 0, 20, test::at(0s)) == 20);
    REQUIRE((*store)->flush());
    REQUIRE((*store)->purge(gone.scope, test::at(1s)));
    CHECK((*store)->stats().segments == 0);
  }
  CHECK(count_in_files(folder.path(), gone.content(7)) > 0);
  auto store = open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(store);
  REQUIRE((*store)->compact(64 << 20, test::at(2s)));
  CHECK(count_in_files(folder.path(), gone.content(7)) == 0);
}

TEST_CASE("purged contents are erased part by part") {
  const test::scratch_folder folder;
  rocks_store_options options{folder.path(), {}, {}, test::small_store()};
  options.index.erase_part_bytes = 1024;  // of some kilobytes
  auto store = open_rocks_store(options);
  REQUIRE(store);
  std::vector<test::block_chain> gone, kept;
  for (uint64_t i = 0; i < 8; ++i) {
    gone.push_back(test::make_chain("gone", 2 * i, 8));
    kept.push_back(test::make_chain("kept", 2 * i + 1, 8));
    for (const auto* chain : {&gone.back(), &kept.back()})
      REQUIRE(test::chain_writer{**store}.put(*chain, 0, 8, test::at(0s)) == 8);
  }
  REQUIRE((*store)->flush());
  const auto found = [&](const std::vector<test::block_chain>& chains) {
    size_t blocks = 0;
    for (const auto& chain : chains)
      for (uint32_t i = 0; i < 8; ++i)
        blocks += count_in_files(folder.path(), chain.content(i)) > 0 ? 1 : 0;
    return blocks;
  };
  REQUIRE((*store)->purge(gone[0].scope, test::at(1s)));
  CHECK(found(gone) == 64);
  for (int round = 0; round < 200 && found(gone) > 0; ++round)
    REQUIRE((*store)->compact(64 << 20, test::at(2s)));
  CHECK(found(gone) == 0);
  CHECK(found(kept) == 64);
  for (const auto& chain : kept) CHECK(test::stored_blocks(**store, chain, test::at(2s)) == 8);
}

TEST_CASE("rings and plain calls of many sizes read what was written") {
  for (const auto cache : {disk_options::caching::page_cache, disk_options::caching::direct})
    for (const auto submit : {disk_options::submission::ring, disk_options::submission::calls}) {
      const test::scratch_folder folder;
      auto files = disk_files::in(folder.path(), {cache, submit, 4, 1});
      REQUIRE(files);
      auto file = (*files)->create("f", 100 * 4096);
      REQUIRE(file);
      CHECK((*files)->create("f", 0).error().code == error_code::invalid_argument);
      test::rng random{1};
      std::vector<std::vector<std::byte>> written;
      std::vector<file_operation> operations;
      for (uint64_t i = 0; i < 20; ++i) {
        auto& bytes = written.emplace_back(8192);
        for (auto& b : bytes) b = static_cast<std::byte>(random.next());
        const size_t cut = random.below(8193);
        operations.push_back({file_operation::kind::write, file->get(), i * 8192,
                              std::span{bytes}.first(cut), std::span{bytes}.subspan(cut)});
      }
      (*files)->run(operations);
      for (const auto& op : operations) REQUIRE(op.result == file_operation::outcome::done);
      REQUIRE((*files)->trim("f", 20 * 8192));
      CHECK((*files)->list()->front().bytes == 20 * 8192);
      std::vector<std::vector<std::byte>> read(21, std::vector<std::byte>(8192));
      operations.clear();
      for (uint64_t i = 0; i < 21; ++i)
        operations.push_back({file_operation::kind::read, file->get(), i * 8192,
                              std::span{read[i]}.first(5000 + i)});
      (*files)->run(operations);
      for (uint64_t i = 0; i < 20; ++i) {
        CHECK(operations[i].transferred == 5000 + i);
        CHECK(std::equal(read[i].begin(), read[i].begin() + 5000, written[i].begin()));
      }
      CHECK(operations[20].result == file_operation::outcome::done);  // behind the end: nothing
      CHECK(operations[20].transferred == 0);
      CHECK((*files)->open("g").error().code == error_code::not_found);
    }
}

TEST_CASE("damaged bytes are never handed out, and the block is not offered again") {
  const test::scratch_folder folder;
  const auto chain = test::make_chain("a", 1, 10);
  auto store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(test::chain_writer{*store}.put(chain, 0, 10, test::at(0s)) == 10);
  damage(folder.path() + "/segments/segment-00000001.kv", 4096 + 6 * 4096 + 999);
  CHECK(test::read_back(*store, chain, 10, test::at(1s)) == 9);
  CHECK(test::stored_blocks(*store, chain, test::at(1s)) == 6);  // with all behind it
  CHECK(store->stats().quarantined == 4);
  store.reset();
  store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  CHECK(test::stored_blocks(*store, chain, test::at(1s)) == 6);
  CHECK(test::chain_writer{*store}.put(chain, 6, 10, test::at(2s)) == 4);
  CHECK(test::read_back(*store, chain, 10, test::at(2s)) == 10);
}

TEST_CASE("a reader that verifies itself gets bytes as they are, and what they should be") {
  const test::scratch_folder folder;
  const auto chain = test::make_chain("a", 1, 3);
  auto store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(test::chain_writer{*store}.put(chain, 0, 3, test::at(0s)) == 3);
  damage(folder.path() + "/segments/segment-00000001.kv", 4096 + 4096 + 99);
  std::vector<std::vector<std::byte>> bytes(3, std::vector<std::byte>(chain.length));
  std::vector<read_item> items;
  for (uint32_t i = 0; i < 3; ++i)
    items.push_back({chain.keys[i], bytes[i], read_check::by_reader});
  const auto read = store->read(items, {}, test::at(1s));
  REQUIRE(read);
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK((*read)[i].status == read_status::ok);
    CHECK((block_checksum(chain.keys[i], bytes[i]) == (*read)[i].checksum) == (i != 1));
  }
  CHECK(store->stats().quarantined == 0);  // nobody has looked
  items[1].check = read_check::by_store;
  CHECK((*store->read(items, {}, test::at(1s)))[1].status == read_status::bad);
  CHECK(store->stats().quarantined == 2);
}

TEST_CASE("bytes that an earlier life let go of leave the files when their scope is purged") {
  const test::scratch_folder folder;
  const auto gone = test::make_chain("a", 1, 3), kept = test::make_chain("b", 2, 9);
  auto store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(test::chain_writer{*store}.put(kept, 0, 9, test::at(0s)) == 9);
  REQUIRE(test::chain_writer{*store}.put(gone, 0, 3, test::at(0s)) == 3);
  const std::vector<block_key> leaves_first(gone.keys.rbegin(), gone.keys.rend());
  REQUIRE(*store->give_away(leaves_first, test::at(0s)) == 3);
  store.reset();
  const auto found = [&] {
    uint32_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/segments")) {
      std::ifstream in{entry.path(), std::ios::binary};
      const std::string text{std::istreambuf_iterator<char>{in}, {}};
      for (const block_key& key : gone.keys) {
        const auto bytes = test::bytes_of(key, gone.length);
        count += text.find({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) !=
                 std::string::npos;
      }
    }
    return count;
  };
  REQUIRE(found() == 3);
  store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  CHECK(store->purge(gone.scope, test::at(1s))->blocks == 0);
  for (int i = 0; i < 4; ++i) REQUIRE(store->compact(1 << 20, test::at(1s)));
  CHECK(test::read_back(*store, kept, 9, test::at(2s)) == 9);
  store.reset();
  CHECK(found() == 0);
}

TEST_CASE("leased blocks that were in quarantine when their scope was purged leave the files") {
  const test::scratch_folder folder;
  const auto gone = test::make_chain("a", 1, 3), kept = test::make_chain("b", 2, 9);
  auto store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(test::chain_writer{*store}.put(kept, 0, 9, test::at(0s)) == 9);
  REQUIRE(test::chain_writer{*store}.put(gone, 0, 3, test::at(0s)) == 3);
  const auto match = *store->match(gone.query(), lease_wish::grant, test::at(1s));
  REQUIRE(match.blocks == 3);
  const std::string file = folder.path() + "/segments/segment-00000001.kv";
  damage(file, 4096 + 9 * 4096 + 999);
  CHECK(test::read_back(*store, gone, 3, test::at(1s)) == 2);
  CHECK(store->purge(gone.scope, test::at(1s))->blocks == 0);
  REQUIRE(store->release(match.lease, {}, test::at(2s)));
  for (int i = 0; i < 4; ++i) REQUIRE(store->compact(1 << 20, test::at(2s)));
  CHECK(test::read_back(*store, kept, 9, test::at(2s)) == 9);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a scrub finds damage that nobody has read") {
  const test::scratch_folder folder;
  const auto chain = test::make_chain("a", 1, 10);
  auto store = *open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(test::chain_writer{*store}.put(chain, 0, 10, test::at(0s)) == 10);
  damage(folder.path() + "/segments/segment-00000001.kv", 4096 + 3 * 4096);
  CHECK(*store->scrub(2'000, test::at(1s)) == 2'000);
  CHECK(store->stats().quarantined == 0);
  CHECK(*store->scrub(1 << 20, test::at(1s)) == 8'000);
  CHECK(store->stats().quarantined == 7);
  CHECK(store->stats().scrub_passes == 1);
}

TEST_CASE("two processes cannot open one store") {
  const test::scratch_folder folder;
  auto store = open_rocks_store({folder.path(), {}, {}, test::small_store()});
  REQUIRE(store);
  CHECK(open_rocks_store({folder.path(), {}, {}, test::small_store()}).error().code ==
        error_code::unreachable);
}

TEST_SUITE_END();

TEST_SUITE_BEGIN("storage/shared");

TEST_CASE("the shared store keeps every rule of stores") {
  for (const auto& rule : test::store_rules()) {
    const std::string name = rule.name;
    CAPTURE(name);
    const test::scratch_folder bytes, index;
    test::store_home home{[&](const store_config& config) {
      return open_shared_store({bytes.path(), index.path(), {}, config});
    }};
    rule.check(home);
  }
}

TEST_CASE("a block is read by path, and verified, without its store") {
  const test::scratch_folder bytes, index;
  auto store = open_shared_store({bytes.path(), index.path(), {}, test::small_store()});
  REQUIRE(store);
  const auto chain = test::make_chain("a", 1, 3);
  REQUIRE(test::chain_writer{**store}.put(chain, 0, 3, test::at(0s)) == 3);
  block_record record;
  record.key = chain.keys[1];
  record.length = chain.length;
  record.location = {1, 2 * 4096};
  const auto wanted = test::bytes_of(chain.keys[1], chain.length);
  record.checksum = block_checksum(record.key, wanted);
  std::vector<std::byte> buffer(chain.length);
  REQUIRE(read_shared_block(bytes.path(), record, buffer));
  CHECK(buffer == wanted);
  record.location.offset = 4096;
  CHECK(read_shared_block(bytes.path(), record, buffer).error().code == error_code::corrupt);
  record.location.segment = 9;
  CHECK(read_shared_block(bytes.path(), record, buffer).error().code == error_code::not_found);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
