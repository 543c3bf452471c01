#include "storage/arena/arena_views.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::storage;

namespace {

constexpr uint64_t some_bytes = 64 * 1024;

/// A process that owns shared memory with a word in it, until it is killed.
struct owner_process {
  owner_process() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid = ::fork();
    if (pid == 0) {
      const auto made = shared_memory::make(some_bytes, 7);
      if (made) {
        std::memcpy((*made)->bytes().data() + memory_header_bytes, "word", 4);
        if (::write(ends[1], &(*made)->place(), sizeof(memory_place)) < 0) ::_exit(1);
      }
      while (true) ::pause();
    }
    ::close(ends[1]);
    REQUIRE(::read(ends[0], &place, sizeof place) == sizeof place);
    ::close(ends[0]);
  }
  ~owner_process() { kill(); }

  void kill() {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    pid = -1;
  }

  pid_t pid = -1;
  memory_place place;
};

memory_place place_of(int descriptor, uint64_t bytes) {
  return {static_cast<uint32_t>(::getpid()), static_cast<uint32_t>(descriptor), bytes, 1};
}

bool holds_word(const shared_bytes& bytes) {
  return std::memcmp(bytes.bytes.data(), "word", 4) == 0;
}

}  // namespace

TEST_SUITE("storage/arena") {
  TEST_CASE("bytes of another process are seen, and stay readable when it is killed") {
    owner_process owner;
    REQUIRE(owner.place.process == static_cast<uint32_t>(owner.pid));
    arena_views views;
    auto memory = views.memory(owner.place);
    REQUIRE(memory);
    const auto word = arena_views::span_of(*memory, memory_header_bytes, 4);
    REQUIRE(word);
    CHECK(holds_word(*word));
    owner.kill();
    CHECK(holds_word(*word));
    CHECK(views.memory(owner.place));  // mapped before: no matter what became of its owner
    arena_views other;
    const auto late = other.memory(owner.place);
    REQUIRE_FALSE(late);
    CHECK(late.error().code == error_code::unreachable);
  }

  TEST_CASE("memory cannot change its size after it was made") {
    const auto made = shared_memory::make(some_bytes, 1);
    REQUIRE(made);
    const int descriptor = static_cast<int>((*made)->place().descriptor);
    CHECK(::ftruncate(descriptor, 4096) != 0);
    CHECK(::ftruncate(descriptor, 1 << 20) != 0);
    CHECK(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  }

  TEST_CASE("a mapping for reading cannot be written to") {
    const auto made = shared_memory::make(some_bytes, 1);
    REQUIRE(made);
    const auto view = memory_view::open((*made)->place());
    REQUIRE(view);
    auto* at = const_cast<std::byte*>((*view)->bytes().data());
    CHECK(::mprotect(at, 4096, PROT_READ | PROT_WRITE) != 0);  // opened for reading only
  }

  TEST_CASE("another life of the same process is refused") {
    const auto made = shared_memory::make(some_bytes, 1);
    REQUIRE(made);
    memory_place place = (*made)->place();
    place.epoch = 2;
    const auto view = memory_view::open(place);
    REQUIRE_FALSE(view);
    CHECK(view.error().code == error_code::stale_epoch);
  }

  TEST_CASE("files that could shrink under a reader are refused") {
    const int open_ended = ::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(open_ended >= 0);
    REQUIRE(::ftruncate(open_ended, some_bytes) == 0);
    const auto unsealed = memory_view::open(place_of(open_ended, some_bytes));
    REQUIRE_FALSE(unsealed);
    CHECK(unsealed.error().code == error_code::corrupt);
    // sealed, but of nobody's making
    REQUIRE(::fcntl(open_ended, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    CHECK_FALSE(memory_view::open(place_of(open_ended, some_bytes)));
    ::close(open_ended);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    CHECK_FALSE(
        memory_view::open(place_of(ends[0], some_bytes)));  // and does not wait for a writer
    ::close(ends[0]);
    ::close(ends[1]);
  }

  TEST_CASE("a size that is not that of the memory is refused") {
    const auto made = shared_memory::make(some_bytes, 1);
    REQUIRE(made);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, some_bytes - 4096, some_bytes + 4096,
                                 max_memory_bytes + 1, UINT64_MAX}) {
      CAPTURE(bytes);
      memory_place place = (*made)->place();
      place.bytes = bytes;
      CHECK_FALSE(memory_view::open(place));
    }
  }

  TEST_CASE("no span reaches outside the memory or into its header") {
    const auto made = shared_memory::make(some_bytes, 1);
    REQUIRE(made);
    const auto view = memory_view::open((*made)->place());
    REQUIRE(view);
    CHECK(arena_views::span_of(*view, some_bytes - 64, 64));
    CHECK_FALSE(arena_views::span_of(*view, some_bytes - 64, 65));
    CHECK_FALSE(arena_views::span_of(*view, some_bytes, 1));
    CHECK_FALSE(arena_views::span_of(*view, UINT64_MAX, 64));
    CHECK_FALSE(arena_views::span_of(*view, memory_header_bytes - 1, 64));
    CHECK_FALSE(arena_views::span_of(*view, memory_header_bytes, 0));
  }

  TEST_CASE("only so many mappings are kept, the last used ones") {
    std::vector<std::unique_ptr<shared_memory>> made;
    for (uint64_t i = 0; i < 3; ++i) made.push_back(*shared_memory::make(some_bytes, i));
    arena_views views{2};
    const auto first = views.memory(made[0]->place());
    REQUIRE(views.memory(made[1]->place()));
    REQUIRE(views.memory(made[0]->place()));
    REQUIRE(views.memory(made[2]->place()));
    CHECK(views.kept() == 2);
    CHECK(*views.memory(made[0]->place()) == *first);  // used again: it was kept
    CHECK((*first)->bytes().size() == some_bytes);
  }

  TEST_CASE("what is forgotten is unmapped once nobody uses it") {
    const auto made = shared_memory::make(some_bytes, 1);
    REQUIRE(made);
    arena_views views;
    std::weak_ptr<const memory_view> mapped;
    {
      const auto used = views.memory((*made)->place());
      REQUIRE(used);
      mapped = *used;
      views.forget();
      CHECK(views.kept() == 0);
      CHECK((*used)->bytes().size() == some_bytes);
    }
    CHECK(mapped.expired());
  }

  TEST_CASE("memory of an impossible size is not made") {
    CHECK_FALSE(shared_memory::make(0, 1));
    CHECK_FALSE(shared_memory::make(memory_header_bytes, 1));
    CHECK_FALSE(shared_memory::make(max_memory_bytes + 1, 1));
  }
}
