#pragma once

#include "actors/node/chat_call.hpp"

namespace deepinfer::chat {

/// A talk at the terminal, with history: until Ctrl-D. Gives the exit code of the last answer.
int run_talk(const std::vector<http_url>& gateways,
             const call_options& options,
             std::vector<turn> history);

}  // namespace deepinfer::chat
