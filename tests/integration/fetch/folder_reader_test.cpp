#include "actors/cache/folder_reader.hpp"

#include "storage/segment/segment_format.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace deepinfer;
using fetch::outcome;

namespace {

constexpr uint32_t length = 5000;
constexpr uint64_t stride = 8192;  // whole units of 4096
constexpr storage::block_key mark{0x1234, 0x5678};

/// A store's folder with one file of blocks, and a batch that wants them all in one run.
struct store_files {
  store_files() {
    std::string bytes(storage::segment_header_bytes, '\0');
    for (const auto& key : chain.keys) {
      const auto block = test::bytes_of(key, length);
      batch.places.push_back({{3, bytes.size()}, length, storage::block_checksum(key, block)});
      batch.offsets.push_back(batch.offsets.size() * stride);
      bytes.append(reinterpret_cast<const char*>(block.data()), block.size());
      bytes.resize(storage::segment_header_bytes + batch.places.size() * stride);
    }
    write(storage::segment_name(3), bytes);
    write("mark", storage::to_string(mark) + "\n");
    batch.folder = path();
    batch.mark = mark;
    batch.keys = chain.keys;
    const auto count = static_cast<uint32_t>(batch.keys.size());
    batch.runs = {{0, count, batch.places[0].at.offset, 0, (count - 1) * stride + length}};
  }

  [[nodiscard]] std::string path() const { return folder.path(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream out{path() + "/" + name, std::ios::binary};
    out << bytes;
  }
  /// How many blocks came with each outcome.
  uint32_t count(outcome what) {
    uint32_t found = 0;
    for (const auto& one : reader.read(batch, arena)) found += one.what == what ? 1 : 0;
    return found;
  }

  test::scratch_folder folder;
  test::block_chain chain = test::make_chain("tenant", 1, 4, length);
  file_batch batch;
  std::vector<std::byte> arena = std::vector<std::byte>(4 * stride);
  folder_reader reader{{}};
};

}  // namespace

TEST_SUITE("actors/cache") {
  TEST_CASE_FIXTURE(store_files, "blocks of a mounted store are read from its files and verified") {
    CHECK(count(outcome::ok) == 4);
    for (uint32_t i = 0; i < 4; ++i) {
      const auto want = test::bytes_of(chain.keys[i], length);
      CHECK(std::equal(want.begin(), want.end(), arena.begin() + static_cast<long>(i * stride)));
    }
  }

  TEST_CASE_FIXTURE(store_files, "a folder of the same name with another mark is not the store's") {
    batch.mark = {1, 2};
    CHECK(count(outcome::absent) == 4);
    batch.mark = {};
    CHECK(count(outcome::absent) == 4);
    batch.mark = mark;
    batch.folder += "/nowhere";
    CHECK(count(outcome::absent) == 4);
    CHECK_FALSE(std::filesystem::exists(batch.folder));  // and is not made
  }

  TEST_CASE_FIXTURE(store_files, "a file that is gone or too short has no blocks") {
    std::filesystem::resize_file(path() + "/" + storage::segment_name(3), 4096 + stride);
    CHECK(count(outcome::ok) == 0);
    CHECK(count(outcome::failed) == 4);
    for (auto& place : batch.places) place.at.segment = 9;
    CHECK(count(outcome::absent) == 4);
  }

  TEST_CASE_FIXTURE(store_files, "one flipped bit spoils its block and no other") {
    std::fstream file{path() + "/" + storage::segment_name(3),
                      std::ios::binary | std::ios::in | std::ios::out};
    file.seekp(static_cast<std::streamoff>(batch.places[2].at.offset + 17));
    file.put(static_cast<char>(~std::to_integer<int>(test::bytes_of(chain.keys[2], length)[17])));
    file.close();
    const auto done = reader.read(batch, arena);
    for (uint32_t i = 0; i < 4; ++i) CHECK(done[i].what == (i == 2 ? outcome::bad : outcome::ok));
  }

  TEST_CASE_FIXTURE(store_files, "files are opened again after they were closed") {
    CHECK(count(outcome::ok) == 4);
    reader.close_idle();
    CHECK(count(outcome::ok) == 4);
  }
}
