#pragma once

#include "actors/console/terminal_text.hpp"

#include <limits>
#include <string>
#include <vector>

namespace deepinfer::view {

struct cell {
  std::string text;  ///< printable
  tone how = tone::plain;
};

struct column {
  std::string title;
  align side = align::left;
  size_t shrinks_to = 0;  ///< 0: keeps its width; else may be cut down to this
  size_t rank = 0;        ///< when even that is not enough, the highest rank goes first; 0 stays
};

inline constexpr size_t any_width = std::numeric_limits<size_t>::max();

/// A title line and one line per row, none wider than `width`. Every row has as many cells as there
/// are columns.
[[nodiscard]] std::vector<std::string> draw_table(std::vector<column> columns,
                                                  std::vector<std::vector<cell>> rows,
                                                  size_t width,
                                                  const palette& colours);

}  // namespace deepinfer::view
