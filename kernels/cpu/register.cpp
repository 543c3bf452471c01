#include "kernels/api/cpu_device.hpp"
#include "kernels/cpu/cpu.hpp"

namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

stream_status sync_cpu(stream&) {
  return stream_status::ok;
}

constexpr cpu_isa compiled_for =
#if defined(DEEPINFER_FOR_AVX512)
    cpu_isa::avx512;
#elif defined(DEEPINFER_FOR_AVX2)
    cpu_isa::avx2;
#else
    cpu_isa::portable;
#endif

}  // namespace

void fill(op_table& table) {
  table.name = name_of(compiled_for);
  table.sync = sync_cpu;
  table.linear = linear;
  table.rms_norm = rms_norm;
  table.rope_table = rope_table;
  table.rope = rope;
  table.hc_mix = hc_mix;
  table.hc_collapse = hc_collapse;
  table.hc_expand = hc_expand;
  table.route = route;
  table.gather_rows = gather_rows;
  table.swiglu = swiglu;
  table.combine = combine;
  table.pool_groups = pool_groups;
  table.index_score = index_score;
  table.select_blocks = select_blocks;
  table.select_top = select_top;
  table.attention = attention;
  table.engram_rows = engram_rows;
  table.engram_gate = engram_gate;
  table.embed = embed;
  table.fake_quant = fake_quant;
  table.pack_rows = pack_rows;
  table.unpack_rows = unpack_rows;
  table.dequant = dequant;
  table.sample = sample;
  table.logprob = logprob;
  table.grid_rope = grid_rope;
  table.full_attention = full_attention;
  table.add = add;
  table.gelu = gelu;
  table.merge_cells = merge_cells;
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
