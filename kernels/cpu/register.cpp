#include "kernels/cpu/cpu.hpp"

namespace deepinfer::kernels {
namespace {

stream_status sync_cpu(stream&) {
  return stream_status::ok;
}

}  // namespace

void register_cpu(op_table& table) {
  table.name = "cpu";
  table.sync = sync_cpu;
  table.linear = cpu::linear;
  table.rms_norm = cpu::rms_norm;
  table.rope_table = cpu::rope_table;
  table.rope = cpu::rope;
  table.hc_mix = cpu::hc_mix;
  table.hc_collapse = cpu::hc_collapse;
  table.hc_expand = cpu::hc_expand;
  table.route = cpu::route;
  table.gather_rows = cpu::gather_rows;
  table.swiglu = cpu::swiglu;
  table.combine = cpu::combine;
  table.pool_groups = cpu::pool_groups;
  table.index_score = cpu::index_score;
  table.select_blocks = cpu::select_blocks;
  table.select_top = cpu::select_top;
  table.attention = cpu::attention;
  table.engram_rows = cpu::engram_rows;
  table.engram_gate = cpu::engram_gate;
  table.embed = cpu::embed;
  table.fake_quant = cpu::fake_quant;
  table.pack_rows = cpu::pack_rows;
  table.unpack_rows = cpu::unpack_rows;
  table.dequant = cpu::dequant;
}

}  // namespace deepinfer::kernels
