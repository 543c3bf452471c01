#pragma once

#include "actors/cache/fetch_types.hpp"

/// How the pieces of a batch are read: few long reads, short enough to overlap with what follows.
namespace deepinfer::fetch {

/// Pieces of one source that lie behind one another, at most a gap apart; `into` is not set.
[[nodiscard]] std::vector<run> runs_of(const std::vector<piece>& pieces);

/// The same bytes in parts of `most` bytes, or of one piece that is longer. `pieces` are those that
/// the runs were made of.
[[nodiscard]] std::vector<run> parts_of(const std::vector<run>& runs,
                                        const std::vector<piece>& pieces,
                                        uint64_t most);

}  // namespace deepinfer::fetch
