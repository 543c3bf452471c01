// SHA-256 by the x86 SHA extensions (FIPS 180-4; instructions: Intel SDM volume 2, SHA256RNDS2,
// SHA256MSG1, SHA256MSG2). Two rounds have a latency of four cycles and can start every two, so a
// second, independent message is almost free.
#include "proto/types/check.hpp"
#include "storage/block/sha256.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace deepinfer::storage::sha256 {

#if defined(__x86_64__)

namespace {

alignas(16) constexpr uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

#define DEEPINFER_SHA __attribute__((target("sha,sse4.1,ssse3"), always_inline)) inline

/// The eight words as the instructions want them: (a b e f) and (c d g h), highest first.
struct lane {
  __m128i abef, cdgh;
  __m128i m[4];  // the last sixteen words of the message schedule
};

DEEPINFER_SHA void load_state(lane& to, const state& from) {
  const auto* words = reinterpret_cast<const __m128i*>(from.words.data());
  const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  to.abef = _mm_alignr_epi8(abcd, efgh, 8);
  to.cdgh = _mm_blend_epi16(efgh, abcd, 0xF0);
}

DEEPINFER_SHA void store_state(const lane& from, state& to) {
  auto* words = reinterpret_cast<__m128i*>(to.words.data());
  const __m128i feba = _mm_shuffle_epi32(from.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(from.cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

DEEPINFER_SHA void load_message(lane& to, const std::byte* piece) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (int i = 0; i < 4; ++i)
    to.m[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(piece + 16 * i)),
                               big_endian);
}

/// Rounds 4g to 4g+3, and the next four words of the schedule where they are needed later.
template <int G>
DEEPINFER_SHA void four_rounds(lane& l) {
  const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(round_constants + 4 * G));
  const __m128i wk = _mm_add_epi32(l.m[G % 4], k);
  l.cdgh = _mm_sha256rnds2_epu32(l.cdgh, l.abef, wk);
  l.abef = _mm_sha256rnds2_epu32(l.abef, l.cdgh, _mm_shuffle_epi32(wk, 0x0E));
  if constexpr (G < 12) {
    // w[t] = s1(w[t-2]) + w[t-7] + s0(w[t-15]) + w[t-16], four at a time, into the oldest four
    const __m128i sevens = _mm_alignr_epi8(l.m[(G + 3) % 4], l.m[(G + 2) % 4], 4);
    const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(l.m[G % 4], l.m[(G + 1) % 4]), sevens);
    l.m[G % 4] = _mm_sha256msg2_epu32(sum, l.m[(G + 3) % 4]);
  }
}

template <int G = 0>
DEEPINFER_SHA void rounds_of_two(lane& a, lane& b) {
  if constexpr (G < 16) {
    four_rounds<G>(a);
    four_rounds<G>(b);
    rounds_of_two<G + 1>(a, b);
  }
}

template <int G = 0>
DEEPINFER_SHA void rounds_of_one(lane& a) {
  if constexpr (G < 16) {
    four_rounds<G>(a);
    rounds_of_one<G + 1>(a);
  }
}

DEEPINFER_SHA void add_state(lane& l, const lane& before) {
  l.abef = _mm_add_epi32(l.abef, before.abef);
  l.cdgh = _mm_add_epi32(l.cdgh, before.cdgh);
}

#undef DEEPINFER_SHA

}  // namespace

bool lanes_usable() {
  static const bool usable = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b >> 29 & 1) == 0) return false;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 19 & 1) != 0;  // SSE4.1
  }();
  return usable;
}

__attribute__((target("sha,sse4.1,ssse3"))) void run(state& one,
                                                     const std::byte* bytes,
                                                     size_t pieces) {
  lane l;
  load_state(l, one);
  for (size_t i = 0; i < pieces; ++i) {
    const lane before = l;
    load_message(l, bytes + 64 * i);
    rounds_of_one(l);
    add_state(l, before);
  }
  store_state(l, one);
}

__attribute__((target("sha,sse4.1,ssse3"))) void run_two(
    state& a, const std::byte* a_bytes, state& b, const std::byte* b_bytes, size_t pieces) {
  lane la, lb;
  load_state(la, a);
  load_state(lb, b);
  for (size_t i = 0; i < pieces; ++i) {
    const lane before_a = la, before_b = lb;
    load_message(la, a_bytes + 64 * i);
    load_message(lb, b_bytes + 64 * i);
    rounds_of_two(la, lb);
    add_state(la, before_a);
    add_state(lb, before_b);
  }
  store_state(la, a);
  store_state(lb, b);
}

#else

bool lanes_usable() {
  return false;
}
void run(state&, const std::byte*, size_t) {
  DEEPINFER_CHECK(false);
}
void run_two(state&, const std::byte*, state&, const std::byte*, size_t) {
  DEEPINFER_CHECK(false);
}

#endif

}  // namespace deepinfer::storage::sha256
