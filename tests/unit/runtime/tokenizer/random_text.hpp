#pragma once

#include "tests/support/rng.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::test {

/// Well-formed text that mixes all classes the splitter knows.
inline std::string random_text(rng& random, size_t characters) {
  static const std::vector<std::string> alphabet = {"a",          "Z",
                                                    "the",        "é",
                                                    "й",          "\u0301",
                                                    "\u20DD",     "0",
                                                    "9",          "٣",
                                                    "½",          "一",
                                                    "龥",         "あ",
                                                    "ア",         "・",
                                                    "ー",         " ",
                                                    " ",          "\t",
                                                    "\n",         "\r",
                                                    "\u00A0",     "\u0085",
                                                    "\u3000",     ".",
                                                    "!",          "-",
                                                    "_",          "<",
                                                    "｜",         "▁",
                                                    "$",          "€",
                                                    "∀",          "😀",
                                                    "\u200D",     std::string(1, '\0'),
                                                    "\x01",       "\x7F",
                                                    "\u00AD",     "\uFEFF",
                                                    "\U0010FFFF", "<think>",
                                                    "｜DSML｜"};
  std::string out;
  for (size_t i = 0; i < characters; ++i)
    out += alphabet[random.below(static_cast<uint32_t>(alphabet.size()))];
  return out;
}

}  // namespace deepinfer::test
