#include "storage/segment/disk_files.hpp"
#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

namespace deepinfer::storage {
namespace {

using namespace std::chrono_literals;

constexpr std::byte untouched{7};

/// A file that answers when the test wants: a named pipe.
struct slow_file {
  explicit slow_file(const std::string& path) {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(descriptor >= 0);
  }
  ~slow_file() { ::close(descriptor); }
  void answer(size_t bytes) const {
    const std::vector<char> text(bytes, 'x');
    REQUIRE(::write(descriptor, text.data(), bytes) == static_cast<ssize_t>(bytes));
  }
  int descriptor = -1;
};

struct reading {
  reading(const std::shared_ptr<stored_file>& file, size_t count) : bytes(count) {
    for (auto& b : bytes) {
      b.fill(untouched);
      operations.push_back({.what = file_operation::kind::read, .file = file.get(), .head = b});
    }
  }
  [[nodiscard]] size_t count(file_operation::outcome outcome) const {
    return static_cast<size_t>(
        std::count_if(operations.begin(), operations.end(),
                      [&](const file_operation& op) { return op.result == outcome; }));
  }
  std::vector<std::array<std::byte, 100>> bytes;
  std::vector<file_operation> operations;
};

TEST_SUITE_BEGIN("storage/segment");

TEST_CASE("a device that does not answer fails reads in time, and is used again when it answers") {
  const test::scratch_folder folder;
  const slow_file device{folder.path() + "/f"};
  auto files = disk_files::in(folder.path(), {.queue_depth = 2, .rings = 1, .patience = 40ms});
  REQUIRE(files);
  if (!(*files)->report().ring) {
    MESSAGE("this kernel gives no ring: nothing to test");
    return;
  }
  const auto file = *(*files)->open("f");
  using outcome = file_operation::outcome;
  reading first{file, 5};
  device.answer(100);
  size_t told = 0;
  (*files)->run(first.operations, {.ended = [&told](const file_operation&) { ++told; }});
  CHECK(told == 5);
  CHECK(first.count(outcome::done) == 1);
  CHECK(first.count(outcome::failed) == 4);  // some in the ring, the others ready or not begun
  CHECK((*files)->report().stuck_rings == 1);
  // nobody goes around the ring into a system call that cannot be given up
  reading second{file, 1};
  (*files)->run(second.operations);
  CHECK(second.count(outcome::failed) == 1);
  // the late answers reach nobody's memory
  device.answer(200);
  reading third{file, 1};
  device.answer(100);
  (*files)->run(third.operations);
  CHECK(third.count(outcome::done) == 1);
  CHECK(third.bytes[0][99] == std::byte{'x'});
  CHECK((*files)->report().stuck_rings == 0);
  size_t changed = 0;
  for (const auto* late : {&first, &second})
    for (const auto& b : late->bytes) changed += b[0] != untouched ? 1 : 0;
  CHECK(changed == 1);
}

TEST_CASE("files may be closed while a device still has their reads") {
  const test::scratch_folder folder;
  const slow_file device{folder.path() + "/f"};
  auto files = disk_files::in(folder.path(), {.queue_depth = 2, .rings = 1, .patience = 20ms});
  REQUIRE(files);
  if (!(*files)->report().ring) return;
  auto file = *(*files)->open("f");
  reading never{file, 2};
  (*files)->run(never.operations);
  CHECK(never.count(file_operation::outcome::failed) == 2);
  file.reset();
  files->reset();
  device.answer(200);
  CHECK(never.bytes[0][0] == untouched);
}

TEST_CASE("what the page cache has is read while a device hangs, and nothing else") {
  const test::scratch_folder folder;
  const slow_file device{folder.path() + "/f"};
  auto files = disk_files::in(folder.path(), {.queue_depth = 2, .rings = 1, .patience = 20ms});
  REQUIRE(files);
  if (!(*files)->report().ring) return;
  const auto cached = *(*files)->create("g", 300);
  std::array<std::byte, 300> text{};
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(i / 100 + 1);
  file_operation write{
      .what = file_operation::kind::write, .file = cached.get(), .head = std::span{text}};
  (*files)->run({&write, 1});
  REQUIRE(write.result == file_operation::outcome::done);

  const auto file = *(*files)->open("f");
  reading never{file, 2};
  (*files)->run(never.operations);
  REQUIRE((*files)->report().stuck_rings == 1);
  reading now{cached, 4};
  for (size_t i = 0; i < 4; ++i) now.operations[i].offset = 250 - 100 * std::min<size_t>(i, 2);
  std::swap(now.operations[0].offset, now.operations[2].offset);  // 50, 150, 250, 50
  size_t told = 0;
  (*files)->run(now.operations, {.ended = [&told](const file_operation&) { ++told; }});
  CHECK(told == 4);
  CHECK(now.bytes[0][49] == std::byte{1});
  CHECK(now.bytes[0][50] == std::byte{2});
  CHECK(now.bytes[1][99] == std::byte{3});
  // the third goes over the end of the file: a ring must tell, and there is none
  CHECK(now.count(file_operation::outcome::done) == 2);
  CHECK(now.count(file_operation::outcome::failed) == 2);
  CHECK(now.bytes[3][0] == untouched);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
