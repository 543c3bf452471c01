#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// Starts `program node` with the model `starts` times and waits until `/ready` answers 200. The
/// parts are what the node itself logs about its start; what is left over is the program's own
/// loading (before) and the way from the last listener to the first load reports (after).
[[nodiscard]] result<std::vector<figure>> measure_node_start(const std::string& program,
                                                             const std::string& model,
                                                             size_t starts);

}  // namespace deepinfer::bench
