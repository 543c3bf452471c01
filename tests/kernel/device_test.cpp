#include "kernels/api/cpu_device.hpp"
#include "kernels/cpu/parallel.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

using namespace deepinfer::kernels;

TEST_SUITE("kernels/cpu") {
  TEST_CASE("every unit of a region is run once, whatever the grain and the threads") {
    for (const uint32_t threads : {1u, 2u, 3u, 4u}) {
      const cpu_device_ptr device = make_cpu_device({threads});
      REQUIRE(device != nullptr);
      CHECK(threads_of(*device) == threads);
      stream queue = stream_of(*device);
      for (const size_t units : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}})
        for (const size_t grain : {size_t{1}, size_t{3}, size_t{2000}}) {
          std::vector<uint32_t> runs(units, 0);
          cpu::parallel(queue, units, grain, [&](const cpu::worker&, size_t first, size_t last) {
            CHECK(last - first <= grain);
            for (size_t i = first; i < last; ++i) ++runs[i];
          });
          CHECK(runs == std::vector<uint32_t>(units, 1));
        }
    }
  }

  TEST_CASE("what a region wrote is seen by the next one") {
    const cpu_device_ptr device = make_cpu_device({3, 5});
    stream queue = stream_of(*device);
    std::vector<uint64_t> values(257, 1);
    for (int round = 0; round < 2000; ++round) {
      // Each unit reads its neighbour's value of the round before.
      std::vector<uint64_t> next(values.size());
      cpu::parallel(queue, values.size(), 16, [&](const cpu::worker&, size_t first, size_t last) {
        for (size_t i = first; i < last; ++i) next[i] = values[(i + 1) % values.size()] + 1;
      });
      values = next;
    }
    CHECK(values == std::vector<uint64_t>(257, 2001));
  }

  TEST_CASE("threads that went to sleep are woken, and a device ends while they sleep") {
    const cpu_device_ptr device = make_cpu_device({2, 0});
    stream queue = stream_of(*device);
    // Two units that wait for each other need two threads at once.
    for (int round = 0; round < 50; ++round) {
      std::atomic<uint32_t> arrived{0};
      cpu::parallel(queue, 2, 1, [&](const cpu::worker&, size_t, size_t) {
        arrived.fetch_add(1);
        while (arrived.load() < 2) std::this_thread::yield();
      });
      CHECK(arrived.load() == 2);
    }
  }

  TEST_CASE("each thread has scratch of its own, aligned and of the size asked for") {
    const cpu_device_ptr device = make_cpu_device({4, 50, size_t{3} << 20});
    stream queue = stream_of(*device);
    std::vector<cpu::worker> seen(64);
    cpu::parallel(queue, seen.size(), 1,
                  [&](const cpu::worker& self, size_t first, size_t) { seen[first] = self; });
    std::set<std::byte*> memory;
    std::set<uint32_t> indices;
    for (const cpu::worker& self : seen) {
      CHECK(reinterpret_cast<uintptr_t>(self.scratch) % 64 == 0);
      memory.insert(self.scratch);
      indices.insert(self.index);
    }
    CHECK(memory.size() == indices.size());
    stream alone;
    cpu::parallel(alone, 1, 1, [&](const cpu::worker& self, size_t, size_t) {
      CHECK(self.scratch_bytes >= cpu::scratch_minimum);
      CHECK(reinterpret_cast<uintptr_t>(self.scratch) % 64 == 0);
      CHECK(memory.count(self.scratch) == 0);
    });
    CHECK(*indices.rbegin() < 4);
    CHECK(seen.front().scratch_bytes == size_t{3} << 20);
  }

  TEST_CASE("options out of range give no device") {
    CHECK(make_cpu_device({0}) == nullptr);
    CHECK(make_cpu_device({257}) == nullptr);
    CHECK(make_cpu_device({1, 50, cpu::scratch_minimum - 1}) == nullptr);
  }
}
