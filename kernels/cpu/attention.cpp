#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_decode.hpp"

#include <algorithm>
#include <cstddef>

/// The order of all sums: a score in sixteen lanes over the channels (`vec16.hpp`); a denominator
/// in sixteen lanes over the list of keys, then the sink; an output channel as one chain of fused
/// multiply-adds over the list of keys. No tile below changes it, so how heads, keys and rows are
/// cut is free.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

constexpr size_t round_up(size_t n) {
  return (n + lane_count - 1) / lane_count * lane_count;
}

// ---- scores ---------------------------------------------------------------------------------

/// A matrix of rows `stride` floats apart.
struct strided {
  float* data;
  size_t stride;
  [[nodiscard]] float* row(size_t i) const { return data + i * stride; }
};
struct strided_in {
  const float* data;
  size_t stride;
  [[nodiscard]] const float* row(size_t i) const { return data + i * stride; }
};

// Four heads by four keys.
[[maybe_unused]] DEEPINFER_INLINE void score_tile4x4(strided_in query,
                                                     strided_in key,
                                                     size_t width,
                                                     vec16& out) {
  vec16 total[16];
  for (vec16& t : total) t = all(0.0f);
  for (size_t c = 0; c < width; c += lane_count) {
    vec16 k[4];
    for (size_t j = 0; j < 4; ++j) {
      k[j] = load(key.row(j) + c);
      in_register(k[j]);
    }
    for (size_t h = 0; h < 4; ++h) {
      const vec16 q = load(query.row(h) + c);
      for (size_t j = 0; j < 4; ++j) total[4 * h + j] = fma(q, k[j], total[4 * h + j]);
    }
  }
  out = sums(total);
}

template <size_t Heads, size_t Keys>
DEEPINFER_INLINE void score_tile(
    strided_in query, strided_in key, size_t width, float scale, strided out) {
  if constexpr (many_registers && Heads == 4 && Keys == 4) {
    vec16 tile;
    score_tile4x4(query, key, width, tile);
    float score[16];
    store(score, tile * all(scale));
    for (size_t h = 0; h < 4; ++h) std::memcpy(out.row(h), score + 4 * h, 4 * sizeof(float));
  } else {
    vec16 total[Heads][Keys];
    for (auto& row : total)
      for (vec16& t : row) t = all(0.0f);
    for (size_t c = 0; c < width; c += lane_count) {
      vec16 k[Keys];
      for (size_t j = 0; j < Keys; ++j) k[j] = load(key.row(j) + c);
      for (size_t h = 0; h < Heads; ++h) {
        const vec16 q = load(query.row(h) + c);
        for (size_t j = 0; j < Keys; ++j) total[h][j] = fma(q, k[j], total[h][j]);
      }
    }
    for (size_t h = 0; h < Heads; ++h)
      for (size_t j = 0; j < Keys; ++j) out.row(h)[j] = sum(total[h][j]) * scale;
  }
}

template <size_t Heads>
void score_heads(
    strided_in query, strided_in key, size_t width, size_t keys, float scale, strided out) {
  constexpr size_t step = many_registers ? 4 : 2;
  size_t i = 0;
  for (; i + step <= keys; i += step)
    score_tile<Heads, step>(query, {key.row(i), key.stride}, width, scale,
                            {out.data + i, out.stride});
  for (; i < keys; ++i)
    score_tile<Heads, 1>(query, {key.row(i), key.stride}, width, scale, {out.data + i, out.stride});
}

// out[h][i] = scale * query[h] . key[i]; a few heads at a time, whose queries stay in the cache.
void score_all(strided_in query,
               size_t heads,
               strided_in key,
               size_t keys,
               size_t width,
               float scale,
               strided out) {
  constexpr size_t step = many_registers ? 4 : 2;
  size_t h = 0;
  for (; h + step <= heads; h += step)
    score_heads<step>({query.row(h), query.stride}, key, width, keys, scale,
                      {out.row(h), out.stride});
  for (; h < heads; ++h)
    score_heads<1>({query.row(h), query.stride}, key, width, keys, scale, {out.row(h), out.stride});
}

// ---- softmax --------------------------------------------------------------------------------

// Turns scores into exp(score - m), rounded when they are to weigh, and returns the denominator
// of the unrounded ones. Room for whole vectors is needed behind `keys`.
float soften(float* score, size_t keys, float sink, rounding round) {
  const size_t padded = round_up(keys);
  for (size_t i = keys; i < padded; ++i) score[i] = minus_infinity;
  vec16 most = all(minus_infinity);
  for (size_t i = 0; i < padded; i += lane_count) most = max(load(score + i), most);
  const vec16 shift = all(largest(most));
  vec16 total = all(0.0f);
  for (size_t i = 0; i < padded; i += lane_count) {
    const vec16 e = exp(load(score + i) - shift);
    total = total + e;
    store(score + i, round_to(e, round));
  }
  float sink_lane[lane_count];
  store(sink_lane, exp(all(sink) - shift));
  return sum(total) + sink_lane[0];
}

// ---- weighted sum ---------------------------------------------------------------------------

// out[h][16 v ..] += sum over keys of weight[h][i] * key[i][16 v ..], keys in ascending order.
template <size_t Heads, size_t Vectors>
DEEPINFER_INLINE void value_tile(strided_in weight, strided_in key, size_t keys, strided out) {
  vec16 total[Heads][Vectors];
  for (size_t h = 0; h < Heads; ++h)
    for (size_t v = 0; v < Vectors; ++v) total[h][v] = load(out.row(h) + v * lane_count);
  for (size_t i = 0; i < keys; ++i) {
    vec16 x[Vectors];
    for (size_t v = 0; v < Vectors; ++v) x[v] = load(key.row(i) + v * lane_count);
    for (size_t h = 0; h < Heads; ++h) {
      const vec16 w = all(weight.row(h)[i]);
      for (size_t v = 0; v < Vectors; ++v) total[h][v] = fma(w, x[v], total[h][v]);
    }
  }
  for (size_t h = 0; h < Heads; ++h)
    for (size_t v = 0; v < Vectors; ++v) store(out.row(h) + v * lane_count, total[h][v]);
}

template <size_t Vectors>
void weigh_columns(strided_in weight, size_t heads, strided_in key, size_t keys, strided out) {
  constexpr size_t step = many_registers ? 8 : 4;
  size_t h = 0;
  for (; h + step <= heads; h += step)
    value_tile<step, Vectors>({weight.row(h), weight.stride}, key, keys, {out.row(h), out.stride});
  for (; h < heads; ++h)
    value_tile<1, Vectors>({weight.row(h), weight.stride}, key, keys, {out.row(h), out.stride});
}

// A few columns of all keys at a time, which stay in the first cache while all heads use them.
void weigh_all(
    strided_in weight, size_t heads, strided_in key, size_t keys, size_t width, strided out) {
  constexpr size_t vectors = many_registers ? 2 : 1;
  size_t c = 0;
  for (; c + vectors * lane_count <= width; c += vectors * lane_count)
    weigh_columns<vectors>(weight, heads, {key.data + c, key.stride}, keys,
                           {out.data + c, out.stride});
  for (; c < width; c += lane_count)
    weigh_columns<1>(weight, heads, {key.data + c, key.stride}, keys, {out.data + c, out.stride});
}

// ---- one row --------------------------------------------------------------------------------

/// A few heads of one row, and the scratch memory they are computed in.
struct row_task {
  const attention_args& args;
  size_t row;
  size_t first_head;
  size_t heads;
};

// Keys handled between two looks at the outputs: what the inner loops touch stays in the caches.
constexpr size_t chunk_keys = 64;

constexpr size_t most_heads = 64;  // of one task

// One head's scores, output and query, and a chunk of keys: `divide` relies on it.
static_assert((most_attended_keys + 2 * round_up(most_attended_width) +
               chunk_keys * (round_up(most_attended_width) + lane_count)) *
                  sizeof(float) <=
              scratch_minimum);

struct row_memory {
  size_t heads;   // for this many there is room
  strided score;  // [heads][keys]
  strided out;    // [heads][width]
  strided query;  // [heads][width], padded copies; only when the width is no whole vectors
  strided key;    // [held][width]
  size_t held;    // keys decoded at a time: all, or a chunk, which is then decoded twice
};

// Keys lie a vector further apart than their width, so that a column of them does not fall into
// one set of the cache.
row_memory divide(const worker& self, const attention_args& a, size_t keys, size_t heads) {
  const size_t floats = self.scratch_bytes / sizeof(float);
  const size_t padded = round_up(a.width), key_stride = padded + lane_count;
  const bool copy_query = padded != a.width;
  const size_t per_head = round_up(keys) + padded * (copy_query ? 2 : 1);
  const size_t least = std::min(keys, chunk_keys) * key_stride;
  row_memory m;
  m.heads = std::clamp<size_t>((floats - least) / per_head, 1, std::min(heads, most_heads));
  float* p = reinterpret_cast<float*>(self.scratch);
  const auto take = [&p](size_t rows, size_t stride) {
    const strided taken{p, stride};
    p += rows * stride;
    return taken;
  };
  m.score = take(m.heads, round_up(keys));
  m.out = take(m.heads, padded);
  m.query = take(copy_query ? m.heads : 0, padded);
  m.key = {p, key_stride};
  m.held = (floats - m.heads * per_head) / key_stride >= keys ? keys : chunk_keys;
  return m;
}

// Keys [first, last) of the row's list, with zeros behind each.
void fetch(const row_task& t, size_t first, size_t last, strided out) {
  const attention_args& a = t.args;
  const size_t width = a.width, padded = round_up(width), bytes = width * sizeof(float);
  const size_t window = a.window_count[t.row];
  const size_t row_bytes = packed_row_bytes(a.chosen.format, a.width);
  const float* start = a.window + size_t{a.window_first[t.row]} * width;
  for (size_t i = first; i < last; ++i) {
    float* key = out.row(i - first);
    if (i < window) {
      std::memcpy(key, start + i * width, bytes);
    } else {
      const int32_t at = a.selected[t.row * a.selected_stride + (i - window)];
      decode_row(a.chosen.format, row_of(a.chosen, static_cast<size_t>(at), row_bytes), width, key);
    }
    for (size_t c = width; c < padded; ++c) key[c] = 0;
  }
}

void attend(const row_task& t, size_t keys, const row_memory& m) {
  const attention_args& a = t.args;
  const size_t width = a.width, padded = round_up(width);
  const size_t offset = (t.row * a.heads + t.first_head) * width;
  strided_in query{a.query + offset, width};
  if (padded != width) {
    for (size_t h = 0; h < t.heads; ++h) {
      std::memcpy(m.query.row(h), query.row(h), width * sizeof(float));
      std::fill(m.query.row(h) + width, m.query.row(h) + padded, 0.0f);
    }
    query = {m.query.data, padded};
  }
  for (size_t first = 0; first < keys; first += m.held) {
    const size_t last = std::min(keys, first + m.held);
    fetch(t, first, last, m.key);
    score_all(query, t.heads, {m.key.data, m.key.stride}, last - first, padded, a.scale,
              {m.score.data + first, m.score.stride});
  }
  float total[most_heads];
  std::fill_n(m.out.data, t.heads * padded, 0.0f);
  for (size_t h = 0; h < t.heads; ++h)
    total[h] = soften(m.score.row(h), keys, a.sink[t.first_head + h], a.round);
  for (size_t first = 0; first < keys; first += chunk_keys) {
    const size_t count = std::min(chunk_keys, keys - first);
    if (m.held < keys) fetch(t, first, first + count, m.key);
    const strided_in key{m.key.row(m.held < keys ? 0 : first), m.key.stride};
    weigh_all({m.score.data + first, m.score.stride}, t.heads, key, count, padded, m.out);
  }
  for (size_t h = 0; h < t.heads; ++h) {
    float* out = a.out + offset + h * width;
    const vec16 divisor = all(total[h]);
    for (size_t c = 0; c < width; c += lane_count)
      store_first(out + c, round_to(load(m.out.row(h) + c) / divisor, a.round), width - c);
  }
}

// All heads of the task, as many at a time as the scratch memory takes.
void attend_heads(const worker& self, row_task t) {
  const attention_args& a = t.args;
  const size_t keys =
      size_t{a.window_count[t.row]} + (a.selected_count == nullptr ? 0 : a.selected_count[t.row]);
  if (keys == 0) {
    std::fill_n(a.out + (t.row * a.heads + t.first_head) * a.width, t.heads * a.width, 0.0f);
    return;
  }
  const row_memory memory = divide(self, a, keys, t.heads);
  for (size_t left = t.heads; left > 0; left -= t.heads, t.first_head += t.heads) {
    t.heads = std::min(left, memory.heads);
    attend(t, keys, memory);
  }
}

// ---- a batch --------------------------------------------------------------------------------

// What a hand-over to other threads must be worth, in multiply-adds.
constexpr double worth_a_thread = 3e5;

double cost_of(const attention_args& a) {
  double keys = 0;
  for (size_t r = 0; r < a.rows; ++r)
    keys += a.window_count[r] + (a.selected_count == nullptr ? 0 : a.selected_count[r]);
  return keys * a.heads * a.width * 2;
}

// Heads of one task. A row's keys are decoded once for each task, so rows are divided among
// threads before heads are; a single row still has to keep all threads busy.
size_t heads_together(size_t heads, size_t rows, size_t threads) {
  const size_t parts = rows >= 2 * threads ? 1 : (threads + rows - 1) / rows;
  const size_t group = (heads + parts - 1) / parts;
  return std::min(heads, (group + 3) / 4 * 4);
}

}  // namespace

void attention(stream& queue, const attention_batch_args& batch) {
  size_t rows = 0;
  double cost = 0;
  for (uint32_t i = 0; i < batch.count; ++i) {
    rows += batch.items[i].rows;
    cost += cost_of(batch.items[i]);
  }
  if (rows == 0) return;
  const size_t threads = cost < worth_a_thread ? 1 : thread_count(queue);
  const auto together = [&](const attention_args& a) {
    return heads_together(a.heads, rows, threads);
  };
  const auto tasks_of = [&](const attention_args& a) {
    return a.rows * ((a.heads + together(a) - 1) / together(a));
  };
  size_t tasks = 0;
  for (uint32_t i = 0; i < batch.count; ++i) tasks += tasks_of(batch.items[i]);
  const size_t grain = threads == 1 ? tasks : std::max<size_t>(1, tasks / (threads * 8));
  parallel(queue, tasks, grain, [&](const worker& self, size_t first, size_t last) {
    const attention_args* a = batch.items;
    for (size_t task = first, passed = 0; task < last; ++task) {
      for (; task - passed >= tasks_of(*a); ++a) passed += tasks_of(*a);
      const size_t heads = together(*a), parts = tasks_of(*a) / a->rows;
      const size_t first_head = (task - passed) % parts * heads;
      attend_heads(
          self, {*a, (task - passed) / parts, first_head, std::min(heads, a->heads - first_head)});
    }
  });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
