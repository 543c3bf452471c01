#include "runtime/recipe/json_value.hpp"
#include "tests/unit/runtime/recipe/bodies.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

using namespace deepinfer;
using namespace deepinfer::recipe;

TEST_SUITE("runtime/recipe") {
  TEST_CASE("every byte is escaped or kept, wherever in a string it stands") {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      std::string expected(1, c);
      const std::string letters = "\"\"\\\\\bb\ff\nn\rr\tt";
      if (byte < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(byte));
        expected = code;
      }
      for (size_t i = 0; i < letters.size(); i += 2)
        if (letters[i] == c) expected = {'\\', letters[i + 1]};
      for (size_t before = 0; before < 20; ++before)
        for (const size_t behind : {0, 1, 7, 8, 9}) {
          std::string out = "x";
          append_json_escaped(out, std::string(before, '!') + c + std::string(behind, '\x7F'));
          const bool same =
              out == "x" + std::string(before, '!') + expected + std::string(behind, '\x7F');
          CHECK_MESSAGE(same, byte, " behind ", before);
        }
    }
    CHECK(test::json_string("\n\n\"\"日\x80\xFF  ") == "\"\\n\\n\\\"\\\"日\x80\xFF  \"");
  }
}
