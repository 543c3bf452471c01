#include "runtime/model/portable_math.hpp"

#include <cmath>

namespace deepinfer::model {
namespace {

// ln 2 in two pieces: the high one has trailing zero bits, so n * high is exact for |n| < 2^20.
constexpr double ln2_high = 0x1.62e42fee00000p-1;
constexpr double ln2_low = 0x1.a39ef35793c76p-33;
constexpr double log2_e = 1.4426950408889634;

}  // namespace

double portable_exp(double x) {
  if (x < -700) return 0;
  const double n = std::floor(x * log2_e + 0.5);
  const double r = (x - n * ln2_high) - n * ln2_low;  // |r| <= ln2 / 2
  // Taylor: r^14 / 14! < 5e-18
  double sum = 1;
  for (int k = 13; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, static_cast<int>(n));
}

double portable_log(double x) {
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

}  // namespace deepinfer::model
