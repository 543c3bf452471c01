#pragma once

#include <cstddef>
#include <cstdint>

/// Bounds of the wire protocol itself. Everything a user may change is a config value of the
/// component that enforces it; these are constants because both sides must agree on them.
namespace deepinfer::limits {

inline constexpr size_t eager_frame_bytes = 64 * 1024;        ///< longest frame sent in one piece
inline constexpr size_t max_frame_bytes = size_t{256} << 20;  ///< longest frame at all (rendezvous)
inline constexpr size_t max_bulk_read_bytes = size_t{1}
                                              << 20;  ///< one one-sided read; longer ones are split
inline constexpr uint32_t max_wire_nesting = 32;      ///< pointer depth of a message
inline constexpr uint32_t max_nodes = 1024;           ///< rows of a membership table
inline constexpr uint32_t max_services_per_node = 256;
inline constexpr uint32_t max_prompt_tokens = 1u << 20;  ///< token ids in one message
inline constexpr uint32_t max_stop_strings = 16;
inline constexpr size_t max_stop_bytes = 4096;       ///< of one stop string
inline constexpr uint32_t max_alternatives = 20;     ///< best tokens told beside an output token
inline constexpr uint32_t max_bulk_parts = 65536;    ///< descriptors in one sequence hand-over
inline constexpr size_t max_text_bytes = 64 * 1024;  ///< names, addresses, error details

}  // namespace deepinfer::limits
