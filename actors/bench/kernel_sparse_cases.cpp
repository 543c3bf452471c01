#include "actors/bench/kernel_case.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace deepinfer::bench {
namespace {

using kernels::row_format;
using kernels::stream;

/// Pages of a cache, all of them the same memory: what a row says does not change the work.
struct cache_pages {
  static constexpr uint32_t page_rows = 128;
  std::vector<uint8_t> page;
  std::vector<const uint8_t*> pages;
  row_format format;

  cache_pages(kernel_world& world, row_format stored, uint32_t rows, uint32_t width)
      : format(stored) {
    const size_t bytes = packed_row_bytes(stored, width);
    page.resize(size_t{rows} * bytes);
    stream alone;
    for (uint32_t r = 0; r < rows; ++r)
      world.ops.pack_rows(alone, {page.data() + r * bytes, world.inputs.data() + r % 4096 * width,
                                  1, width, stored});
    for (uint32_t r = 0; r < rows; r += page_rows) pages.push_back(page.data() + r * bytes);
  }
  [[nodiscard]] kernels::paged_rows view() const { return {pages.data(), page_rows, format}; }
};

// ---- attention ----------------------------------------------------------------------------------

struct attention_shape {
  const char* name;
  uint32_t rows, heads, width;
};
constexpr attention_shape attention_shapes[] = {{"attention.64x512.1", 1, 64, 512},
                                                {"attention.64x512.16", 16, 64, 512},
                                                {"attention.8x128.1", 1, 8, 128},
                                                {"attention.8x128.64", 64, 8, 128}};
constexpr uint32_t window_keys = 128, chosen_keys = 512;

struct attention_case {
  kernel_world& world;
  cache_pages chosen;
  std::vector<uint32_t> first, window, counts;
  std::vector<int32_t> selected;
  kernels::attention_args args;

  attention_case(kernel_world& w, const attention_shape& s)
      : world(w), chosen(w, row_format::fp4_16, 8 * chosen_keys, s.width) {
    for (uint32_t r = 0; r < s.rows; ++r) {
      first.push_back(r);
      for (uint32_t i = 0; i < chosen_keys; ++i)
        selected.push_back(static_cast<int32_t>(8 * i + (i * 5 + r) % 8));
    }
    window.assign(s.rows, window_keys);
    counts.assign(s.rows, chosen_keys);
    args = {w.outputs.data(), w.inputs.data(), w.inputs.data(),
            first.data(),     window.data(),   chosen.view(),
            selected.data(),  counts.data(),   w.inputs.data(),
            s.rows,           s.heads,         s.width,
            chosen_keys,      0.04f,           kernels::rounding::none};
  }
};

void add_attention(kernel_world& world, std::vector<kernel_case>& out) {
  for (const attention_shape& s : attention_shapes) {
    auto data = std::make_shared<attention_case>(world, s);
    kernel_case c;
    c.name = s.name;
    c.flops = 4.0 * s.rows * s.heads * s.width * (window_keys + chosen_keys);
    c.run = [data](stream& queue, size_t) { data->world.ops.attention(queue, {&data->args, 1}); };
    if (s.rows == 1)
      c.naive = [data] {
        stream alone;
        data->world.reference.attention(alone, {&data->args, 1});
      };
    out.push_back(std::move(c));
  }
}

// ---- selection ----------------------------------------------------------------------------------

struct index_shape {
  const char* name;
  uint32_t rows, entries, heads, width;
  bool candidates;  ///< a quarter of the blocks only
  bool compared;
};
constexpr index_shape index_shapes[] = {
    {"index.32x128.65536.1", 1, 65536, 32, 128, false, false},
    {"index.32x128.65536.candidates.1", 1, 65536, 32, 128, true, false},
    {"index.32x128.2048.1", 1, 2048, 32, 128, false, true},
    {"index.32x128.4096.64", 64, 4096, 32, 128, false, false},
    {"index.8x64.4096.1", 1, 4096, 8, 64, false, false}};

struct index_case {
  kernel_world& world;
  cache_pages keys;
  std::vector<uint32_t> visible;
  std::vector<uint8_t> mask;
  kernels::index_score_args args;

  index_case(kernel_world& w, const index_shape& s)
      : world(w), keys(w, row_format::fp4_32, s.entries, s.width), visible(s.rows, s.entries) {
    const uint32_t blocks = s.entries / 8;
    for (uint32_t i = 0; i < s.rows * blocks; ++i)
      mask.push_back(i * 2654435761u >> 30 == 0 ? 1 : 0);
    args = {w.outputs.data(),
            w.inputs.data(),
            w.inputs.data(),
            keys.view(),
            visible.data(),
            s.candidates ? mask.data() : nullptr,
            s.rows,
            s.heads,
            s.width,
            s.entries,
            s.entries,
            blocks,
            8,
            0.1f};
  }
};

void add_index(kernel_world& world, std::vector<kernel_case>& out) {
  for (const index_shape& s : index_shapes) {
    auto data = std::make_shared<index_case>(world, s);
    kernel_case c;
    c.name = s.name;
    c.flops = 2.0 * s.rows * s.heads * s.width * s.entries * (s.candidates ? 0.25 : 1);
    c.run = [data](stream& queue, size_t) { data->world.ops.index_score(queue, {&data->args, 1}); };
    if (s.compared)
      c.naive = [data] {
        stream alone;
        data->world.reference.index_score(alone, {&data->args, 1});
      };
    out.push_back(std::move(c));
  }
}

/// What `work(table, queue, scores)` costs; the scores lie elsewhere at every turn.
template <class Work>
kernel_case over_scores(kernel_world& world, std::string name, uint32_t entries, Work work) {
  kernel_case c;
  c.name = std::move(name);
  c.bytes = 4.0 * entries;
  const size_t places = std::max<size_t>(world.inputs.size() / entries, 1);
  c.run = [&world, work, entries, places](stream& queue, size_t turn) {
    work(world.ops, queue, world.inputs.data() + turn % places * entries);
  };
  c.naive = [&world, work] {
    stream alone;
    work(world.reference, alone, world.inputs.data());
  };
  return c;
}

void add_selection(kernel_world& world, std::vector<kernel_case>& out) {
  constexpr uint32_t entries = 65536, blocks = entries / 8;
  struct results {
    std::vector<int32_t> index = std::vector<int32_t>(512);
    std::vector<uint8_t> mask = std::vector<uint8_t>(blocks);
    uint32_t count = 0, visible = entries;
  };
  auto to = std::make_shared<results>();
  out.push_back(over_scores(
      world, "select_top.512_of_65536", entries,
      [to](const kernels::op_table& table, stream& queue, const float* score) {
        table.select_top(queue, {to->index.data(), &to->count, score, 1, entries, entries, 512});
      }));
  out.push_back(over_scores(
      world, "select_blocks.2048_of_8192", entries,
      [to](const kernels::op_table& table, stream& queue, const float* score) {
        table.select_blocks(
            queue, {to->mask.data(), score, &to->visible, 1, entries, entries, blocks, 8, 2048});
      }));
}

// ---- sampling -----------------------------------------------------------------------------------

constexpr uint32_t vocabulary = 129280;

/// A trained model's logits: a bell of deviation 3, and a few tokens far above it.
std::vector<float> trained_logits(const kernel_world& world) {
  std::vector<float> logits(vocabulary);
  for (size_t v = 0; v < vocabulary; ++v) {
    const float* u = world.inputs.data() + 4 * v;
    logits[v] = 2.6f * (u[0] + u[1] + u[2] + u[3]);
    if (v % 16001 == 7) logits[v] = 16.0f + 2 * u[0];
  }
  return logits;
}

void add_sampling(kernel_world& world, std::vector<kernel_case>& out) {
  struct rule_case {
    const char* name;
    bool trained;
    kernels::sample_rule rule;
  };
  // The untrained model's logits are the worst case: no token can be left out early.
  for (const rule_case& s : {rule_case{"sample.greedy", true, {0, 1, 0, 0, 7, 1}},
                             rule_case{"sample.all", true, {1, 1, 0, 0, 7, 1}},
                             rule_case{"sample.top_p", true, {1, 0.95f, 0, 0, 7, 1}},
                             rule_case{"sample.top_k", true, {1, 1, 50, 0, 7, 1}},
                             rule_case{"sample.all.untrained", false, {1, 1, 0, 0, 7, 1}},
                             rule_case{"sample.top_p.untrained", false, {1, 0.95f, 0, 0, 7, 1}}}) {
    auto logits = std::make_shared<std::vector<float>>(
        s.trained ? trained_logits(world)
                  : std::vector<float>(world.inputs.begin(), world.inputs.begin() + vocabulary));
    const auto choose = [logits, rule = s.rule](const kernels::op_table& table, stream& queue) {
      int32_t token = 0;
      table.sample(queue, {&token, logits->data(), &rule, 1, vocabulary, vocabulary});
    };
    kernel_case c;
    c.name = s.name;
    c.bytes = 4.0 * vocabulary;
    c.run = [&world, choose](stream& queue, size_t) { choose(world.ops, queue); };
    c.naive = [&world, choose] {
      stream alone;
      choose(world.reference, alone);
    };
    out.push_back(std::move(c));
  }
}

void add_log_probabilities(kernel_world& world, std::vector<kernel_case>& out) {
  const auto logits = std::make_shared<std::vector<float>>(trained_logits(world));
  for (const uint32_t keep : {0u, kernels::most_alternatives}) {
    const auto ask = [logits, keep](const kernels::op_table& table, stream& queue) {
      float chosen = 0, likely[kernels::most_alternatives];
      int32_t best[kernels::most_alternatives];
      const int32_t token = 1;
      table.logprob(
          queue, {&chosen, best, likely, logits->data(), &token, 1, keep, vocabulary, vocabulary});
    };
    kernel_case c;
    c.name = "logprob.best" + std::to_string(keep);
    c.bytes = 4.0 * vocabulary;
    c.run = [&world, ask](stream& queue, size_t) { ask(world.ops, queue); };
    c.naive = [&world, ask] {
      stream alone;
      ask(world.reference, alone);
    };
    out.push_back(std::move(c));
  }
}

}  // namespace

void add_sparse_cases(kernel_world& world, std::vector<kernel_case>& out) {
  add_attention(world, out);
  add_index(world, out);
  add_selection(world, out);
  add_sampling(world, out);
  add_log_probabilities(world, out);
}

}  // namespace deepinfer::bench
