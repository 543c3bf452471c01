#pragma once

#include "runtime/model/checkpoint.hpp"
#include "runtime/model/graph_pass.hpp"

#include <cstdint>
#include <string_view>

namespace deepinfer::model {

/// Two engines may exchange state exactly when their fingerprints agree. Covers the state version,
/// the numeric level, config.json, engram_meta.json, and of every tensor its name, type, shape and
/// content. Checkpoints above `whole_content_bytes` are too long to read at start: there the first
/// and the last 4 KiB of each tensor stand for its content.
[[nodiscard]] uint64_t layout_fingerprint(const checkpoint& files,
                                          std::string_view engram_meta,
                                          numeric_level level);

inline constexpr uint64_t whole_content_bytes = uint64_t{256} << 20;

}  // namespace deepinfer::model
