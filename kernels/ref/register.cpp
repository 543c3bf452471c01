#include "kernels/ref/ref.hpp"

namespace deepinfer::kernels {
namespace {

stream_status sync_ref(stream&) {
  return stream_status::ok;
}

}  // namespace

void register_ref(op_table& table) {
  table.name = "ref";
  table.sync = sync_ref;
  table.linear = ref::linear;
  table.rms_norm = ref::rms_norm;
  table.rope_table = ref::rope_table;
  table.rope = ref::rope;
  table.hc_mix = ref::hc_mix;
  table.hc_collapse = ref::hc_collapse;
  table.hc_expand = ref::hc_expand;
  table.route = ref::route;
  table.gather_rows = ref::gather_rows;
  table.swiglu = ref::swiglu;
  table.combine = ref::combine;
  table.pool_groups = ref::pool_groups;
  table.index_score = ref::index_score;
  table.select_blocks = ref::select_blocks;
  table.select_top = ref::select_top;
  table.attention = ref::attention;
  table.engram_rows = ref::engram_rows;
  table.engram_gate = ref::engram_gate;
  table.embed = ref::embed;
  table.fake_quant = ref::fake_quant;
  table.pack_rows = ref::pack_rows;
  table.unpack_rows = ref::unpack_rows;
  table.dequant = ref::dequant;
  table.sample = ref::sample;
  table.logprob = ref::logprob;
  table.grid_rope = ref::grid_rope;
  table.full_attention = ref::full_attention;
  table.add = ref::add;
  table.gelu = ref::gelu;
  table.merge_cells = ref::merge_cells;
}

}  // namespace deepinfer::kernels
