#pragma once

#include <string_view>

/// Spellings of the tokens that the renderer inserts and the parser looks for. The bar is U+FF5C,
/// the low block U+2581.
namespace deepinfer::recipe::token {

inline constexpr std::string_view bos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view eos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view system = "<｜System｜>";
inline constexpr std::string_view user = "<｜User｜>";
inline constexpr std::string_view assistant = "<｜Assistant｜>";
inline constexpr std::string_view latest_reminder = "<｜latest_reminder｜>";
inline constexpr std::string_view think = "<think>";
inline constexpr std::string_view end_think = "</think>";
inline constexpr std::string_view dsml = "｜DSML｜";
inline constexpr std::string_view fim_begin = "<｜fim▁begin｜>";
inline constexpr std::string_view fim_hole = "<｜fim▁hole｜>";
inline constexpr std::string_view fim_end = "<｜fim▁end｜>";

/// Those without which no prompt can be made.
inline constexpr std::string_view needed[] = {
    bos, eos, system, user, assistant, latest_reminder, think, end_think, dsml};

}  // namespace deepinfer::recipe::token
