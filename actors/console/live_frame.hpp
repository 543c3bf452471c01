#pragma once

#include "actors/console/console_view.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The live view as a value: keys and readings change it, a frame is drawn from it. Pure.
namespace deepinfer::view {

enum class live_page : uint8_t { cluster, actors, requests, events };

struct screen_size {
  size_t columns = 80;
  size_t rows = 24;
};

struct live_state {
  live_page page = live_page::cluster;
  size_t scroll = 0;    ///< first line of the page that is shown
  std::string source;   ///< whom we ask
  std::string trouble;  ///< why there is no newer reading; empty when all is well
  double age_s = 0;     ///< of the reading
  std::optional<reading> latest;
  std::vector<event_lines> events;
};

enum class live_step : uint8_t { stay, redraw, leave };

/// What a key does: q, Ctrl-C leave; 1-4 and Tab choose a page; arrows, j, k, PgUp, PgDn, blank,
/// g, G scroll. `keys` is what one read gave; unknown ones do nothing.
[[nodiscard]] live_step apply_keys(live_state& state, std::string_view keys, screen_size size);

/// Exactly `size.rows` lines, none wider than `size.columns`. Limits `state.scroll` to the page.
[[nodiscard]] std::vector<std::string> draw_frame(live_state& state,
                                                  screen_size size,
                                                  const palette& colours);

/// The page alone.
[[nodiscard]] std::vector<std::string> draw_page(const live_state& state, const look& how);

}  // namespace deepinfer::view
