#pragma once

#include "actors/node/chat_answer.hpp"
#include "actors/node/chat_exchange.hpp"
#include "actors/node/chat_output.hpp"
#include "runtime/http/client.hpp"

#include <string>
#include <vector>

namespace deepinfer::chat {

struct call_options {
  request_options request;
  bool prints_json = false;  ///< what the server sends instead of text for people
  output_style style;
};

struct call_outcome {
  int exit_code = 1;
  std::string content;  ///< of a complete answer
  std::string finish_reason;
};

/// Sends one request to the first of `gateways` that can be reached and writes the answer to
/// standard output as it comes; says on standard error what went wrong.
[[nodiscard]] call_outcome run_call(const std::vector<http_url>& gateways,
                                    const call_options& options,
                                    const std::vector<turn>& talk);

/// Signals that end the process leave the terminal in its usual colours.
void restore_colours_on_signals();

}  // namespace deepinfer::chat
