#include "actors/node/arena_room.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace deepinfer;

namespace {

constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t gib = uint64_t{1} << 30;

/// A folder that stands for /.
struct machine_files {
  machine_files() {
    std::filesystem::remove_all(root);
    write("/proc/meminfo", "MemFree:  1 kB\nMemTotal:       33554432 kB\nBuffers: 5 kB\n");
  }
  ~machine_files() { std::filesystem::remove_all(root); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path{root + path}.parent_path());
    std::ofstream{root + path} << text;
  }
  [[nodiscard]] uint64_t memory() const { return read_memory_limits(root).machine; }

  std::string root =
      std::filesystem::temp_directory_path() / ("arena_room_" + std::to_string(::getpid()));
};

}  // namespace

TEST_SUITE("actors/node") {
  TEST_CASE("the arena is a sixteenth of the machine, within bounds") {
    CHECK(*arena_size(0, {.machine = 8 * gib}) == 512 * mib);
    CHECK(*arena_size(0, {.machine = 512 * gib}) == gib);
    CHECK(*arena_size(0, {}) == gib);
    CHECK(*arena_size(0, {.machine = 64 * mib}) == 16 * mib);
  }

  TEST_CASE("limits of a process make a chosen arena smaller, and refuse what was asked for") {
    CHECK(*arena_size(0, {.machine = 8 * gib, .file = 100 * mib + 5}) == 100 * mib);
    CHECK(*arena_size(0, {.machine = 8 * gib, .space = 400 * mib}) == 200 * mib);
    CHECK(arena_size(0, {.file = 4096}).error().code == error_code::too_large);
    CHECK(*arena_size(100 * mib, {.file = 100 * mib}) == 100 * mib);
    CHECK(arena_size(100 * mib + 1, {.file = 100 * mib}).error().code == error_code::too_large);
  }

  TEST_CASE("half of the machine may be asked for, and not a byte more") {
    CHECK(*arena_size(4 * gib, {.machine = 8 * gib}) == 4 * gib);
    const auto over = arena_size(4 * gib + 1, {.machine = 8 * gib});
    REQUIRE_FALSE(over);
    CHECK(over.error().code == error_code::too_large);
    CHECK(over.error().detail.find("kvfetch.arena_bytes") != std::string::npos);
    CHECK(over.error().detail.find("8192 MiB") != std::string::npos);
    CHECK(*arena_size(mib, {}) == mib);
    CHECK(arena_size(mib - 1, {}).error().code == error_code::invalid_argument);
  }

  TEST_CASE_FIXTURE(machine_files, "a container's limit counts, wherever it is set") {
    CHECK(memory() == 32 * gib);
    write("/proc/self/cgroup", "0::/a.slice/b.scope\n");
    CHECK(memory() == 32 * gib);
    write("/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    write("/sys/fs/cgroup/a.slice/memory.max", "4294967296\n");
    CHECK(memory() == 4 * gib);
    write("/sys/fs/cgroup/memory.max", "1073741824\n");  // of a group that is seen as the outermost
    CHECK(memory() == gib);
  }

  TEST_CASE_FIXTURE(machine_files, "the older hierarchy of control groups is read, too") {
    write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/7\n1:name=systemd:/y\n");
    write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(memory() == 32 * gib);
    write("/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "2147483648\n");
    CHECK(memory() == 2 * gib);
  }

  TEST_CASE("a machine that says nothing has no limit") {
    CHECK(read_memory_limits("/nowhere").machine == memory_limits::none);
  }
}
