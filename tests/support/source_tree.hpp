#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace deepinfer::test {

/// Path of a file of the source tree; the build passes the tree's place.
inline std::string source_path(const std::string& relative) {
  return std::string(DEEPINFER_SOURCE_DIR) + "/" + relative;
}

/// Its bytes; a missing file fails the test.
inline std::string read_source(const std::string& relative) {
  std::ifstream in(source_path(relative), std::ios::binary);
  REQUIRE_MESSAGE(in.good(), "missing: ", relative);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Its lines, cut at line feeds alone.
inline std::vector<std::string> read_source_lines(const std::string& relative) {
  std::vector<std::string> lines;
  const std::string all = read_source(relative);
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    lines.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace deepinfer::test
