#include "runtime/model/engram_hash.hpp"

#include "runtime/model/json_fields.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>

namespace deepinfer::model {
namespace {

// Keeps the prime search of a hostile configuration short.
constexpr size_t most_columns = 4096;

bool is_prime(uint64_t n) {
  if (n < 4) return n >= 2;
  if (n % 2 == 0) return false;
  for (uint64_t d = 3; d * d <= n; d += 2)
    if (n % d == 0) return false;
  return true;
}

failure refused(std::string what) {
  return failure{error_code::invalid_argument, "engram_meta.json: " + std::move(what)};
}

result<std::vector<int64_t>> read_map(const json_fields& fields,
                                      const engram_config& config,
                                      uint32_t vocabulary,
                                      const json_fields::trouble& trouble) {
  const auto map =
      fields.wholes("token_map", {0, config.compressed_vocabulary - 1}, size_t{1} << 24);
  if (trouble) return *trouble;
  if (map.size() < vocabulary)
    return refused("token_map has " + std::to_string(map.size()) +
                   " entries and must have one for each of the " + std::to_string(vocabulary) +
                   " tokens");
  return std::vector<int64_t>(map.begin(), map.end());
}

result<std::vector<std::vector<int64_t>>> read_multipliers(const json_fields& fields,
                                                           const engram_config& config) {
  const auto found = fields.find("multipliers");
  simdjson::dom::array layers;
  if (!found || found->get(layers) != simdjson::SUCCESS || layers.size() != config.layers.size())
    return refused("multipliers must hold one array for each Engram layer");
  // id * multiplier must stay below 2^63: the hash is defined without overflow.
  const int64_t bound = std::numeric_limits<int64_t>::max() / config.compressed_vocabulary;
  std::vector<std::vector<int64_t>> out;
  for (const simdjson::dom::element layer : layers) {
    simdjson::dom::array numbers;
    if (layer.get(numbers) != simdjson::SUCCESS || numbers.size() != config.longest_ngram)
      return refused("multipliers must hold engram_max_ngram_size numbers for each layer");
    out.emplace_back();
    for (const simdjson::dom::element number : numbers) {
      int64_t value = 0;
      if (number.get(value) != simdjson::SUCCESS || value < 1 || value > bound)
        return refused("a multiplier must lie in 1.." + std::to_string(bound));
      out.back().push_back(value);
    }
  }
  return out;
}

}  // namespace

std::vector<std::vector<uint64_t>> engram_primes(const engram_config& config) {
  std::set<uint64_t> used;
  std::vector<std::vector<uint64_t>> out;
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    out.emplace_back();
    for (uint32_t ngram = 2; ngram <= config.longest_ngram; ++ngram) {
      uint64_t candidate = config.prime_start;
      for (uint32_t head = 0; head < config.heads; ++candidate) {
        if (used.contains(candidate) || !is_prime(candidate)) continue;
        used.insert(candidate);
        out.back().push_back(candidate);
        ++head;
      }
    }
  }
  return out;
}

result<engram_hash> engram_hash::make(const engram_config& config,
                                      uint32_t vocabulary,
                                      std::string_view side_file) {
  if (config.layers.size() * config.columns() > most_columns)
    return failure{error_code::too_large,
                   "Engram has more than " + std::to_string(most_columns) + " hash columns"};
  json_document document;
  if (auto parsed = document.parse(side_file, "engram_meta.json"); !parsed) return parsed.error();
  json_fields::trouble trouble;
  const json_fields fields(document.root, "engram_meta.json", trouble);
  if (trouble) return *trouble;
  if (fields.whole_or("compressed_vocab_size", {1, 1u << 24}, config.compressed_vocabulary) !=
      config.compressed_vocabulary)
    return refused("compressed_vocab_size differs from engram_compressed_vocab_size");

  engram_hash out;
  out.longest_ngram_ = config.longest_ngram;
  out.heads_ = config.heads;
  auto map = read_map(fields, config, vocabulary, trouble);
  if (!map) return map.error();
  out.token_map_ = *std::move(map);
  auto multipliers = read_multipliers(fields, config);
  if (!multipliers) return multipliers.error();
  out.multipliers_ = *std::move(multipliers);
  out.pad_ = out.token_map_[config.pad_token];
  out.primes_ = engram_primes(config);
  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    auto& offsets = out.offsets_.emplace_back();
    int64_t sum = 0;
    for (const uint64_t prime : out.primes_[layer]) {
      offsets.push_back(sum);
      sum += static_cast<int64_t>(prime);
    }
    if (static_cast<uint64_t>(sum) != config.table_rows[layer])
      return failure{error_code::invalid_argument,
                     "config.json.text_config.engram_num_embeddings must be " +
                         std::to_string(sum) + " for Engram layer " + std::to_string(layer)};
  }
  return out;
}

void engram_hash::rows(uint32_t layer_number,
                       std::span<const int64_t> recent,
                       std::span<int64_t> out) const {
  const auto& multiplier = multipliers_[layer_number];
  const auto& prime = primes_[layer_number];
  const auto& offset = offsets_[layer_number];
  bool blocked = recent[0] == no_token;
  int64_t roll = (blocked ? pad_ : recent[0]) * multiplier[0];
  size_t column = 0;
  for (uint32_t i = 1; i < longest_ngram_; ++i) {
    blocked = blocked || recent[i] == no_token;
    roll ^= (blocked ? pad_ : recent[i]) * multiplier[i];
    for (uint32_t head = 0; head < heads_; ++head, ++column)
      out[column] = roll % static_cast<int64_t>(prime[column]) + offset[column];
  }
}

}  // namespace deepinfer::model
