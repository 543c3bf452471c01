#include "runtime/policy/placement.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace deepinfer::policy {
namespace {

__extension__ using wide = unsigned __int128;

/// A bijection whose output bits depend on all input bits (the finalizer of SplitMix64).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t lot_of(const storage::block_key& group, const store_site& site) {
  return mixed(mixed(mixed(mixed(group.hi) ^ group.lo) ^ site.id_hi) ^ site.id_lo);
}

constexpr int fraction_bits = 32;

/// -log2(lot / 2^64) with 32 bits behind the point, at least one unit. Bit by bit: squaring a
/// mantissa in [1, 2) doubles its logarithm, whose next bit is whether the square reached 2.
uint64_t distance_of(uint64_t lot) {
  lot |= 1;
  const int shift = std::countl_zero(lot);
  uint64_t mantissa = lot << shift;  // [2^63, 2^64) stands for [1, 2)
  uint64_t log2 = static_cast<uint64_t>(63 - shift);
  for (int bit = 0; bit < fraction_bits; ++bit) {
    const wide square = static_cast<wide>(mantissa) * mantissa;
    const bool reached = (square >> 127) != 0;
    mantissa = static_cast<uint64_t>(square >> (reached ? 64 : 63));
    log2 = log2 << 1 | (reached ? 1 : 0);
  }
  return std::max<uint64_t>((uint64_t{64} << fraction_bits) - log2, 1);
}

struct bid {
  uint64_t distance;
  uint32_t index;
};

}  // namespace

std::vector<uint32_t> owners(const storage::block_key& group,
                             std::span<const store_site> sites,
                             uint32_t replicas) {
  std::vector<bid> bids;
  bids.reserve(sites.size());
  for (uint32_t i = 0; i < sites.size(); ++i)
    bids.push_back({distance_of(lot_of(group, sites[i])), i});
  // The lot is uniform, so distance / weight is exponential with the weight as rate, and the
  // smallest of several such is each one's with a chance in proportion to its weight.
  const auto better = [&sites](const bid& a, const bid& b) {
    const store_site& one = sites[a.index];
    const store_site& other = sites[b.index];
    const wide left = static_cast<wide>(a.distance) * other.weight;
    const wide right = static_cast<wide>(b.distance) * one.weight;
    if (one.weight != 0 && other.weight != 0 && left != right) return left < right;
    const bool last = one.weight == 0;
    const bool other_last = other.weight == 0;
    return std::tie(last, a.distance, one.id_hi, one.id_lo) <
           std::tie(other_last, b.distance, other.id_hi, other.id_lo);
  };
  const size_t count = std::min<size_t>(replicas, bids.size());
  std::partial_sort(bids.begin(), bids.begin() + static_cast<ptrdiff_t>(count), bids.end(), better);
  std::vector<uint32_t> best;
  best.reserve(count);
  for (size_t i = 0; i < count; ++i) best.push_back(bids[i].index);
  return best;
}

uint64_t placement_digest(std::span<const store_site> sites, uint32_t replicas) {
  std::vector<store_site> sorted(sites.begin(), sites.end());
  std::sort(sorted.begin(), sorted.end(), [](const store_site& a, const store_site& b) {
    return std::tie(a.id_hi, a.id_lo, a.weight) < std::tie(b.id_hi, b.id_lo, b.weight);
  });
  uint64_t digest = mixed(replicas);
  for (const store_site& site : sorted)
    for (const uint64_t part : {site.id_hi, site.id_lo, site.weight}) digest = mixed(digest ^ part);
  return std::max<uint64_t>(digest, 1);
}

}  // namespace deepinfer::policy
