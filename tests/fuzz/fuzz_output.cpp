// What a model may write: the parser's result must not depend on how the text is cut. The first
// byte chooses the options.
#include "proto/types/check.hpp"
#include "runtime/recipe/output_parser.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <string>
#include <string_view>

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
  options.start = static_cast<parser_start>(choice % 5);
  options.parse_tool_calls = (choice & 0x08) == 0;
  options.json_mode = (choice & 0x10) != 0;
  options.repair_arguments = (choice & 0x20) != 0;
  if ((choice & 0x40) != 0) options.stop = {"STOP", "\n\n\n", "</th"};
  return options;
}

/// All chunks as one text that tells kinds apart, each change of kind marked once.
std::string parse(uint8_t choice, std::string_view output, size_t part) {
  output_parser parser(options_of(choice));
  std::vector<output_chunk> chunks;
  for (; !output.empty(); output.remove_prefix(std::min(part, output.size())))
    parser.push(output.substr(0, part), chunks);
  parser.finish(chunks);
  DEEPINFER_CHECK(parser.stopped() == !parser.stop_sequence().empty());
  std::string told;
  int last = -1;
  for (const output_chunk& chunk : chunks) {
    const int kind = static_cast<int>(chunk.what);
    DEEPINFER_CHECK(chunk.what != output_chunk::kind::arguments || parser.called());
    if (kind != last || chunk.what == output_chunk::kind::call)
      told.append("\n#").append(std::to_string(kind)).append(" ");
    told += chunk.text;
    last = kind;
  }
  return told + "\n" + parser.stop_sequence();
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
  const std::string whole = parse(data[0], output, output.size() + 1);
  for (const size_t part : {size_t{1}, size_t{3}, size_t{7}})
    DEEPINFER_CHECK(parse(data[0], output, part) == whole);
  return 0;
}
