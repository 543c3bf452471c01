#include "proto/codec/logprobs.hpp"

#include <cstring>
#include <limits>

namespace deepinfer::wire {
namespace {

constexpr int32_t no_token = -1;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// -infinity counts, NaN does not.
bool is_logprob(float value) {
  return value <= 0;
}

int32_t id_at(capnp::Data::Reader ids, size_t place) {
  int32_t id;
  std::memcpy(&id, ids.begin() + place * sizeof id, sizeof id);
  return id;
}

failure corrupt(const char* why) {
  return {error_code::corrupt, why};
}

}  // namespace

void write_logprobs(TokenLogprobs::Builder out,
                    std::span<const token_logprobs> rows,
                    uint32_t asked) {
  const size_t width = asked - 1;
  auto chosen = out.initChosen(static_cast<uint32_t>(rows.size()));
  auto best = out.initBest(static_cast<uint32_t>(rows.size() * width));
  std::vector<int32_t> ids(rows.size() * width, no_token);
  for (uint32_t r = 0; r < rows.size(); ++r) {
    chosen.set(r, rows[r].chosen);
    for (size_t i = 0; i < width; ++i) {
      const size_t place = r * width + i;
      const bool known = i < rows[r].best.size();
      if (known) ids[place] = rows[r].best[i].id;
      best.set(static_cast<uint32_t>(place), known ? rows[r].best[i].logprob : minus_infinity);
    }
  }
  out.setBestIds({reinterpret_cast<const kj::byte*>(ids.data()), ids.size() * sizeof(int32_t)});
}

result<std::vector<token_logprobs>> read_logprobs(TokenLogprobs::Reader in,
                                                  const logprob_shape& shape) {
  if (shape.asked == 0) return std::vector<token_logprobs>{};
  const size_t width = shape.asked - 1;
  const auto chosen = in.getChosen();
  const auto best = in.getBest();
  const auto ids = in.getBestIds();
  if (chosen.size() != shape.tokens || best.size() != shape.tokens * width ||
      ids.size() != best.size() * sizeof(int32_t))
    return corrupt("the log probabilities do not belong to the output tokens");
  std::vector<token_logprobs> rows(shape.tokens);
  for (uint32_t r = 0; r < rows.size(); ++r) {
    rows[r].chosen = chosen[r];
    if (!is_logprob(chosen[r])) return corrupt("a log probability is no number up to 0");
    rows[r].best.reserve(width);
    for (size_t i = 0; i < width; ++i) {
      const size_t place = r * width + i;
      const scored_token one{id_at(ids, place), best[static_cast<uint32_t>(place)]};
      if (one.id == no_token) break;
      if (one.id < 0) return corrupt("an alternative is no token id");
      if (!is_logprob(one.logprob)) return corrupt("a log probability is no number up to 0");
      rows[r].best.push_back(one);
    }
  }
  return rows;
}

}  // namespace deepinfer::wire
