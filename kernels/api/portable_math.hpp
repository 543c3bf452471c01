#pragma once

#include <cmath>
#include <cstdint>

/// exp and log in double whose bits do not depend on the C library: libm picks other code paths
/// per instruction set, and a token must be the same on every machine. Only +, -, *, / and exact
/// scaling are used; the error is below 4 units in the last place.
namespace deepinfer::kernels {

namespace portable_detail {
// ln 2 in two pieces: the high one ends in zero bits, so n * high is exact for |n| < 2^20.
inline constexpr double ln2_high = 0x1.62e42fee00000p-1;
inline constexpr double ln2_low = 0x1.a39ef35793c76p-33;
inline constexpr double log2_e = 1.4426950408889634;
// 1 / k!, k = 0..13
inline constexpr double inverse_factorial[] = {1.0,
                                               1.0,
                                               1.0 / 2,
                                               1.0 / 6,
                                               1.0 / 24,
                                               1.0 / 120,
                                               1.0 / 720,
                                               1.0 / 5040,
                                               1.0 / 40320,
                                               1.0 / 362880,
                                               1.0 / 3628800,
                                               1.0 / 39916800,
                                               1.0 / 479001600,
                                               1.0 / 6227020800.0};
// pi / 2 in four pieces: the first three have 21 bits, so n times them is exact for |n| < 2^32.
inline constexpr double half_pi[] = {0x1.921fb00000000p+0, 0x1.5110b00000000p-22,
                                     0x1.1846900000000p-44, 0x1.13198a2e03707p-65};
}  // namespace portable_detail

/// e^x for x <= 700; 0 below -700.
[[nodiscard]] inline double portable_exp(double x) {
  using namespace portable_detail;
  if (x < -700) return 0;
  const double n = std::floor(x * log2_e + 0.5);
  const double r = (x - n * ln2_high) - n * ln2_low;  // |r| <= ln2 / 2
  double sum = inverse_factorial[13];                 // Taylor: r^14 / 14! < 5e-18
  for (int k = 12; k >= 0; --k) sum = inverse_factorial[k] + sum * r;
  return std::ldexp(sum, static_cast<int>(n));
}

/// e^x in fp32 within 2 units in the last place; 0 below -87, e^88 above 88; NaN stays NaN. The
/// vectors of `kernels/cpu` do the same steps, so the bits are the same too.
[[nodiscard]] inline float portable_exp_float(float x) {
  if (!(x >= -87.0f)) return x == x ? 0.0f : x;
  const float clamped = x < 88.0f ? x : 88.0f;
  // Adding 1.5 * 2^23 rounds to the nearest integer, which then sits in the low mantissa bits.
  const float shifted = std::fma(clamped, 1.44269504f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  // n * ln 2 in two pieces
  const float r = std::fma(n, 2.12194440e-4f, std::fma(n, -0.693359375f, clamped));
  constexpr float coefficients[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
  float p = 1.0f / 5040;
  for (const float c : coefficients) p = std::fma(p, r, c);
  return std::ldexp(p, static_cast<int>(n));
}

/// Natural logarithm of a normal x > 0.
[[nodiscard]] inline double portable_log(double x) {
  using namespace portable_detail;
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh(s); |s| <= 0.1716, so s^25 / 25 < 3e-21
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 3; k -= 2) sum = (sum + 1.0 / k) * s2;
  const double log_m = 2 * s + 2 * s * sum;
  return exponent * ln2_high + (log_m + exponent * ln2_low);
}

/// log(1 + x) for x >= 0. Below 1 the sum 1 + x loses bits of x; the quotient gives them back
/// (the classic correction by what was really added).
[[nodiscard]] inline double portable_log1p(double x) {
  const double u = 1 + x;
  return u == 1 ? x : portable_log(u) * (x / (u - 1));
}

/// 1 / (1 + e^-x) without overflow.
[[nodiscard]] inline double portable_sigmoid(double x) {
  if (x >= 0) return 1 / (1 + portable_exp(-x));
  const double e = portable_exp(x);
  return e / (1 + e);
}

struct sine_cosine {
  double sine;
  double cosine;
};

/// sin x and cos x of a float 0 <= x < 2^32. A float stays further from the multiples of pi / 2
/// than the pieces above reach, so both are good to 50 bits.
[[nodiscard]] inline sine_cosine portable_sine_cosine(float x) {
  using namespace portable_detail;
  const double n = std::floor(x * (2 / 3.14159265358979323846) + 0.5);
  const double r = ((x - n * half_pi[0]) - n * half_pi[1] - n * half_pi[2]) - n * half_pi[3];
  const double r2 = r * r;  // |r| <= pi / 4: r^18 / 18! < 2e-18
  double sine = 0, cosine = 0;
  for (int k = 17; k >= 3; k -= 2) sine = (sine + 1.0) * (-r2 / ((k - 1) * k));
  for (int k = 18; k >= 2; k -= 2) cosine = (cosine + 1.0) * (-r2 / ((k - 1) * k));
  sine = r + r * sine;
  cosine = 1.0 + cosine;
  switch (static_cast<uint64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

/// The error function; within some 6 units in the last place.
[[nodiscard]] inline double portable_erf(double x) {
  constexpr double root_pi = 1.7724538509055160;
  const double a = std::fabs(x);
  if (!(a < 6)) return a >= 6 ? std::copysign(1.0, x) : x;  // 1 - erf(6) < 3e-17; NaN stays
  const double e = portable_exp(-a * a);
  if (a < 2.5) {
    // sum of a (2 a^2)^k / (1 * 3 * .. * (2k + 1)): all terms positive, the 45th below 1e-17
    double term = 1, sum = 1;
    for (int k = 1; k < 46; ++k) {
      term *= 2 * a * a / (2 * k + 1);
      sum += term;
    }
    return std::copysign(2 / root_pi * a * e * sum, x);
  }
  // 1 - erf as a continued fraction
  double fraction = 1;
  for (int k = 40; k >= 1; --k) fraction = 1 + k / (2 * a * a) / fraction;
  return std::copysign(1 - e / (a * root_pi * fraction), x);
}

}  // namespace deepinfer::kernels
