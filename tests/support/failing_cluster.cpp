#include "tests/support/failing_cluster.hpp"

#include <cstdlib>

namespace deepinfer::test {

uint64_t number_from(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

std::vector<int32_t> draw_tokens(rng& random, uint32_t count) {
  std::vector<int32_t> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(2 + random.below(60)));
  return out;
}

void answers_tally::count(const sim_client& client) {
  if (client.left())
    ++left;
  else if (client.state() == sim_client::outcome::complete)
    ++complete;
  else if (client.state() == sim_client::outcome::error_status)
    ++refused;
  else
    ++broken_off;
}

}  // namespace deepinfer::test
