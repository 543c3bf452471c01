#pragma once

#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <vector>

namespace deepinfer::model {

/// Hash multipliers of each Engram layer, [layer][look-back], as the published recipe draws them:
/// NumPy's `default_rng(10007 * layer)` draws `longest_ngram` numbers v below
/// (2^63 - 1) / compressed vocabulary / 2; the multiplier is 2 v + 1. A trained table fits these
/// alone, so a side file that says otherwise belongs to other tables.
[[nodiscard]] std::vector<std::vector<uint64_t>> engram_multipliers(const engram_config& config);

/// Rows each Engram layer's table must have: the sum of its primes.
[[nodiscard]] std::vector<uint64_t> engram_row_counts(const engram_config& config);

}  // namespace deepinfer::model
