#include "runtime/base/config.hpp"

#include "runtime/base/config_text.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

struct sample_config {
  bool on = false;
  uint16_t port = 8000;
  int32_t offset = -5;
  uint32_t count = 3;
  uint64_t memory_bytes = 1 << 20;
  double share = 0.5;
  std::string name = "a \"b\"\n";
  std::string mode = "fast";
  std::chrono::milliseconds ttl{90000};
  std::vector<std::string> seeds{"x:1", "y:2"};

  template <class V>
  void describe(V& v) {
    v.field("on", on, "Whether.");
    v.field("port", port, at_least(1), "Where.");
    v.field("offset", offset, between(-10, 10), "Shift.");
    v.field("count", count, between(1, 9), "How many.");
    v.bytes("memory_bytes", memory_bytes, between(1024, 1 << 30), "How much.");
    v.field("share", share, real_between(0, 1), "Which part.");
    v.field("name", name, "What.");
    v.field("mode", mode, one_of({"fast", "safe"}), "How.");
    v.field("ttl", ttl, between(1, 3600000), "How long.");
    v.field("seeds", seeds, "Who.");
  }
};

struct fixture {
  sample_config sample;
  config_schema schema;
  fixture() { schema.section("sample", "A sample.", sample); }

  std::string toml_error(std::string_view text) {
    const auto done = schema.read_toml(text, "f.toml");
    REQUIRE_FALSE(done);
    return done.error().detail;
  }
};

}  // namespace

TEST_SUITE_BEGIN("runtime/base");

TEST_CASE_FIXTURE(fixture, "a file sets every type of field") {
  REQUIRE(schema.read_toml(R"([sample]
on = true
port = 1
offset = 10
count = 9
memory_bytes = "64KiB"
share = 1
name = "n"
mode = "safe"
ttl = "2s"
seeds = ["z"]
)",
                           "f.toml"));
  CHECK(sample.on);
  CHECK(sample.port == 1);
  CHECK(sample.offset == 10);
  CHECK(sample.count == 9);
  CHECK(sample.memory_bytes == 65536);
  CHECK(sample.share == 1.0);
  CHECK(sample.name == "n");
  CHECK(sample.mode == "safe");
  CHECK(sample.ttl == 2s);
  CHECK(sample.seeds == std::vector<std::string>{"z"});
}

TEST_CASE_FIXTURE(fixture, "the effective config reads back as itself") {
  REQUIRE(schema.set("sample.offset", "7"));
  const std::string printed = schema.effective();
  CHECK(printed.find("offset = 7  # from command line") != std::string::npos);
  fixture other;
  REQUIRE(other.schema.read_toml(printed, "effective"));
  CHECK(other.sample.offset == 7);
  CHECK(other.sample.name == sample.name);
  for (size_t i = 0; i < schema.values().size(); ++i)
    CHECK(other.schema.values()[i].value == schema.values()[i].value);
}

TEST_CASE_FIXTURE(fixture, "an unknown key is an error that names the nearest known one") {
  CHECK(toml_error("[sample]\nprot = 1\n") ==
        "f.toml: sample.prot is not a setting; did you mean sample.port?");
  CHECK(toml_error("[other.deep]\nthing_of_its_own = 1\n").find("--show-config") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(fixture, "one over or under the range is refused, and the ends are not") {
  for (const auto& [key, low, high] :
       {std::tuple{"port", 1, 65535}, std::tuple{"offset", -10, 10}, std::tuple{"count", 1, 9},
        std::tuple{"memory_bytes", 1024, 1 << 30}, std::tuple{"ttl", 1, 3600000}}) {
    CAPTURE(key);
    const std::string dotted = std::string("sample.") + key;
    CHECK(schema.set(dotted, std::to_string(low)));
    CHECK(schema.set(dotted, std::to_string(high)));
    CHECK_FALSE(schema.set(dotted, std::to_string(low - 1)));
    CHECK_FALSE(schema.set(dotted, std::to_string(high + 1)));
  }
  CHECK(schema.set("sample.share", "1"));
  CHECK_FALSE(schema.set("sample.share", "1.0000001"));
  CHECK_FALSE(schema.set("sample.share", "nan"));
  CHECK_FALSE(schema.set("sample.mode", "slow"));
  CHECK(toml_error("[sample]\nttl = 0\n") == "f.toml: sample.ttl must be 1ms to 1h, not 0ms");
}

TEST_CASE_FIXTURE(fixture, "a file with one wrong key changes nothing and lists all wrong keys") {
  const std::string why = toml_error("[sample]\ncount = 5\nport = 0\non = 1\nname = 3\n");
  CHECK(sample.count == 3);
  CHECK(why.find("sample.port must be") != std::string::npos);
  CHECK(why.find("sample.on must be") != std::string::npos);
  CHECK(why.find("sample.name must be") != std::string::npos);
}

TEST_CASE_FIXTURE(fixture, "a syntax error names file and line") {
  CHECK(toml_error("[sample]\nport = = 1\n").starts_with("f.toml:2: "));
}

TEST_CASE_FIXTURE(fixture, "a value of the wrong TOML type is refused") {
  for (const char* line :
       {"on = \"true\"", "port = 1.0", "port = \"1\"", "share = \"0.5\"", "seeds = \"a\"",
        "seeds = [1]", "ttl = 1979-05-27", "memory_bytes = \"64 elephants\""}) {
    CAPTURE(line);
    CHECK_FALSE(schema.read_toml(std::string("[sample]\n") + line, "f.toml"));
  }
}

TEST_CASE_FIXTURE(fixture, "a config file one byte over the limit is refused") {
  std::string text(config_schema::max_text_bytes, '#');
  CHECK(schema.read_toml(text, "f.toml"));
  text += '#';
  const auto done = schema.read_toml(text, "f.toml");
  REQUIRE_FALSE(done);
  CHECK(done.error().code == error_code::too_large);
}

TEST_CASE_FIXTURE(fixture, "the environment overrides by section and key, lists by commas") {
  REQUIRE(schema.read_environment({{"DEEPINFER_SAMPLE_SEEDS", "a:1, b:2"},
                                   {"DEEPINFER_SAMPLE_ON", "yes"},
                                   {"DEEPINFER_SAMPLE_TTL", "1.5s"},
                                   {"HOME", "/root"}}));
  CHECK(sample.seeds == std::vector<std::string>{"a:1", "b:2"});
  CHECK(sample.on);
  CHECK(sample.ttl == 1500ms);
}

TEST_CASE_FIXTURE(fixture, "an unknown DEEPINFER_ name is an error unless declared foreign") {
  const auto done = schema.read_environment({{"DEEPINFER_SAMPLE_PROT", "1"}});
  REQUIRE_FALSE(done);
  CHECK(done.error().detail ==
        "environment: DEEPINFER_SAMPLE_PROT is not a setting; did you mean DEEPINFER_SAMPLE_PORT?");
  schema.foreign_environment_name("DEEPINFER_SAMPLE_PROT");
  CHECK(schema.read_environment({{"DEEPINFER_SAMPLE_PROT", "1"}}));
}

TEST_CASE_FIXTURE(fixture, "a published environment name is a second name of a field") {
  schema.environment_name("DEEPINFER_WHATEVER", "sample.name");
  REQUIRE(schema.read_environment({{"DEEPINFER_WHATEVER", "w"}}));
  CHECK(sample.name == "w");
}

TEST_CASE_FIXTURE(fixture, "help shows key, default, sentence, type, range and environment name") {
  const std::string help = schema.help();
  CHECK(help.starts_with("[sample]  A sample.\n"));
  CHECK(help.find("  memory_bytes = \"1MiB\"\n      How much. (size such as \"64MiB\", 1KiB to "
                  "1GiB; DEEPINFER_SAMPLE_MEMORY_BYTES)\n") != std::string::npos);
  CHECK(help.find("text: fast, safe") != std::string::npos);
}

TEST_CASE("durations and sizes are whole, bounded numbers with a known unit") {
  using namespace config_text;
  CHECK(parse_duration("250ms") == 250ms);
  CHECK(parse_duration("250") == 250ms);
  CHECK(parse_duration("1.5 s") == 1500ms);
  CHECK(parse_duration("5min") == 300s);
  CHECK(parse_duration("0.1ms") == std::nullopt);
  CHECK(parse_duration("5 weeks") == std::nullopt);
  CHECK(parse_duration("") == std::nullopt);
  CHECK(parse_duration("ms") == std::nullopt);
  CHECK(parse_duration("9223372036854775807h") == std::nullopt);
  CHECK(parse_size("64MiB") == 64 << 20);
  CHECK(parse_size("1 kB") == 1000);
  CHECK(parse_size("0.5KiB") == 512);
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("1e3") == 1000);
  CHECK(parse_size("9999999TiB") == std::nullopt);
  CHECK(print_size(64 << 20) == "64MiB");
  CHECK(print_size(1000) == "1000B");
  CHECK(print_size(0) == "0B");
  CHECK(print_duration(90s) == "90s");
  CHECK(print_duration(1ms) == "1ms");
}

TEST_SUITE_END();
