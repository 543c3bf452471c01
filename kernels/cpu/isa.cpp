#include "kernels/api/cpu_device.hpp"
#include "kernels/api/cpu_probe.hpp"
#include "kernels/cpu/parallel.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace deepinfer::kernels {
namespace cpu {

namespace isa_portable {
void fill(op_table& table);
void fill(cpu_probe& probe);
}  // namespace isa_portable
namespace isa_avx2 {
void fill(op_table& table);
void fill(cpu_probe& probe);
}  // namespace isa_avx2
namespace isa_avx512 {
void fill(op_table& table);
void fill(cpu_probe& probe);
}  // namespace isa_avx512

}  // namespace cpu

#if defined(__x86_64__)

cpu_isa best_cpu_isa() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
  // The builtins also ask whether the system saves the wide registers.
  if (!has_f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return cpu_isa::portable;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi"))
    return cpu_isa::avx512;
  return cpu_isa::avx2;
}

void register_cpu(op_table& table, cpu_isa isa) {
  switch (isa) {
    case cpu_isa::portable:
      return cpu::isa_portable::fill(table);
    case cpu_isa::avx2:
      return cpu::isa_avx2::fill(table);
    case cpu_isa::avx512:
      return cpu::isa_avx512::fill(table);
  }
}

cpu_probe make_cpu_probe(cpu_isa isa) {
  cpu_probe probe;
  switch (isa) {
    case cpu_isa::portable:
      cpu::isa_portable::fill(probe);
      break;
    case cpu_isa::avx2:
      cpu::isa_avx2::fill(probe);
      break;
    case cpu_isa::avx512:
      cpu::isa_avx512::fill(probe);
      break;
  }
  return probe;
}

#else

cpu_isa best_cpu_isa() {
  return cpu_isa::portable;
}

void register_cpu(op_table& table, cpu_isa) {
  cpu::isa_portable::fill(table);
}

cpu_probe make_cpu_probe(cpu_isa) {
  cpu_probe probe;
  cpu::isa_portable::fill(probe);
  return probe;
}

#endif

const char* name_of(cpu_isa isa) {
  switch (isa) {
    case cpu_isa::portable:
      return "cpu-portable";
    case cpu_isa::avx2:
      return "cpu-avx2";
    case cpu_isa::avx512:
      return "cpu-avx512";
  }
  return "cpu";
}

void register_cpu(op_table& table) {
  register_cpu(table, best_cpu_isa());
}

}  // namespace deepinfer::kernels
