#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"

#include <cstdint>
#include <vector>

namespace deepinfer {

enum class figure_form : uint8_t { table, json_lines };

/// Prints figures to standard output, or what failed to standard error; the exit code.
int show_figures(const result<std::vector<bench::figure>>& figures, figure_form form);

}  // namespace deepinfer
