#include "storage/block/chain_hasher.hpp"

#include "storage/block/sha256.hpp"
#include "tests/support/rng.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <set>
#include <sstream>

namespace deepinfer::storage {
namespace {

std::vector<std::string> fields(const std::string& line, char separator) {
  std::vector<std::string> out;
  std::istringstream in{line};
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

struct vector_case {
  chain_domain domain;
  std::vector<int32_t> tokens;
  std::vector<media_mark> media;
  std::vector<block_key> keys;
};

std::vector<vector_case> golden_cases() {
  std::vector<vector_case> cases;
  for (const auto& line : test::read_source_lines("tests/golden/storage/block_keys.txt")) {
    const auto f = fields(line, '\t');
    REQUIRE(f.size() == 10);
    vector_case c;
    c.domain.block_tokens = static_cast<uint32_t>(std::stoul(f[0]));
    const uint64_t seed = std::stoull(f[2]);
    for (uint64_t i = 0; i < std::stoull(f[1]); ++i)
      c.tokens.push_back(static_cast<int32_t>((seed * 2654435761u + i * 40503u) % 129280u));
    c.domain.model = f[3];
    c.domain.weights = f[4];
    c.domain.layout = std::stoull(f[5]);
    c.domain.scope = {static_cast<scope_kind>(std::stoi(f[6])), f[7] == "-" ? "" : f[7]};
    if (f[8] != "-")
      for (const auto& mark : fields(f[8], ',')) {
        const auto parts = fields(mark, ':');
        media_mark m;
        m.position = static_cast<uint32_t>(std::stoul(parts[0]));
        m.digest.fill(static_cast<std::byte>(std::stoul(parts[1], nullptr, 16)));
        c.media.push_back(m);
      }
    if (f[9] != "-")
      for (const auto& key : fields(f[9], ',')) c.keys.push_back(*parse_block_key(key));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<block_key> keys_at_once(const vector_case& c) {
  std::vector<block_key> keys;
  chain_hasher hasher{root_key(c.domain), c.domain.block_tokens};
  REQUIRE(hasher.append(c.tokens, c.media, keys));
  return keys;
}

TEST_SUITE_BEGIN("storage/block");

TEST_CASE("keys are those of the independent implementation") {
  const auto cases = golden_cases();
  REQUIRE(cases.size() >= 14);
  for (const auto& c : cases) CHECK(keys_at_once(c) == c.keys);
}

TEST_CASE("every part of the domain, every token and every mark changes the keys") {
  std::set<block_key> first;
  size_t chains = 0;
  for (const auto& c : golden_cases()) {
    if (c.keys.empty() || c.tokens.size() == 128 || c.tokens.size() == 650) continue;
    first.insert(c.keys.back());
    ++chains;
  }
  CHECK(first.size() == chains);
}

TEST_CASE("keys do not depend on how the tokens come") {
  for (const auto& c : golden_cases())
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      chain_hasher hasher{root_key(c.domain), c.domain.block_tokens};
      std::vector<block_key> keys;
      for (size_t at = 0; at < c.tokens.size();) {
        const size_t count = std::min<size_t>(1 + random.below(300), c.tokens.size() - at);
        std::vector<media_mark> media;
        for (const auto& m : c.media)
          if (m.position >= at && m.position < at + count) media.push_back(m);
        REQUIRE(hasher.append(std::span{c.tokens}.subspan(at, count), media, keys));
        at += count;
      }
      CHECK(keys == c.keys);
      CHECK(hasher.blocks() == c.keys.size());
    }
}

TEST_CASE("a block's key is what key_of says of its content") {
  for (const auto& c : golden_cases()) {
    block_key parent = root_key(c.domain);
    for (size_t i = 0; i < c.keys.size(); ++i) {
      const auto part =
          std::span{c.tokens}.subspan(i * c.domain.block_tokens, c.domain.block_tokens);
      parent = key_of(parent, content_of(part, i, c.media));
      CHECK(parent == c.keys[i]);
    }
  }
}

TEST_CASE("marks out of order, outside the tokens or too many are refused and nothing is taken") {
  const std::vector<int32_t> tokens(256, 5);
  chain_hasher hasher{block_key{1, 2}, 128};
  std::vector<block_key> keys;
  const std::vector<media_mark> unordered{{9, {}}, {8, {}}}, outside{{256, {}}};
  CHECK(hasher.append(tokens, unordered, keys).error().code == error_code::invalid_argument);
  CHECK(hasher.append(tokens, outside, keys).error().code == error_code::invalid_argument);
  std::vector<media_mark> many(max_marks_in_block + 1);
  for (size_t i = 0; i < many.size(); ++i) many[i].position = static_cast<uint32_t>(i);
  CHECK(hasher.append(tokens, many, keys).error().code == error_code::too_large);
  CHECK(keys.empty());
  CHECK(hasher.blocks() == 0);
  many.pop_back();
  REQUIRE(hasher.append(tokens, many, keys));
  CHECK(keys.size() == 2);
}

TEST_CASE("the lanes give what OpenSSL gives") {
  if (!sha256::lanes_usable()) {
    MESSAGE("no SHA extensions on this machine: OpenSSL is the only way");
    return;
  }
  test::rng random{3};
  for (size_t pieces = 1; pieces < 20; ++pieces) {
    std::vector<std::byte> bytes(2 * pieces * 64);
    for (auto& b : bytes) b = static_cast<std::byte>(random.next());
    // a message of whole pieces, its padding as one more piece
    std::vector<std::byte> padding(64);
    padding[0] = std::byte{0x80};
    for (size_t i = 0; i < 8; ++i)
      padding[63 - i] = static_cast<std::byte>(uint64_t{pieces * 512} >> (8 * i));
    sha256::state a, b;
    sha256::run_two(a, bytes.data(), b, bytes.data() + pieces * 64, pieces);
    sha256::run(a, padding.data(), 1);
    sha256::run(b, padding.data(), 1);
    const auto words_of = [](const sha256::digest& d) {
      sha256::state s;
      for (size_t i = 0; i < 8; ++i) {
        s.words[i] = 0;
        for (size_t k = 0; k < 4; ++k)
          s.words[i] = s.words[i] << 8 | static_cast<uint32_t>(d[4 * i + k]);
      }
      return s.words;
    };
    CHECK(a.words == words_of(sha256::hash(std::span{bytes}.first(pieces * 64))));
    CHECK(b.words == words_of(sha256::hash(std::span{bytes}.subspan(pieces * 64))));
  }
}

/// Keys of a sequence whose first blocks are everybody's.
std::vector<block_key> keys_behind(const std::vector<int32_t>& tokens,
                                   const std::string& tenant,
                                   size_t shared_blocks) {
  chain_domain domain{"m", "", 3, 128, public_scope()};
  chain_hasher hasher{root_key(domain), 128};
  std::vector<block_key> keys;
  REQUIRE(hasher.append(std::span{tokens}.first(shared_blocks * 128), {}, keys));
  domain.scope = {scope_kind::tenant, tenant};
  hasher.continue_in(root_key(domain));
  REQUIRE(hasher.append(std::span{tokens}.subspan(shared_blocks * 128), {}, keys));
  return keys;
}

TEST_CASE("behind everybody's blocks each scope has keys that no other chain has") {
  std::vector<int32_t> tokens(6 * 128);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 11);
  const auto one = keys_behind(tokens, "a", 2), other = keys_behind(tokens, "b", 2);
  REQUIRE(one.size() == 6);
  std::set<block_key> all{one.begin(), one.end()};
  for (size_t i = 0; i < 2; ++i) CHECK(one[i] == other[i]);
  for (size_t i = 2; i < 6; ++i) CHECK(all.insert(other[i]).second);
  // of the same tenant, with another number of shared blocks, or with none
  for (size_t shared : {1, 3}) {
    const auto moved = keys_behind(tokens, "a", shared);
    for (size_t i = shared; i < 6; ++i) CHECK(all.insert(moved[i]).second);
  }
  std::vector<block_key> alone;
  chain_hasher hasher{root_key({"m", "", 3, 128, {scope_kind::tenant, "a"}}), 128};
  REQUIRE(hasher.append(tokens, {}, alone));
  for (const block_key& key : alone) CHECK(all.insert(key).second);
  // behind other shared blocks, of which only the first token differs
  tokens[0] += 1;
  for (const block_key& key : keys_behind(tokens, "a", 2)) CHECK(all.insert(key).second);
}

TEST_CASE("the root behind is what its definition says") {
  const block_key own{1, 2}, last{3, 4};
  std::vector<std::byte> message;
  for (const uint64_t word : {1, 2, 3, 4})
    for (int i = 7; i >= 0; --i) message.push_back(static_cast<std::byte>(word >> (8 * i)));
  message.push_back(std::byte{2});
  const block_key root = root_behind(own, last);
  CHECK(root == key_from_bytes(sha256::hash(message).data()));
  chain_hasher hasher{last, 128};
  hasher.continue_in(own);
  CHECK(hasher.last() == root);
  CHECK(hasher.blocks() == 0);
  std::vector<block_key> keys;
  const std::vector<int32_t> tokens(128, 9);
  REQUIRE(hasher.append(tokens, {}, keys));
  CHECK(keys.at(0) == key_of(root, content_of(tokens, 0, {})));
}

TEST_CASE("keys print and read back; other texts do not read") {
  const block_key key{0x0123456789abcdefu, 0xfedcba9876543210u};
  CHECK(to_string(key) == "0123456789abcdeffedcba9876543210");
  CHECK(*parse_block_key(to_string(key)) == key);
  CHECK(key_from_bytes(to_bytes(key).data()) == key);
  for (const char* wrong :
       {"", "0123", "0123456789ABCDEFfedcba9876543210", "0123456789abcdeffedcba98765432100"})
    CHECK_FALSE(parse_block_key(wrong));
}

TEST_CASE("scopes of other kinds or ids have other ids") {
  const std::set<scope_id> ids{id_of({scope_kind::tenant, "a"}), id_of({scope_kind::tenant, "b"}),
                               id_of({scope_kind::organization, "a"}),
                               id_of({scope_kind::everybody, "a"}),
                               id_of({scope_kind::everybody, ""})};
  CHECK(ids.size() == 5);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
