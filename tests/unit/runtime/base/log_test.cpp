#include "runtime/base/log.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

const std::chrono::sys_time<std::chrono::milliseconds> noon{1772366400250ms};
const log_clock stopped = [] { return noon; };

std::string line_of(std::string_view event, std::initializer_list<log_field> fields) {
  return format_log_line(noon, log_level::info, event, {fields.begin(), fields.size()});
}

}  // namespace

TEST_SUITE_BEGIN("runtime/base");

TEST_CASE("a line is time, level, event and fields") {
  CHECK(
      line_of("kv.block.evicted", {{"block", "9f"}, {"bytes", 114688}, {"ok", true}, {"x", 0.5}}) ==
      "2026-03-01T12:00:00.250Z info kv.block.evicted block=9f bytes=114688 ok=true x=0.5");
}

TEST_CASE("values with blanks, quotes or nothing in them are quoted") {
  CHECK(line_of("e", {{"a", "x y"}, {"b", ""}, {"c", "q\"\\"}, {"d", "k=v"}})
            .ends_with(R"(e a="x y" b="" c="q\"\\" d="k=v")"));
}

TEST_CASE("nothing a terminal would obey reaches a line") {
  const std::string line =
      line_of("e\n", {{"a", "\x1b[2J\r\n\t"}, {"b", std::string("\0\x7f", 2)}, {"c", "\xc2\x9b"}});
  CHECK(line.ends_with(R"(e\n a="\x1b[2J\x0d\n\t" b="\x00\x7f" c=\xc2\x9b)"));
}

TEST_CASE("broken UTF-8 is escaped byte by byte and good UTF-8 is kept") {
  CHECK(line_of("e", {{"a", "é漢🙂"}}).ends_with("a=é漢🙂"));
  CHECK(line_of("e", {{"a", "\xff\xc3"}}).ends_with(R"(a=\xff\xc3)"));
  CHECK(line_of("e", {{"a", "\xed\xa0\x80"}}).ends_with(R"(a=\xed\xa0\x80)"));  // surrogate
  CHECK(line_of("e", {{"a", "\xc0\xaf"}}).ends_with(R"(a=\xc0\xaf)"));          // overlong
}

TEST_CASE("a line one byte over the limit is cut and marked") {
  const size_t rest = line_of("e", {{"a", "x"}}).size() - 1;
  const std::string fits(max_log_line_bytes - rest, 'x');
  CHECK(line_of("e", {{"a", fits}}).size() == max_log_line_bytes);
  CHECK(line_of("e", {{"a", fits}}).ends_with("x"));
  const std::string cut = line_of("e", {{"a", fits + "x"}});
  CHECK(cut.size() == max_log_line_bytes);
  CHECK(cut.ends_with("x…"));
  CHECK(line_of("e", {{"a", std::string(1 << 20, '\1')}}).size() <= max_log_line_bytes);
}

TEST_CASE("the ring keeps the last lines and drops the oldest") {
  ring_log ring{3, log_level::info, stopped};
  for (int i = 0; i < 4; ++i) ring.info("e", {{"i", i}});
  REQUIRE(ring.tail(100).size() == 3);
  CHECK(ring.tail(100).front().ends_with("i=1"));
  REQUIRE(ring.tail(1).size() == 1);
  CHECK(ring.tail(1).front().ends_with("i=3"));
}

TEST_CASE("lines below the least level are dropped") {
  ring_log ring{3, log_level::warn, stopped};
  ring.info("no");
  ring.warn("yes");
  CHECK_FALSE(ring.enabled(log_level::info));
  REQUIRE(ring.tail(9).size() == 1);
  CHECK(ring.tail(9).front().ends_with("warn yes"));
}

TEST_CASE("a process log writes its file and its ring alike") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("deepinfer_log_test_" + std::to_string(::getpid()) + ".log");
  {
    const auto log = make_process_log({.level = "warn", .file = path.string()}, stopped);
    REQUIRE(log);
    (*log)->info("dropped");
    (*log)->warn("kept {} %v", {{"a", "{}"}});
    CHECK((*log)->tail(9) ==
          std::vector<std::string>{"2026-03-01T12:00:00.250Z warn kept {} %v a={}"});
  }
  std::ifstream file{path};
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == "2026-03-01T12:00:00.250Z warn kept {} %v a={}\n");
  std::filesystem::remove(path);
}

TEST_CASE("a log that cannot be made says why") {
  const auto bad_level = make_process_log({.level = "loud"}, stopped);
  REQUIRE_FALSE(bad_level);
  CHECK(bad_level.error().code == error_code::invalid_argument);
  const auto bad_file = make_process_log({.file = "/proc/no/such/file"}, stopped);
  REQUIRE_FALSE(bad_file);
  CHECK(bad_file.error().detail.find("/proc/no/such/file") != std::string::npos);
}

TEST_SUITE_END();
