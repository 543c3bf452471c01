#pragma once

#include "runtime/model/graph_pass.hpp"
#include "runtime/model/v41_compressor.hpp"
#include "runtime/model/v41_selection.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::model {

/// Who takes part in an attention sublayer. The three differ only in the first layer of the decoder
/// when replay trims the pass there: its entries are made of every row, its queries of the kept.
struct attention_rows {
  const graph_pass& publishing;  ///< rows that make compressed entries
  const graph_pass& keyed;       ///< rows whose window keys are made
  const graph_pass& asking;      ///< rows that attend: the last ones of each sequence in `keyed`
  const float* publishing_in;    ///< [rows][width] inputs of each
  const float* keyed_in;
  const float* asking_in;
};

/// The attention sublayer: sliding window, compressed entries, sink, grouped output projection.
class v41_attention {
public:
  explicit v41_attention(const graph_context& context);

  /// y = attention(asking_in), [asking rows][width]. Writes window keys and, in a KV source, the
  /// entries that the rows complete into their sequences. `beside` is computed in the same
  /// hand-over as the first products.
  void run(uint32_t layer,
           const attention_rows& rows,
           const kernels::linear_args& beside,
           float* y,
           layer_record* record);

  /// Between two layers: only these rows (ascending) of the asking ones stay.
  void keep(std::span<const uint32_t> rows) { selection_.keep(rows); }

  /// The same for a drafter stage: every row of a segment sees `context_keys` (the last window of
  /// committed positions) and all rows of its own segment.
  void run_draft(const layer_weights& w,
                 uint32_t stage,
                 const graph_pass& pass,
                 const float* x,
                 const kernels::linear_args& beside,
                 float* y);

  /// Window keys of `x` with the weights of a stage, into its draft rings.
  void commit_draft(const layer_weights& w,
                    uint32_t stage,
                    const graph_pass& pass,
                    const activation& x);

private:
  /// The keys of one segment: what the ring holds from `oldest` on, then the pass's own rows.
  struct window_span {
    window_ring* ring;
    uint32_t start;
    uint32_t rows;
    uint32_t first_row;
    uint32_t oldest;
    size_t offset;  ///< rows into `window_`
  };

  void products(const layer_weights& w,
                const attention_rows& rows,
                const kernels::linear_args& beside);
  void finish_queries(const layer_weights& w, const graph_pass& pass, uint32_t ratio);
  void finish_keys(const layer_weights& w, const graph_pass& pass, uint32_t ratio);
  void fill_windows(uint32_t layer, const attention_rows& rows);
  void load_windows(size_t total_rows);
  void add_call(const graph_segment& segment, size_t window_offset);
  void attach_chosen(uint32_t layer, const graph_pass& asking);
  void attend(const layer_weights& w, const graph_pass& asking);
  void output(const layer_weights& w, const graph_pass& pass, uint32_t ratio, float* y);
  void record_chosen(const graph_pass& pass, layer_record& record) const;

  graph_ops ops_;
  v41_selection selection_;
  v41_compressor compressor_;
  std::vector<float> query_rank_, query_, key_, heads_out_, low_, window_;
  std::vector<float> quantised_, quantised_keys_, quantised_rank_, quantised_low_;
  std::vector<uint8_t> packed_keys_;
  std::vector<window_span> windows_;
  std::vector<uint32_t> window_first_, window_count_;
  std::vector<kernels::attention_args> calls_;
  std::vector<kernels::linear_args> groups_of_output_;
};

}  // namespace deepinfer::model
