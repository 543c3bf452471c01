// What a model may write: the parser's result must be what the table of the specification says, and
// must not depend on how the text is cut. The first byte chooses the options.
#include "proto/types/check.hpp"
#include "runtime/recipe/output_parser.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/output_reference.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::recipe;

namespace {

fuzz::bytes seed(uint8_t choice, std::string_view output) {
  fuzz::bytes made(1 + output.size(), choice);
  std::copy(output.begin(), output.end(), made.begin() + 1);
  return made;
}

parser_options options_of(uint8_t choice) {
  parser_options options;
  options.start = static_cast<parser_start>((choice & 0x07) % 7);
  options.parse_tool_calls = (choice & 0x08) == 0;
  options.json_mode = (choice & 0x10) != 0;
  options.repair_arguments = (choice & 0x20) != 0;
  if ((choice & 0x40) != 0) options.stop = {"STOP", "\n\n\n", "</th"};
  return options;
}

test::parsed_output parse(uint8_t choice, std::string_view output, size_t part) {
  output_parser parser(options_of(choice));
  test::parsed_output made;
  std::vector<output_chunk> chunks;
  for (; !output.empty(); output.remove_prefix(std::min(part, output.size())))
    parser.push(output.substr(0, part), chunks);
  parser.finish(chunks);
  made.stop = parser.stop_sequence();
  DEEPINFER_CHECK(parser.stopped() == !made.stop.empty());
  test::join_chunks(made.chunks, chunks);
  return made;
}

}  // namespace

namespace deepinfer::fuzz {

std::vector<bytes> seeds() {
  return {
      seed(0, "\n\nbecause\n\n</think>\n\nanswer"),
      seed(0,
           "plan</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter "
           "name=\"a\" string=\"true\">x\"y</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"b\" "
           "string=\"false\">[1]</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"),
      seed(0x42, "text STSTOP more"),
      seed(0x12, "Here:\n```json\n{\"a\": 1}\n```\nDone"),
  };
}

}  // namespace deepinfer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view output(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto want = test::parse_by_the_table(options_of(data[0]), output);
  for (const size_t part : {output.size() + 1, size_t{1}, size_t{3}, size_t{7}})
    DEEPINFER_CHECK(parse(data[0], output, part) == want);
  return 0;
}
