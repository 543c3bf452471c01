#include "runtime/http/sse.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace deepinfer;

namespace {

std::vector<std::string> read(sse_parser& parser, std::string_view bytes) {
  std::vector<std::string> out;
  REQUIRE(parser.feed(
      bytes, [&out](const sse_event& e) { out.push_back(e.event + "|" + e.data + "|" + e.id); }));
  return out;
}

std::vector<std::string> read(std::string_view bytes) {
  sse_parser parser;
  return read(parser, bytes);
}

using events = std::vector<std::string>;

}  // namespace

TEST_SUITE_BEGIN("runtime/http");

TEST_CASE("the examples of the standard read as it says") {
  CHECK(read("data: YHOO\ndata: +2\ndata: 10\n\n") == events{"message|YHOO\n+2\n10|"});
  CHECK(read(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third "
             "event\n\n") ==
        events{"message|first event|1", "message|second event|", "message| third event|"});
  CHECK(read("data\n\ndata\ndata\n\ndata:") == events{"message||", "message|\n|"});
  CHECK(read("data:test\n\ndata: test\n\n") == events{"message|test|", "message|test|"});
}

TEST_CASE("lines end in LF, CR or CRLF") {
  CHECK(read("data: a\n\ndata: b\r\rdata: c\r\n\r\n") ==
        events{"message|a|", "message|b|", "message|c|"});
}

TEST_CASE("a CRLF cut in two is one line end") {
  sse_parser parser;
  CHECK(read(parser, "data: a\r").empty());
  CHECK(read(parser, "\ndata: b\r").empty());
  CHECK(read(parser, "\n\r") == events{"message|a\nb|"});
  CHECK(read(parser, "\ndata: c\n\n") == events{"message|c|"});
}

TEST_CASE("a byte order mark is dropped at the start only") {
  CHECK(read("\xEF\xBB\xBF"
             "data: a\n\n") == events{"message|a|"});
  CHECK(read("\n\xEF\xBB\xBF"
             "data: a\n\n")
            .empty());
}

TEST_CASE("an event without data is dropped, and its name with it") {
  CHECK(read("event: x\n\ndata: a\n\n") == events{"message|a|"});
  CHECK(read("event: x\ndata: a\n\ndata: b\n\n") == events{"x|a|", "message|b|"});
}

TEST_CASE("an id with NUL, unknown fields and retry are ignored") {
  CHECK(read(std::string_view{"id: a\0b\nfoo: x\nretry: 10\ndata: d\n\n", 35}) ==
        events{"message|d|"});
}

TEST_CASE("an event cut off at the end is not an event") {
  sse_parser parser;
  CHECK(read(parser, "data: a\n").empty());
  CHECK(parser.has_partial());
  CHECK(read(parser, "\n").size() == 1);
  CHECK_FALSE(parser.has_partial());
  CHECK(read(parser, ": comm").empty());
  CHECK(parser.has_partial());
}

TEST_CASE("one byte over the limit of a line or of the data is refused") {
  const auto nothing = [](const sse_event&) {};
  const std::string line = "data: " + std::string(94, 'x');
  sse_parser fits{100};
  CHECK(fits.feed(line + "\n\n", nothing));
  sse_parser over{100};
  CHECK(over.feed(line + "x", nothing).error().code == error_code::too_large);
  sse_parser many{100};
  std::string lines;  // each line is short, together they are not
  for (int i = 0; i < 60; ++i) lines += "data: x\n";
  CHECK(many.feed(lines, nothing).error().code == error_code::too_large);
}

TEST_CASE("where the stream is cut makes no difference") {
  const std::string stream =
      "\xEF\xBB\xBF: hi\r\nevent: a\rdata: 1\ndata: 2\r\n\r\nid: 7\n\ndata:\xC3\xA9\r\r\n\ndata: "
      "z\n\n";
  const events whole = read(stream);
  REQUIRE(whole == events{"a|1\n2|", "message|\xC3\xA9|7", "message|z|7"});
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    test::rng random{seed};
    sse_parser parser;
    events got;
    for (size_t at = 0; at < stream.size();) {
      const size_t size = 1 + random.below(5);
      for (const auto& e : read(parser, std::string_view{stream}.substr(at, size)))
        got.push_back(e);
      at += size;
    }
    CHECK(got == whole);
  }
}

TEST_CASE("what we write reads back, whatever the data") {
  for (const std::string data : {"", "a", "a\nb", "\n", "a\n", " x", "{\"k\": 1}"}) {
    CAPTURE(data);
    std::string text;
    append_sse_event(text, "e", data);
    CHECK(read(text) == events{"e|" + data + "|"});
  }
  std::string text;
  append_sse_event(text, "", "a\r\nb\rc");
  CHECK(text == "data: a\ndata: b\ndata: c\n\n");
  CHECK(sse_comment("pi\nng") == ": pi ng\n\n");
  CHECK(read(sse_comment("x\ndata: evil\n\n")).empty());
}

TEST_SUITE_END();
