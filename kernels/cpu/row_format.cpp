#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/row_decode.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

constexpr size_t groups_together = lane_count;

struct group_scales {
  float value[groups_together];
  uint8_t byte[groups_together];
};

// The scales of up to sixteen groups that lie one behind the other: one group in each lane.
template <row_format Format>
DEEPINFER_INLINE void scales_of(const float* in, size_t groups, group_scales& out) {
  vec16 most[groups_together];
  for (size_t g = 0; g < groups_together; ++g) {
    const float* group = in + std::min(g, groups - 1) * group_width(Format);
    most[g] = max(abs(load(group)), all(0.0f));  // NaN does not count
    if constexpr (group_width(Format) == 32) most[g] = max(abs(load(group + lane_count)), most[g]);
  }
  // keeps the byte of an infinite value below NaN's
  const vec16 amax = min(maxima(most), all(0x1p120f));
  if constexpr (Format == row_format::fp4_16) {
    float ratio[lane_count];
    store(ratio, max(amax, all(6 * 0x1p-9f)) / all(6.0f));
    for (size_t g = 0; g < groups; ++g) {
      out.byte[g] = e4m3_code(ratio[g]);
      out.value[g] = e4m3_values[out.byte[g]];
    }
  } else {
    const vec16 ratio = Format == row_format::fp8_32
                            ? max(amax, all(1e-4f)) * all(1 / 448.0f)
                            : max(amax, all(6 * 0x1p-126f)) * all(1 / 6.0f);
    // ue8m0_above; never 0 or 255, so the byte is the exponent of the value
    const ivec16 bits = bits_of(ratio);
    const ivec16 above = select((bits & all_i(0x7FFFFF)) > all_i(0), all_i(1), all_i(0));
    const ivec16 byte = shift_right<23>(bits) + above;
    store_bytes(out.byte, byte);
    store(out.value, floats_of(shift_left<23>(byte)));
  }
}

// x / scale. A power of two has an exact inverse; an E4M3 scale has none and must divide.
template <row_format Format>
struct divider {
  vec16 by;
  DEEPINFER_INLINE explicit divider(float scale)
      : by(all(Format == row_format::fp4_16 ? scale : 1 / scale)) {}
  DEEPINFER_INLINE vec16 operator()(vec16 x) const {
    return Format == row_format::fp4_16 ? x / by : x * by;
  }
};

/// Adding and taking away 1.5 * 2^23 rounds to an integer, ties to even.
DEEPINFER_INLINE vec16 rounded_even(vec16 x) {
  return (x + all(12582912.0f)) - all(12582912.0f);
}

DEEPINFER_INLINE vec16 with_sign_of(vec16 magnitude, vec16 x) {
  return floats_of(bits_of(magnitude) | (bits_of(x) & all_i(0x80000000u)));
}

// The nearest E4M3 magnitude, as `e4m3_code` chooses it.
DEEPINFER_INLINE vec16 nearest_e4m3(vec16 magnitude) {
  const vec16 small = rounded_even(magnitude * all(512.0f)) * all(0x1p-9f);
  const ivec16 bits = bits_of(magnitude);
  const ivec16 odd = shift_right<20>(bits) & all_i(1);
  const vec16 normal = floats_of((bits + all_i(0x7FFFF) + odd) & all_i(0xFFF00000u));
  const vec16 nearest = select(magnitude < all(0x1p-6f), small, normal);
  return select(magnitude < all(448.0f), nearest, all(448.0f));  // NaN too
}

// The nearest E2M1 magnitude: steps of a half below 2, of 1 below 4, of 2 to 6. NaN becomes 0.
DEEPINFER_INLINE vec16 nearest_e2m1(vec16 magnitude) {
  const vec16 m = min(magnitude, all(6.0f));
  const vec16 fine = rounded_even(m * all(2.0f)) * all(0.5f);
  const vec16 coarse = rounded_even(m * all(0.5f)) * all(2.0f);
  const vec16 nearest = select(m < all(2.0f), fine, select(m < all(4.0f), rounded_even(m), coarse));
  return select(magnitude == magnitude, nearest, all(0.0f));
}

template <row_format Format>
DEEPINFER_INLINE vec16 nearest(vec16 x) {
  return Format == row_format::fp8_32 ? nearest_e4m3(abs(x)) : nearest_e2m1(abs(x));
}

template <row_format Format>
void fake_quant_groups(const float* in, size_t groups, float* out) {
  group_scales scales;
  scales_of<Format>(in, groups, scales);
  for (size_t g = 0; g < groups; ++g) {
    const vec16 scale = all(scales.value[g]);
    const divider<Format> divided(scales.value[g]);
    for (size_t c = g * group_width(Format); c < (g + 1) * group_width(Format); c += lane_count) {
      const vec16 x = load(in + c);
      const vec16 y = with_sign_of(nearest<Format>(divided(x)) * scale, x);
      // A number that is none must not be laundered into one.
      store(out + c, select(abs(x) < all(-minus_infinity), y, x));
    }
  }
}

// ---- codes ------------------------------------------------------------------------------------

DEEPINFER_INLINE ivec16 sign_bit(vec16 x, uint32_t bit) {
  return select(all_i(0) > bits_of(x), all_i(bit), all_i(0));
}

DEEPINFER_INLINE ivec16 e4m3_codes(vec16 x) {
  const vec16 magnitude = nearest_e4m3(abs(x));
  const ivec16 bits = bits_of(magnitude);
  const ivec16 normal = shift_right<20>(bits) - all_i(120u << 3);
  // below 2^-6 the code counts steps of 2^-9; the sum's low bits are that count
  const ivec16 small = bits_of(magnitude * all(512.0f) + all(12582912.0f)) & all_i(0xFF);
  return select(magnitude < all(0x1p-6f), small, normal) | sign_bit(x, 0x80);
}

DEEPINFER_INLINE ivec16 e2m1_codes(vec16 x) {
  const vec16 magnitude = nearest_e2m1(abs(x));
  const ivec16 large = shift_right<22>(bits_of(magnitude)) - all_i(252);
  const ivec16 small = select(magnitude > all(0.0f), all_i(1), all_i(0));
  return select(magnitude < all(1.0f), small, large) | sign_bit(x, 8);
}

// Sixteen codes of four bits in eight bytes, even index low.
DEEPINFER_INLINE void store_nibbles(uint8_t* out, ivec16 codes) {
  uint8_t byte[lane_count];
  store_bytes(byte, codes);
  for (size_t half = 0; half < 2; ++half) {
    uint64_t x;
    std::memcpy(&x, byte + 8 * half, sizeof x);
    x = (x | x >> 4) & 0x00FF00FF00FF00FFu;  // a pair of codes in each second byte
    x = (x | x >> 8) & 0x0000FFFF0000FFFFu;
    const auto four = static_cast<uint32_t>(x | x >> 16);
    std::memcpy(out + 4 * half, &four, sizeof four);
  }
}

// A number that is none must not be laundered into one: its group gets the scale that is none.
template <row_format Format>
DEEPINFER_INLINE bool all_finite(const float* group) {
  const vec16 infinity = all(-minus_infinity), one = all(1.0f), zero = all(0.0f);
  vec16 broken = select(abs(load(group)) < infinity, zero, one);
  if constexpr (group_width(Format) == 32)
    broken = max(broken, select(abs(load(group + lane_count)) < infinity, zero, one));
  return largest(broken) == 0;
}

template <row_format Format>
void pack_row(const float* in, size_t width, uint8_t* out) {
  constexpr size_t group = group_width(Format);
  constexpr bool byte_each = Format == row_format::fp8_32;
  uint8_t* bytes = out + (byte_each ? width : width / 2);
  for (size_t first = 0; first < width / group; first += groups_together) {
    const size_t groups = std::min(groups_together, width / group - first);
    group_scales scales;
    scales_of<Format>(in + first * group, groups, scales);
    std::memcpy(bytes + first, scales.byte, groups);
    for (size_t g = 0; g < groups; ++g) {
      const divider<Format> divided(scales.value[g]);
      if (!all_finite<Format>(in + (first + g) * group)) bytes[first + g] = nan_scale(Format);
      for (size_t c = (first + g) * group; c < (first + g + 1) * group; c += lane_count)
        if constexpr (byte_each)
          store_bytes(out + c, e4m3_codes(divided(load(in + c))));
        else
          store_nibbles(out + c / 2, e2m1_codes(divided(load(in + c))));
    }
  }
}

// Calls work(format) with the format as a constant.
template <class Work>
void with_format(row_format format, const Work& work) {
  switch (format) {
    case row_format::fp8_32:
      return work(std::integral_constant<row_format, row_format::fp8_32>{});
    case row_format::fp4_32:
      return work(std::integral_constant<row_format, row_format::fp4_32>{});
    case row_format::fp4_16:
      return work(std::integral_constant<row_format, row_format::fp4_16>{});
    case row_format::f32:
      break;
  }
}

}  // namespace

void fake_quant(stream& queue, const fake_quant_args& a) {
  with_format(a.format, [&](auto format) {
    constexpr size_t group = group_width(format());
    by_rows(queue, size_t{a.rows} * a.width / group, group * 2,
            [&](const worker&, size_t first, size_t last) {
              for (size_t g = first; g < last; g += groups_together)
                fake_quant_groups<format()>(a.in + g * group, std::min(groups_together, last - g),
                                            a.out + g * group);
            });
  });
}

void pack_rows(stream& queue, const pack_rows_args& a) {
  if (a.format == row_format::f32) {
    std::memcpy(a.out, a.in, size_t{a.rows} * a.width * sizeof *a.in);
    return;
  }
  const size_t row_bytes = packed_row_bytes(a.format, a.width);
  with_format(a.format, [&](auto format) {
    by_rows(queue, a.rows, size_t{a.width} * 2, [&](const worker&, size_t first, size_t last) {
      for (size_t r = first; r < last; ++r)
        pack_row<format()>(a.in + r * a.width, a.width, a.out + r * row_bytes);
    });
  });
}

void unpack_rows(stream& queue, const unpack_rows_args& a) {
  const size_t row_bytes = packed_row_bytes(a.format, a.width);
  by_rows(queue, a.rows, a.width, [&](const worker&, size_t first, size_t last) {
    for (size_t r = first; r < last; ++r)
      decode_row(a.format, a.in + r * row_bytes, a.width, a.out + r * a.width);
  });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
