#pragma once

#include <cstdint>
#include <string>

namespace deepinfer::model {

/// A tokenizer.json that fills a vocabulary of this size, so that a random model can be asked in
/// words: the 256 bytes, made-up pieces of two and three letters, and the family's control tokens
/// (three at the start, 32 at the end). Empty when the vocabulary is too small for that.
[[nodiscard]] std::string random_tokenizer_text(uint32_t vocabulary);

}  // namespace deepinfer::model
