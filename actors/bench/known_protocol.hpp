#pragma once

#include "actors/messages/protocol.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What the gateway says in a measurement: events of the size of a chat's, each carrying the stamp
/// of its token (`null_model.hpp`) between two '@'.
namespace deepinfer::bench {

inline constexpr char stamp_mark = '@';

/// Tokens already known: the body of a request names no more than their number.
struct known_request {
  uint32_t tokens = 8;
};
[[nodiscard]] std::string known_body(const known_request& request);
[[nodiscard]] std::shared_ptr<const protocol_codec> make_known_protocol();

/// One event of a stream, and its end.
[[nodiscard]] std::string known_event(int32_t stamp);
[[nodiscard]] std::string known_end();
/// The number in a body; 0 if there is none.
[[nodiscard]] uint32_t known_tokens(std::string_view body);

/// The real thing: `chat` encodes the prompt and writes the events. Every token that arrives is
/// replaced by one of `words` for it, and its stamp follows as a comment.
[[nodiscard]] std::shared_ptr<const protocol_codec> make_stamped_protocol(
    std::shared_ptr<const protocol_codec> chat, std::vector<int32_t> words);

}  // namespace deepinfer::bench
