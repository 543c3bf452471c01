#pragma once

#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// How settings look as text. Pure; used by `config_schema` only.
namespace deepinfer::config_text {

/// Whole text or nothing.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);
[[nodiscard]] std::optional<int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<double> parse_real(std::string_view text);
/// "250ms", "1.5s", "5min", "2h"; a bare number is milliseconds.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
/// "64MiB", "1GB", "4096"; B, kB, MB, GB, TB and KiB, MiB, GiB, TiB in any case.
[[nodiscard]] std::optional<int64_t> parse_size(std::string_view text);
/// Split at commas, blanks around the items removed; an empty text has no items.
[[nodiscard]] std::vector<std::string> parse_list(std::string_view text);

/// The longest unit that loses nothing: 90000 ms is "90s".
[[nodiscard]] std::string print_duration(std::chrono::milliseconds value);
[[nodiscard]] std::string print_size(uint64_t value);
[[nodiscard]] std::string print_real(double value);
/// TOML basic string.
[[nodiscard]] std::string quote(std::string_view text);

/// The candidate with the fewest edits, if it is near enough to be what was meant.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 const std::vector<std::string>& candidates);

}  // namespace deepinfer::config_text

namespace deepinfer {

/// The leaves of a TOML text as dotted keys, in order. The only function that sees toml++.
[[nodiscard]] result<std::vector<std::pair<std::string, config_value>>> flatten_toml(
    std::string_view text, std::string_view origin);

}  // namespace deepinfer
