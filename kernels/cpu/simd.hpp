#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// Every source with arithmetic is compiled once per instruction set, in a namespace of its own
/// (`namespace deepinfer::kernels::cpu::DEEPINFER_ISA`), its code between DEEPINFER_SIMD_BEGIN and
/// DEEPINFER_SIMD_END. The instruction set is switched on by pragma between the two, not by a
/// compiler flag: what the standard headers define above stays runnable on every machine, and the
/// linker may keep any copy of it.
#define DEEPINFER_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define DEEPINFER_TARGET_BEGIN(names) \
  DEEPINFER_PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define DEEPINFER_TARGET_END DEEPINFER_PRAGMA(clang attribute pop)
#else
#define DEEPINFER_TARGET_BEGIN(names) \
  DEEPINFER_PRAGMA(GCC push_options) DEEPINFER_PRAGMA(GCC target names)
#define DEEPINFER_TARGET_END DEEPINFER_PRAGMA(GCC pop_options)
#endif

#if defined(DEEPINFER_FOR_AVX512)
#define DEEPINFER_ISA isa_avx512
#if defined(__clang__)
#define DEEPINFER_SIMD_BEGIN \
  DEEPINFER_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma,f16c")
#else
#define DEEPINFER_SIMD_BEGIN                                                 \
  DEEPINFER_TARGET_BEGIN(                                                    \
      ("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,fma,f16c,prefer-" \
       "vector-width=512"))
#endif
#define DEEPINFER_SIMD_END DEEPINFER_TARGET_END
#elif defined(DEEPINFER_FOR_AVX2)
#define DEEPINFER_ISA isa_avx2
#if defined(__clang__)
#define DEEPINFER_SIMD_BEGIN DEEPINFER_TARGET_BEGIN("avx2,fma,f16c")
#else
#define DEEPINFER_SIMD_BEGIN DEEPINFER_TARGET_BEGIN(("avx2,fma,f16c"))
#endif
#define DEEPINFER_SIMD_END DEEPINFER_TARGET_END
#else
#define DEEPINFER_ISA isa_portable
#define DEEPINFER_SIMD_BEGIN
#define DEEPINFER_SIMD_END
#endif

#define DEEPINFER_INLINE inline __attribute__((always_inline))

#if defined(DEEPINFER_FOR_AVX512)
#include "kernels/cpu/vec16_avx512.hpp"
#elif defined(DEEPINFER_FOR_AVX2)
#include "kernels/cpu/vec16_avx2.hpp"
#else
#include "kernels/cpu/vec16_portable.hpp"
#endif
