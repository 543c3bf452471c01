#pragma once

#include "kernels/api/attention.hpp"
#include "kernels/api/compress.hpp"
#include "kernels/api/embed.hpp"
#include "kernels/api/engram.hpp"
#include "kernels/api/hyper.hpp"
#include "kernels/api/index.hpp"
#include "kernels/api/linear.hpp"
#include "kernels/api/logprob.hpp"
#include "kernels/api/moe.hpp"
#include "kernels/api/norm.hpp"
#include "kernels/api/quant.hpp"
#include "kernels/api/rope.hpp"
#include "kernels/api/sample.hpp"
#include "kernels/api/stream.hpp"
#include "kernels/api/vision.hpp"
#include "kernels/api/weight.hpp"

namespace deepinfer::kernels {

template <class Args>
using op = void (*)(stream&, const Args&);

/// One function per op, chosen once at start. Ops are asynchronous on their stream, allocate
/// nothing, and cannot fail on arguments that keep their contract. All pointers point to memory of
/// the backend's device and stay valid until the next `sync`.
struct op_table {
  const char* name = nullptr;
  stream_status (*sync)(stream&) = nullptr;

  op<linear_batch_args> linear = nullptr;
  op<rms_norm_args> rms_norm = nullptr;
  op<rope_table_args> rope_table = nullptr;
  op<rope_args> rope = nullptr;
  op<hc_mix_args> hc_mix = nullptr;
  op<hc_collapse_args> hc_collapse = nullptr;
  op<hc_expand_args> hc_expand = nullptr;
  op<route_args> route = nullptr;
  op<gather_rows_args> gather_rows = nullptr;
  op<swiglu_args> swiglu = nullptr;
  op<combine_args> combine = nullptr;
  op<pool_groups_args> pool_groups = nullptr;
  op<index_score_batch_args> index_score = nullptr;
  op<select_blocks_args> select_blocks = nullptr;
  op<select_top_args> select_top = nullptr;
  op<attention_batch_args> attention = nullptr;
  op<engram_rows_args> engram_rows = nullptr;
  op<engram_gate_args> engram_gate = nullptr;
  op<embed_args> embed = nullptr;
  op<fake_quant_args> fake_quant = nullptr;
  op<pack_rows_args> pack_rows = nullptr;
  op<unpack_rows_args> unpack_rows = nullptr;
  op<dequant_args> dequant = nullptr;
  op<sample_args> sample = nullptr;
  op<logprob_args> logprob = nullptr;
  op<grid_rope_args> grid_rope = nullptr;
  op<full_attention_args> full_attention = nullptr;
  op<add_args> add = nullptr;
  op<gelu_args> gelu = nullptr;
  op<merge_cells_args> merge_cells = nullptr;
};

/// Fills every slot with the reference in double: slow, written to be believed.
void register_ref(op_table& table);

/// Fills every slot with the fp32 host version for the best instruction set of this machine
/// (`cpu_device.hpp` has one for each).
void register_cpu(op_table& table);

}  // namespace deepinfer::kernels
