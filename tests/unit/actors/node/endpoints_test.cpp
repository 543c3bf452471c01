#include "actors/node/endpoints.hpp"

#include "runtime/net/local_registry.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace deepinfer;
namespace fs = std::filesystem;

namespace {

struct temporary_directory {
  fs::path path;
  temporary_directory() {
    std::string name = fs::temp_directory_path() / "deepinfer-endpoints-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_directory() { fs::remove_all(path); }
};

node_endpoints node(char digit, uint64_t epoch) {
  return {std::string(32, digit), epoch, std::string{"127.0.0.1:800"} + digit, "127.0.0.1:9000"};
}

endpoints_file write(const fs::path& runtime,
                     const std::string& cluster,
                     const node_endpoints& endpoints) {
  auto written = endpoints_file::write(runtime, cluster, endpoints);
  REQUIRE(written);
  return *std::move(written);
}

/// Ids of the nodes found, shortened to one digit each.
std::string found(const fs::path& runtime, const std::string& cluster) {
  const auto nodes = find_endpoints(runtime, cluster);
  if (!nodes) return std::string{to_string(nodes.error().code)};
  std::string out;
  for (const node_endpoints& one : *nodes) out += one.node.front();
  return out;
}

size_t files_in(const fs::path& path) {
  return static_cast<size_t>(std::distance(fs::directory_iterator{path}, {}));
}

/// A file that somebody holds, with any content.
class held_file {
public:
  held_file(const fs::path& folder, const node_endpoints& endpoints, const std::string& content)
      : file_(write(folder.parent_path(), folder.filename(), endpoints)) {
    std::ofstream{folder / (endpoints.node + ".endpoints"), std::ios::binary | std::ios::trunc}
        << content;
  }

private:
  endpoints_file file_;
};

}  // namespace

TEST_SUITE("actors/node/endpoints") {
  TEST_CASE("living nodes are found, the oldest first") {
    const temporary_directory folder;
    const auto young = write(folder.path, "one", node('1', 20)),
               old = write(folder.path, "one", node('2', 10));
    CHECK(found(folder.path, "one") == "21");
    const auto nodes = find_endpoints(folder.path, "one");
    REQUIRE(nodes);
    CHECK((*nodes)[0].epoch == 10);
    CHECK((*nodes)[0].http == "127.0.0.1:8002");
    CHECK((*nodes)[0].console == "127.0.0.1:9000");
  }

  TEST_CASE("a node that ends takes its file with it") {
    const temporary_directory folder;
    {
      auto first = write(folder.path, "one", node('1', 1));
      const endpoints_file moved = std::move(first);
      CHECK(found(folder.path, "one") == "1");
    }
    CHECK(found(folder.path, "one") == "not_found");
    CHECK(files_in(folder.path / "one") == 0);
  }

  TEST_CASE("the file of a killed process is recognised and removed") {
    const temporary_directory folder;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto file = endpoints_file::write(folder.path, "one", node('1', 1));
      static_cast<void>(!::write(ready[1], file ? "y" : "n", 1));
      while (true) ::pause();
    }
    char answer = 0;
    REQUIRE(::read(ready[0], &answer, 1) == 1);
    CHECK(answer == 'y');
    CHECK(found(folder.path, "one") == "1");
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(files_in(folder.path / "one") == 1);
    CHECK(found(folder.path, "one") == "not_found");
    CHECK(files_in(folder.path / "one") == 0);
    ::close(ready[0]);
    ::close(ready[1]);
  }

  TEST_CASE("without a name the only living cluster is meant") {
    const temporary_directory folder;
    CHECK(found(folder.path, "") == "not_found");
    const auto one = write(folder.path, "one", node('1', 1));
    { const auto gone = write(folder.path, "gone", node('3', 1)); }
    CHECK(found(folder.path, "") == "1");
    const auto two = write(folder.path, "zwei & mehr", node('2', 1));
    const auto several = find_endpoints(folder.path, "");
    REQUIRE_FALSE(several);
    CHECK(several.error().code == error_code::invalid_argument);
    CHECK(several.error().detail.find("one, zwei & mehr") != std::string::npos);
    CHECK(found(folder.path, "zwei & mehr") == "2");
    CHECK(found(folder.path, "three") == "not_found");
  }

  TEST_CASE("address files and endpoint files do not see each other") {
    const temporary_directory folder;
    auto registry = net::make_local_registry({folder.path, "one"});
    auto other = net::make_local_registry({folder.path, "one"});
    REQUIRE(registry);
    REQUIRE(other);
    REQUIRE((*registry)->announce({{1, 1}, 1, "127.0.0.1:7400"}));
    const auto file = write(folder.path, "one", node('1', 1));
    CHECK(found(folder.path, "one") == "1");
    const auto addresses = (*other)->discover({});
    REQUIRE(addresses);
    CHECK(*addresses == std::vector<std::string>{"127.0.0.1:7400"});
    CHECK(files_in(folder.path / "one") == 2);
  }

  TEST_CASE("contents that no node writes are passed over") {
    const temporary_directory folder;
    const auto good = write(folder.path, "one", node('1', 1));
    const std::string id(32, '2');
    const auto json = [&id](const std::string& cluster, const std::string& node_name,
                            const std::string& http) {
      return "{\"cluster\":\"" + cluster + "\",\"node\":\"" + node_name +
             "\",\"epoch\":1,\"http\":\"" + http + "\",\"console\":\"\"}";
    };
    {
      const held_file right{folder.path / "one", node('2', 2), json("one", id, "h:1")};
      CHECK(found(folder.path, "one") == "12");
    }
    for (const std::string& content :
         {std::string{}, std::string{"{"}, std::string{"[]"}, std::string(5000, '{'),
          std::string(4096, '\0'), json("two", id, "h:1"), json("one", std::string(32, '3'), "h:1"),
          json("one", "../../etc", "h:1"), json("one", id, "evil host:1"),
          json("one", id, "h:1\\u001b[2J"), json("one", id, "nothing"),
          json("one", id, std::string(300, 'h') + ":1"),
          std::string{"{\"cluster\":\"one\",\"node\":7}"}}) {
      CAPTURE(content);
      const held_file wrong{folder.path / "one", node('2', 2), content};
      CHECK(found(folder.path, "one") == "1");
    }
  }

  TEST_CASE("links, folders and pipes in the folder do no harm") {
    const temporary_directory folder;
    const auto good = write(folder.path, "one", node('1', 1));
    const fs::path room = folder.path / "one";
    const auto name = [&room](char digit) {
      return room / (std::string(32, digit) + ".endpoints");
    };
    fs::create_symlink(name('1'), name('2'));
    fs::create_directory(name('3'));
    REQUIRE(::mkfifo(name('4').c_str(), 0600) == 0);
    std::ofstream{room / "notes.txt"} << "hello";
    CHECK(found(folder.path, "one") == "1");
    CHECK(fs::exists(room / "notes.txt"));
    CHECK(fs::is_symlink(name('2')));
  }

  TEST_CASE("a folder that others can write to is not believed") {
    const temporary_directory folder;
    const auto file = write(folder.path, "one", node('1', 1));
    fs::permissions(folder.path / "one", fs::perms{0777});
    CHECK(found(folder.path, "one") == "not_found");
    fs::permissions(folder.path / "one", fs::perms{0700});
    CHECK(found(folder.path, "one") == "1");
    fs::permissions(folder.path, fs::perms{0777});
    CHECK(found(folder.path, "one") == "not_found");
    CHECK_FALSE(endpoints_file::write(folder.path, "two", node('2', 1)));
    fs::permissions(folder.path, fs::perms{0700});
    fs::create_directory_symlink(folder.path / "one", folder.path / "link");
    CHECK(found(folder.path, "link") == "not_found");
  }

  TEST_CASE("what could not be read back is not written") {
    const temporary_directory folder;
    auto wrong = node('1', 1);
    wrong.node = "../x";
    CHECK(endpoints_file::write(folder.path, "one", wrong).error().code ==
          error_code::invalid_argument);
    wrong = node('1', 1);
    wrong.http = "no address";
    CHECK(endpoints_file::write(folder.path, "one", wrong).error().code ==
          error_code::invalid_argument);
    CHECK(endpoints_file::write(folder.path, std::string(1025, 'c'), node('1', 1)).error().code ==
          error_code::too_large);
    const std::string longest(1024, 'c');
    const auto file = write(folder.path, longest, node('1', 1));
    CHECK(found(folder.path, longest) == "1");
  }
}
