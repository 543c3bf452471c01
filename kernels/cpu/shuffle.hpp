#pragma once

#include "kernels/cpu/vec16.hpp"

/// Moves between lanes and a few conversions, each with the same result on every instruction set:
///
///   sums(v): lane i = sum(v[i]), by the tree of `sum`
///   maxima(v): lane i = the largest lane of v[i], none of them NaN
///   transpose(v): v[i] lane k <-> v[k] lane i
///   interleave(even, odd, first, second): first = even[0] odd[0] even[1] .., second the rest
///   swap_neighbours(v): lanes 1 0 3 2 5 4 ..
///   pick8(table, index): table[index mod 8], lane by lane; eight entries in lanes 0..7
///   multiply_wide(v, factor, high, low): the halves of the 64-bit products
///   to_whole(v): toward zero, for numbers below 2^31
///   store_bytes(p, v): the low byte of each lane
///   mask_of(bits): the other way of bits_of(mask16)
///   compress(p, v, mask): the chosen lanes, in order; may write 16 words; returns how many count
#if defined(DEEPINFER_FOR_AVX512)
#include "kernels/cpu/shuffle_avx512.hpp"
#elif defined(DEEPINFER_FOR_AVX2)
#include "kernels/cpu/shuffle_avx2.hpp"
#else
#include "kernels/cpu/shuffle_portable.hpp"
#endif
