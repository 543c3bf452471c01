#pragma once

#include "kernels/api/table.hpp"

/// Each op once more, one element at a time and in double. Nothing here is fast.
namespace deepinfer::kernels::ref {

void linear(stream&, const linear_batch_args& batch);
void rms_norm(stream&, const rms_norm_args& a);
void rope_table(stream&, const rope_table_args& a);
void rope(stream&, const rope_args& a);
void hc_mix(stream&, const hc_mix_args& a);
void hc_collapse(stream&, const hc_collapse_args& a);
void hc_expand(stream&, const hc_expand_args& a);
void route(stream&, const route_args& a);
void gather_rows(stream&, const gather_rows_args& a);
void swiglu(stream&, const swiglu_args& a);
void combine(stream&, const combine_args& a);
void pool_groups(stream&, const pool_groups_args& a);
void index_score(stream&, const index_score_batch_args& batch);
void select_blocks(stream&, const select_blocks_args& a);
void select_top(stream&, const select_top_args& a);
void attention(stream&, const attention_batch_args& batch);
void engram_rows(stream&, const engram_rows_args& a);
void engram_gate(stream&, const engram_gate_args& a);
void embed(stream&, const embed_args& a);
void fake_quant(stream&, const fake_quant_args& a);
void pack_rows(stream&, const pack_rows_args& a);
void unpack_rows(stream&, const unpack_rows_args& a);
void dequant(stream&, const dequant_args& a);
void sample(stream&, const sample_args& a);
void logprob(stream&, const logprob_args& a);
void grid_rope(stream&, const grid_rope_args& a);
void full_attention(stream&, const full_attention_args& a);
void add(stream&, const add_args& a);
void gelu(stream&, const gelu_args& a);
void merge_cells(stream&, const merge_cells_args& a);

}  // namespace deepinfer::kernels::ref
