#include "runtime/model/safetensors.hpp"

#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

// A file with this header and `data_bytes` bytes behind it; the length field may lie.
std::vector<std::byte> file_of(const std::string& header, size_t data_bytes, uint64_t length) {
  std::vector<std::byte> file(sizeof length + header.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  return file;
}

std::vector<std::byte> file_of(const std::string& header, size_t data_bytes) {
  return file_of(header, data_bytes, header.size());
}

struct bad_header {
  const char* header;
  error_code code;
  const char* hint;  ///< must occur in the detail
};

constexpr bad_header bad_headers[] = {
    {"", error_code::corrupt, "JSON"},
    {"[]", error_code::corrupt, "object"},
    {"{\"a\":3}", error_code::corrupt, "object"},
    {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", error_code::corrupt, "dtype"},
    {R"({"a":{"dtype":"F12","shape":[1],"data_offsets":[0,4]}})", error_code::unsupported, "F12"},
    {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", error_code::corrupt, "shape"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", error_code::corrupt, "whole"},
    {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", error_code::corrupt, "whole"},
    {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
     error_code::corrupt, "8 dimensions"},
    {R"({"a":{"dtype":"F32","shape":[1]}})", error_code::corrupt, "data_offsets"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", error_code::corrupt, "two"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", error_code::corrupt, "ends"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", error_code::corrupt,
     "cut short"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", error_code::corrupt, "fit"},
    {R"({"a":{"dtype":"F64","shape":[4611686018427387905,2],"data_offsets":[0,8]}})",
     error_code::corrupt, "fit"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
         "b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
     error_code::corrupt, "share"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
         "a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     error_code::corrupt, "twice"},
    {R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", error_code::corrupt, "name"},
};

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("a written file reads back, empty and scalar tensors included") {
    const test::scratch_folder folder("safetensors");
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    const std::vector<int32_t> one{7};
    const std::vector<tensor_view> tensors{
        {"b", tensor_type::f32, {2, 3}, std::as_bytes(std::span(values))},
        {"a", tensor_type::i32, {}, std::as_bytes(std::span(one))},
        {"empty \"quoted\"", tensor_type::u8, {0, 4}, {}}};
    REQUIRE(write_safetensors(folder.path() / "x", tensors));
    const auto text = test::file_text(folder.path() / "x");
    const auto read = parse_safetensors(std::as_bytes(std::span(text)));
    REQUIRE(read);
    REQUIRE(read->size() == 3);
    CHECK((*read)[0].name == "a");
    CHECK((*read)[1].shape == std::vector<uint64_t>{2, 3});
    CHECK(std::memcmp((*read)[1].bytes.data(), values.data(), 24) == 0);
    CHECK((*read)[2].name == "empty \"quoted\"");
    CHECK(to_string((*read)[1]) == "F32 [2, 3]");
    CHECK_FALSE(write_safetensors(folder.path() / "no" / "such", tensors));
    const tensor_view wrong{"w", tensor_type::f32, {5}, std::as_bytes(std::span(values))};
    CHECK_FALSE(write_safetensors(folder.path() / "x", {&wrong, 1}));
  }

  TEST_CASE("a header that lies is refused and the message says how") {
    for (const bad_header& bad : bad_headers) {
      CAPTURE(bad.header);
      const auto file = file_of(bad.header, 8);
      const auto read = parse_safetensors(file);
      REQUIRE_FALSE(read);
      CHECK(read.error().code == bad.code);
      CAPTURE(read.error().detail);
      CHECK(read.error().detail.find(bad.hint) != std::string::npos);
    }
  }

  TEST_CASE("metadata is skipped and gaps are allowed") {
    const auto file = file_of(R"({"__metadata__":{"format":"pt"},
        "a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                              8);
    const auto read = parse_safetensors(file);
    REQUIRE(read);
    CHECK(read->size() == 1);
  }

  TEST_CASE("the length field is bounded before it is believed") {
    CHECK_FALSE(parse_safetensors({}));
    CHECK_FALSE(parse_safetensors(file_of("{}", 0, 3)));
    const auto huge = parse_safetensors(file_of("{}", 0, safetensors_limits::header_bytes + 1));
    REQUIRE_FALSE(huge);
    CHECK(huge.error().code == error_code::too_large);
    CHECK_FALSE(parse_safetensors(file_of("{}", 0, ~uint64_t{0})));
    const std::string name(safetensors_limits::name_bytes + 1, 'n');
    const std::string rest = R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    CHECK_FALSE(parse_safetensors(file_of("{\"" + name + rest, 8)));
    CHECK(parse_safetensors(file_of("{\"" + name.substr(1) + rest, 8)));
  }

  TEST_CASE("random damage to a real header never crashes and never yields bytes outside") {
    const auto original =
        test::file_text(test::mini_checkpoint("mini8") / "model-00001-of-00002.safetensors");
    uint64_t header = 0;
    std::memcpy(&header, original.data(), sizeof header);
    // the start of the header and a short piece of data: cheap to parse many times
    const size_t kept = std::min<size_t>(original.size(), header + 8);
    test::rng random{99};
    uint32_t accepted = 0;
    for (int trial = 0; trial < 1500; ++trial) {
      std::string damaged = original.substr(0, kept) + std::string(4096, '\0');
      if (random.below(3) == 0) damaged = original;
      const uint32_t flips = 1 + random.below(4);
      for (uint32_t i = 0; i < flips; ++i)
        damaged[random.below(static_cast<uint32_t>(kept))] =
            static_cast<char>(random.below(3) == 0 ? random.below(256) : '0' + random.below(10));
      if (random.below(8) == 0) damaged.resize(random.below(static_cast<uint32_t>(damaged.size())));
      const auto bytes = std::as_bytes(std::span(damaged));
      const auto read = parse_safetensors(bytes);
      if (!read) continue;
      ++accepted;
      for (const tensor_view& t : *read) {
        const bool inside =
            t.bytes.empty() || (t.bytes.data() >= bytes.data() &&
                                t.bytes.data() + t.bytes.size() <= bytes.data() + bytes.size());
        REQUIRE(inside);
      }
    }
    CHECK(accepted < 1500);
  }
}
