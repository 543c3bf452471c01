#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace deepinfer {

/// Beginnings of prompts that operators list: what everybody's requests may share (KV-4). As
/// tokens, since only those say where two prompts part.
class public_prompts {
public:
  explicit public_prompts(std::vector<std::vector<int32_t>> beginnings = {})
      : beginnings_(std::move(beginnings)) {}

  /// How many tokens, from the first on, are those of a listed prompt. Behind them a prompt is its
  /// tenant's own, also when it goes on as another one that is listed would.
  [[nodiscard]] size_t shared_tokens(std::span<const int32_t> prompt) const {
    size_t most = 0;
    for (const std::vector<int32_t>& one : beginnings_) {
      const auto parted = std::mismatch(one.begin(), one.end(), prompt.begin(), prompt.end());
      most = std::max(most, static_cast<size_t>(parted.first - one.begin()));
    }
    return most;
  }
  [[nodiscard]] bool empty() const { return beginnings_.empty(); }

private:
  std::vector<std::vector<int32_t>> beginnings_;
};

}  // namespace deepinfer
