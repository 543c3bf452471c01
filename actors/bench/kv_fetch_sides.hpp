#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <string>

/// The other two processes of `measure_kv_fetch`: one has a store, one fetches from it. Each says
/// in a line where it is, and ends with its standard input.
namespace deepinfer::bench {

inline constexpr uint64_t bench_store_number = 20;  ///< of its well-known actor
inline constexpr uint64_t bench_fetch_number = 21;

/// Prompts whose blocks lie in a store; prompt i is `kv_tokens(i, blocks)`.
struct fetch_sample {
  enum class way : uint8_t { peer, files };
  way by = way::peer;  ///< peer: the store does not say where its files are, as if they were far
  std::string folder;  ///< of the store
  uint32_t prompts = 0;
  uint32_t blocks = 0;  ///< of each
};

/// Words behind `bench kv --peer`.
[[nodiscard]] std::string store_words(const fetch_sample& sample);
[[nodiscard]] std::string fetch_words(const fetch_sample& sample, const std::string& store_line);

/// What the store's process writes: "address node.hi node.lo region". The region holds as many
/// bytes as one prompt, for reads without any store.
struct store_place {
  std::string address;
  uint64_t hi = 0, lo = 0, region = 0;
};
[[nodiscard]] store_place read_store_place(const std::string& line);

/// Runs the side that the words name. The fetching one says "address node.hi node.lo", and then
/// answers each line "raw" with the seconds that reads of one prompt's bytes took, of the same size
/// and as many at a time as it fetches with, and "files N" with those that reading the files of
/// prompt N took.
[[nodiscard]] result<void> serve_fetch_side(const std::string& words);

}  // namespace deepinfer::bench
