#include "runtime/net/registry.hpp"

#include "proto/types/limits.hpp"
#include "runtime/net/local_registry.hpp"
#include "runtime/net/multicast_registry.hpp"
#include "runtime/net/proof.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

using namespace deepinfer;
using namespace deepinfer::net;
namespace fs = std::filesystem;

namespace {

struct temporary_directory {
  fs::path path;
  temporary_directory() {
    std::string name = fs::temp_directory_path() / "deepinfer-registry-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_directory() { fs::remove_all(path); }
};

std::unique_ptr<registry> open(const fs::path& path, const std::string& cluster = "test") {
  auto made = make_local_registry({path.string(), cluster});
  REQUIRE(made);
  return *std::move(made);
}

std::vector<std::string> names(registry& where) {
  auto found = where.discover({});
  REQUIRE(found);
  return *found;
}

size_t files_in(const fs::path& path) {
  return static_cast<size_t>(std::distance(fs::directory_iterator{path}, {}));
}

using list = std::vector<std::string>;

}  // namespace

TEST_SUITE("runtime/net/registry") {
  TEST_CASE("nodes of a cluster find the others and not themselves") {
    const temporary_directory folder;
    const auto a = open(folder.path), b = open(folder.path), c = open(folder.path, "other");
    REQUIRE(a->announce({{1, 1}, 1, "127.0.0.1:7400"}));
    REQUIRE(b->announce({{2, 2}, 1, "127.0.0.1:7401"}));
    REQUIRE(c->announce({{3, 3}, 1, "127.0.0.1:7402"}));
    CHECK(names(*a) == list{"127.0.0.1:7401"});
    CHECK(names(*b) == list{"127.0.0.1:7400"});
    CHECK(names(*c).empty());
    b->withdraw();
    CHECK(names(*a).empty());
    CHECK(files_in(folder.path / "test") == 1);
  }

  TEST_CASE("a second announcement replaces the first") {
    const temporary_directory folder;
    const auto a = open(folder.path), b = open(folder.path);
    REQUIRE(a->announce({{1, 1}, 1, "127.0.0.1:7400"}));
    REQUIRE(a->announce({{1, 1}, 2, "127.0.0.1:7500"}));
    CHECK(names(*b) == list{"127.0.0.1:7500"});
  }

  TEST_CASE("the file of a killed process is recognised and removed") {
    const temporary_directory folder;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto made = make_local_registry({folder.path.string(), "test"});
      const bool fine = made && (*made)->announce({{9, 9}, 1, "127.0.0.1:9999"});
      const char answer = fine ? 'y' : 'n';
      (void)!::write(ready[1], &answer, 1);
      for (;;) ::pause();
    }
    char answer = 0;
    REQUIRE(::read(ready[0], &answer, 1) == 1);
    REQUIRE(answer == 'y');
    const auto a = open(folder.path);
    CHECK(names(*a) == list{"127.0.0.1:9999"});
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK(names(*a).empty());
    CHECK(files_in(folder.path / "test") == 0);
    ::close(ready[0]);
    ::close(ready[1]);
  }

  TEST_CASE("files that no living node holds are not believed, whatever they say") {
    const temporary_directory folder;
    const auto a = open(folder.path);
    const fs::path room = folder.path / "test";
    std::ofstream{room / "0001.node"} << "deepinfer-node 1\n10.0.0.1:1\n1\n";
    std::ofstream{room / "rubbish.node"} << "rubbish";
    std::ofstream{room / "unrelated"} << "deepinfer-node 1\n10.0.0.1:1\n1\n";
    fs::create_symlink("/etc/passwd", room / "link.node");
    fs::create_directory(room / "folder.node");
    REQUIRE(::mkfifo((room / "pipe.node").c_str(), 0600) == 0);  // opening it must not block
    CHECK(names(*a).empty());
    CHECK(fs::exists("/etc/passwd"));
    CHECK(fs::exists(room / "unrelated"));
  }

  TEST_CASE("hostile cluster names stay inside the directory and apart") {
    const temporary_directory folder;
    const list hostile{"",
                       ".",
                       "..",
                       "../x",
                       "/etc/x",
                       "a/b",
                       "a%2fb",
                       "a\nb",
                       "a b",
                       "A",
                       "a",
                       "%",
                       "%25",
                       "\xff",
                       "~",
                       "-rf",
                       std::string(300, 'x'),
                       std::string(301, 'x'),
                       std::string(200, '/'),
                       std::string("a\0b", 3)};
    std::set<std::string> used;
    uint64_t number = 1;
    std::vector<std::unique_ptr<registry>> open_ones;
    for (const std::string& cluster : hostile) {
      CAPTURE(cluster);
      const std::string name = safe_file_name(cluster);
      CHECK(name.find('/') == std::string::npos);
      CHECK(name.find('.') == std::string::npos);
      CHECK(name.size() <= 100);
      CHECK(!name.empty());
      CHECK(used.insert(name).second);
      auto one = open(folder.path / "deep/er", cluster);
      REQUIRE(one->announce({{number, number}, 1, "127.0.0.1:" + std::to_string(number)}));
      ++number;
      CHECK(names(*one).empty());
      open_ones.push_back(std::move(one));
    }
    CHECK(files_in(folder.path) == 1);
    CHECK(files_in(folder.path / "deep/er") == hostile.size());
  }

  TEST_CASE("an unsafe directory is refused, and what is made is private") {
    const temporary_directory folder;
    fs::create_directory(folder.path / "open");
    fs::permissions(folder.path / "open", fs::perms::all);
    CHECK(make_local_registry({folder.path / "open", "x"}).error().code ==
          error_code::invalid_argument);
    fs::create_directory(folder.path / "real");
    fs::create_directory_symlink(folder.path / "real", folder.path / "alias");
    CHECK(make_local_registry({folder.path / "alias", "x"}).error().code ==
          error_code::invalid_argument);
    fs::create_directory_symlink(folder.path, folder.path / "real/x");
    CHECK(make_local_registry({folder.path / "real", "x"}).error().code ==
          error_code::invalid_argument);
    std::ofstream{folder.path / "file"} << "";
    CHECK_FALSE(make_local_registry({folder.path / "file", "x"}));
    CHECK(make_local_registry({"", "x"}).error().code == error_code::invalid_argument);

    const auto fine = open(folder.path / "made", "x");
    CHECK(fs::status(folder.path / "made").permissions() == fs::perms::owner_all);
    CHECK(fs::status(folder.path / "made/x").permissions() == fs::perms::owner_all);
  }

  TEST_CASE("an address that cannot be dialled is not announced") {
    const temporary_directory folder;
    const auto a = open(folder.path);
    for (const std::string& bad : {std::string{}, std::string{"nocolon"}, std::string{"a:1\nb:2"},
                                   std::string{"a b:1"}, std::string(300, 'a') + ":1"})
      CHECK(a->announce({{1, 1}, 1, bad}).error().code == error_code::invalid_argument);
  }

  TEST_CASE("an answer never holds more addresses than a cluster has nodes") {
    const temporary_directory folder;
    std::vector<std::unique_ptr<registry>> open_ones;
    for (uint64_t i = 1; i <= limits::max_nodes + 1; ++i) {
      open_ones.push_back(open(folder.path));
      REQUIRE(open_ones.back()->announce({{i, i}, 1, "127.0.0.1:" + std::to_string(i)}));
    }
    CHECK(names(*open(folder.path)).size() == limits::max_nodes);
  }

  TEST_CASE("a multicast packet reads back, and no damaged or foreign one does") {
    multicast_config config;
    config.cluster = "lan";
    for (const std::string& secret : {std::string{}, std::string{"hush"}}) {
      config.secret = secret;
      const std::string good =
          write_packet({multicast_kind::announce, {{7, 8}, 9, "10.1.2.3:7400"}}, config);
      const auto back = read_packet(bytes_of(good), config);
      REQUIRE(back);
      CHECK(back->record.id == node_id{7, 8});
      CHECK(back->record.epoch == 9);
      CHECK(back->record.address == "10.1.2.3:7400");
      for (size_t size = 0; size < good.size(); ++size)
        CHECK_FALSE(read_packet(bytes_of(std::string_view{good}.substr(0, size)), config));
      CHECK_FALSE(read_packet(bytes_of(good + "x"), config));
      multicast_config other = config;
      other.cluster = "lan2";
      CHECK_FALSE(read_packet(bytes_of(good), other));
      other = config;
      other.secret = "another";
      CHECK_FALSE(read_packet(bytes_of(good), other));
      if (!secret.empty()) {
        for (size_t bit = 0; bit < good.size() * 8; ++bit) {
          std::string bad = good;
          bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
          CHECK_FALSE(read_packet(bytes_of(bad), config));
        }
      }
    }
  }

  TEST_CASE("random bytes are never taken for a packet") {
    test::rng random{5};
    multicast_config config;
    const std::string good =
        write_packet({multicast_kind::announce, {{7, 8}, 9, "10.1.2.3:7400"}}, config);
    for (int round = 0; round < 20'000; ++round) {
      std::string bytes = round % 2 == 0 ? std::string(random.below(350), '\0') : good;
      for (uint32_t i = 0; i < 1 + random.below(4) && !bytes.empty(); ++i)
        bytes[random.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(random.next());
      const auto packet = read_packet(bytes_of(bytes), config);
      if (packet && packet->kind == multicast_kind::announce)
        CHECK(dialable(packet->record.address));
    }
  }

  TEST_CASE("digests are those of the standards") {
    // RFC 4231 test case 2, and SHA-256 of "abc" (FIPS 180-2)
    const digest256 hmac = keyed_digest("Jefe", bytes_of("what do ya want for nothing?"));
    CHECK(std::to_integer<int>(hmac[0]) == 0x5b);
    CHECK(std::to_integer<int>(hmac[31]) == 0x43);
    const digest256 plain = plain_digest("abc");
    CHECK(std::to_integer<int>(plain[0]) == 0xba);
    CHECK(std::to_integer<int>(plain[31]) == 0xad);
    CHECK(same_digest(plain, plain_digest("abc")));
    CHECK_FALSE(same_digest(plain, hmac));
    CHECK(keyed_digest("", bytes_of("x")) == keyed_digest("", bytes_of("x")));
    CHECK(*draw_nonce() != *draw_nonce());
  }
}
