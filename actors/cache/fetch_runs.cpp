#include "actors/cache/fetch_runs.hpp"

#include "storage/arena/span_pool.hpp"

namespace deepinfer::fetch {

namespace {

constexpr uint64_t longest_gap = 4096;  // read along rather than read apart

}  // namespace

std::vector<run> runs_of(const std::vector<piece>& pieces) {
  std::vector<run> runs;
  bool open = false;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const piece& p = pieces[i];
    if (p.length == 0) {
      open = false;
      continue;
    }
    if (open) {
      const piece& before = pieces[i - 1];
      const uint64_t step = p.offset - before.offset;
      const bool follows = p.source == before.source && p.offset > before.offset &&
                           step >= before.length && step <= before.length + longest_gap &&
                           step % storage::span_pool::unit == 0;
      if (follows) {
        ++runs.back().count;
        runs.back().bytes = p.offset + p.length - runs.back().from;
        continue;
      }
    }
    runs.push_back({i, 1, p.offset, 0, p.length});
    open = true;
  }
  return runs;
}

std::vector<run> parts_of(const std::vector<run>& runs,
                          const std::vector<piece>& pieces,
                          uint64_t most) {
  std::vector<run> parts;
  for (const run& r : runs)
    for (uint32_t i = r.first; i < r.first + r.count; ++i) {
      const uint64_t end = pieces[i].offset + pieces[i].length;
      if (i == r.first || end - parts.back().from > most)
        parts.push_back({i, 0, pieces[i].offset, r.into + (pieces[i].offset - r.from), 0});
      ++parts.back().count;
      parts.back().bytes = end - parts.back().from;
    }
  return parts;
}

}  // namespace deepinfer::fetch
