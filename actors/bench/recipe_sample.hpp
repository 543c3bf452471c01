#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Made-up texts for `bench recipe`: the same for the same numbers, on every machine.
namespace deepinfer::bench {

/// Paragraphs of English, Chinese and code in turn, about a third of the bytes each.
class sample_writer {
public:
  explicit sample_writer(uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::string mixed(size_t bytes);
  [[nodiscard]] std::string english(size_t bytes);
  [[nodiscard]] std::string chinese(size_t bytes);
  [[nodiscard]] std::string code(size_t bytes);

private:
  uint32_t below(uint32_t bound);

  uint64_t state_;
  uint32_t turn_ = 0;
};

/// The body of a chat request: a system message, then user and assistant messages in turn up to
/// `messages` in all (even: the last is a user's), with reasoning, tools declared, streaming. A
/// larger number of messages begins with the same ones.
struct sample_conversation {
  size_t messages = 200;
  size_t message_bytes = 1500;
};
[[nodiscard]] std::string sample_body(const sample_conversation& shape);

/// What a model might say in that conversation: reasoning, an answer, and a tool call with typed
/// arguments.
[[nodiscard]] std::string sample_output(uint64_t seed, size_t bytes);

}  // namespace deepinfer::bench
