#pragma once

#include "runtime/recipe/api_protocol.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::test {

/// An answer in no protocol's words.
struct joined_answer {
  struct call {
    std::string id, name;
    std::string arguments;  ///< or the input of a custom tool

    friend bool operator==(const call&, const call&) = default;
  };
  std::string reasoning, text;
  std::vector<call> calls;
  std::string finish;  ///< reason, and stop sequence where the protocol tells it
  std::string usage;   ///< JSON

  friend bool operator==(const joined_answer&, const joined_answer&) = default;
};

/// What the events of a stream add up to. Requires that they follow each other as the protocol
/// says.
[[nodiscard]] joined_answer join_stream(recipe::api_protocol protocol, std::string_view stream);

[[nodiscard]] joined_answer read_body(recipe::api_protocol protocol, std::string_view body);

/// A stream's answer as a body tells it: Messages bodies have parsed arguments.
[[nodiscard]] joined_answer as_in_body(recipe::api_protocol protocol, joined_answer answer);

}  // namespace deepinfer::test
