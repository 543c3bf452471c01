#include "runtime/model/engram_hash.hpp"
#include "runtime/model/random_config.hpp"
#include "runtime/model/v41_config.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

// Without images, so that each field's name occurs once.
std::string mini_config() {
  model_shape shape = shape_of(random_shape::mini);
  shape.vision.reset();
  return config_text(shape);
}

// A configuration with one field's value replaced; "" removes the field.
std::string changed(std::string text, const std::string& field, const std::string& value) {
  const size_t at = text.find("\"" + field + "\":");
  REQUIRE_MESSAGE(at != std::string::npos, field);
  size_t from = text.find(':', at) + 1, to = from, depth = 0;
  for (; depth > 0 || (text[to] != ',' && text[to] != '\n'); ++to)
    if (text[to] == '[' || text[to] == '{')
      ++depth;
    else if (text[to] == ']' || text[to] == '}')
      --depth;
  if (value.empty()) return text.replace(at, to - at, "\"removed\": 0");
  return text.replace(from, to - from, value);
}

std::string with(const std::string& field, const std::string& value) {
  return changed(mini_config(), field, value);
}

struct bad_field {
  const char* field;
  const char* value;
  const char* named;  ///< field the message must name
};

constexpr bad_field bad_fields[] = {
    {"vocab_size", "", "vocab_size"},
    {"vocab_size", "0", "vocab_size"},
    {"hidden_size", "\"64\"", "hidden_size"},
    {"hidden_size", "48", "hidden_size"},
    {"hidden_size", "99999999999", "hidden_size"},
    {"num_hidden_layers", "2000", "num_hidden_layers"},
    {"num_hidden_layers", "14", "compress_ratios"},
    {"num_hidden_layers", "5", "source_layer_ids"},
    {"max_position_embeddings", "-1", "max_position_embeddings"},
    {"rms_norm_eps", "0", "rms_norm_eps"},
    {"hc_mult", "9", "hc_mult"},
    {"hc_sinkhorn_iters", "0", "hc_sinkhorn_iters"},
    {"head_dim", "40", "head_dim"},
    {"head_dim", "1056", "head_dim"},
    {"num_key_value_heads", "2", "num_key_value_heads"},
    {"qk_rope_head_dim", "15", "qk_rope_head_dim"},
    {"qk_rope_head_dim", "64", "qk_rope_head_dim"},
    {"o_groups", "3", "o_groups"},
    {"attention_bias", "true", "attention_bias"},
    {"attention_bias", "3", "attention_bias"},
    {"sliding_window", "0", "sliding_window"},
    {"sliding_window", "32769", "sliding_window"},
    {"rope_theta", "true", "rope_theta"},
    {"rope_type", "\"linear\"", "rope_type"},
    {"original_max_position_embeddings", "0", "original_max_position_embeddings"},
    {"hidden_act", "\"gelu\"", "hidden_act"},
    {"n_shared_experts", "2", "n_shared_experts"},
    {"num_experts_per_tok", "9", "num_experts_per_tok"},
    {"num_experts_per_tok", "65", "num_experts_per_tok"},
    {"scoring_func", "\"tanh\"", "scoring_func"},
    {"compress_ratios", "[0,0,2,2]", "compress_ratios"},
    {"compress_ratios", "[0,0,2,2,2,1,1,1,1,65]", "compress_ratios"},
    {"compress_ratios", "[0,2,2,2,2,1,1,1,1,1]", "kv_source_layer_ids"},
    {"compress_ratios", "[0,0,2,3,2,1,1,1,1,1]", "kv_source_layer_ids"},
    {"compress_ratios", "[0,0,0,0,2,1,1,1,1,1]", "kv_source_layer_ids"},
    {"kv_source_layer_ids", "[4,2,5]", "kv_source_layer_ids"},
    {"kv_source_layer_ids", "[2,4,12]", "kv_source_layer_ids"},
    {"kv_source_layer_ids", "[]", "kv_source_layer_ids"},
    {"index_source_layer_ids", "[2,5,7]", "index_source_layer_ids"},
    {"index_source_layer_ids", "[1,2,4,5,7]", "index_source_layer_ids"},
    {"index_topk", "0", "index_topk"},
    {"index_topk", "32769", "index_topk"},
    {"candidate_topk_blocks", "65537", "candidate_topk_blocks"},
    {"candidate_source_layer_id", "6", "candidate_source_layer_id"},
    {"candidate_source_layer_id", "2", "candidate_source_layer_id"},
    {"candidate_block_size", "0", "candidate_block_size"},
    {"engram_layer_ids", "[4,1]", "engram_layer_ids"},
    {"engram_num_embeddings", "[1]", "engram_num_embeddings"},
    {"engram_max_ngram_size", "1", "engram_max_ngram_size"},
    {"engram_pad_token_id", "160", "engram_pad_token_id"},
    {"eos_token_id", "160", "eos_token_id"},
    {"eos_token_id", "[1,-2]", "eos_token_id"},
};

// What a drafter and images add to a configuration, damaged one field at a time.
constexpr bad_field bad_released_fields[] = {
    {"num_nextn_predict_layers", "17", "num_nextn_predict_layers"},
    {"dspark_block_size", "0", "dspark_block_size"},
    {"dspark_block_size", "", "dspark_block_size"},
    {"dspark_noise_token_id", "129280", "dspark_noise_token_id"},
    {"dspark_target_layer_ids", "[37, 37]", "dspark_target_layer_ids"},
    {"dspark_target_layer_ids", "[]", "dspark_target_layer_ids"},
    {"dspark_target_layer_ids", "[40]", "dspark_target_layer_ids"},
    {"dspark_markov_rank", "0", "dspark_markov_rank"},
    {"dspark_n_routed_experts", "0", "dspark_n_routed_experts"},
    {"dspark_num_experts_per_tok", "0", "dspark_num_experts_per_tok"},
    {"dspark_n_routed_experts", "2", "dspark_num_experts_per_tok"},
    {"image_token_id", "129280", "image_token_id"},
    {"image_token_id", "", "image_token_id"},
};

std::string released_config() {
  return test::read_source("tests/golden/model/released_config.json");
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("the released configuration is accepted, the drafter's ratios ignored") {
    const auto c = parse_v41_config(released_config());
    REQUIRE(c);
    CHECK(c->ratios.size() == 40);
    CHECK(c->kv_source_of(19) == 14);
    CHECK(c->kv_source_of(39) == 20);
    CHECK(c->index_source_of(39) == 36);
    CHECK(c->gate_temperature == 1);
    CHECK(c->norm_epsilon == 1e-20);
    CHECK(c->engram.columns() == 24);
    CHECK(c->stop_tokens == std::vector<int32_t>{1});
  }

  TEST_CASE("Engram primes are those of the release and sum to its table sizes") {
    const auto c = *parse_v41_config(released_config());
    const auto primes = engram_primes(c.engram);
    REQUIRE(primes.size() == 2);
    CHECK(primes[0][0] == 16000057);
    CHECK(primes[0][23] == 16000463);
    CHECK(primes[1][0] == 16000477);
    CHECK(primes[1][23] == 16000889);
    for (size_t i = 0; i < 2; ++i)
      CHECK(std::accumulate(primes[i].begin(), primes[i].end(), uint64_t{0}) ==
            c.engram.table_rows[i]);
  }

  TEST_CASE("a field that is missing or out of range is named") {
    REQUIRE(parse_v41_config(mini_config()));
    for (const bad_field& bad : bad_fields) {
      CAPTURE(bad.field);
      CAPTURE(bad.value);
      const auto c = parse_v41_config(with(bad.field, bad.value));
      REQUIRE_FALSE(c);
      CAPTURE(c.error().detail);
      CHECK(c.error().code == error_code::invalid_argument);
      CHECK(c.error().detail.find(bad.named) != std::string::npos);
    }
  }

  TEST_CASE("a drafter's field and the image token are checked like the others") {
    for (const bad_field& bad : bad_released_fields) {
      CAPTURE(bad.field);
      CAPTURE(bad.value);
      const auto c = parse_v41_config(changed(released_config(), bad.field, bad.value));
      REQUIRE_FALSE(c);
      CAPTURE(c.error().detail);
      CHECK(c.error().code == error_code::invalid_argument);
      CHECK(c.error().detail.find(bad.named) != std::string::npos);
    }
    const auto none = parse_v41_config(changed(released_config(), "num_nextn_predict_layers", "0"));
    REQUIRE(none);
    CHECK(none->drafter.stages == 0);
    CHECK(none->drafter.target_layers.empty());
  }

  TEST_CASE("other models, other block sizes and broken JSON are refused") {
    CHECK(parse_v41_config("{").error().code == error_code::corrupt);
    CHECK(parse_v41_config("[]").error().code == error_code::invalid_argument);
    CHECK(parse_v41_config("{\"model_type\": \"llama\"}").error().code == error_code::unsupported);
    std::string text = released_config();
    text.replace(text.find("[32, 32]"), 8, "[128, 128]");
    CHECK(parse_v41_config(text).error().detail.find("weight_block_size") != std::string::npos);
  }

  TEST_CASE("text fields may stand at the top level and stop tokens may be several") {
    std::string flat = mini_config();
    const size_t open = flat.find("\"text_config\": {");
    flat.erase(open, 16);
    flat.erase(flat.rfind('}'));
    CHECK(parse_v41_config(flat));
    CHECK(parse_v41_config(with("eos_token_id", "[1, 7]"))->stop_tokens ==
          std::vector<int32_t>{1, 7});
    CHECK(parse_v41_config(with("eos_token_id", ""))->stop_tokens.empty());
  }

  TEST_CASE("every prefix of a configuration is refused, not crashed on") {
    const std::string text = mini_config();
    for (size_t length = 0; length < text.size() - 2; length += 7)
      CHECK_FALSE(parse_v41_config(text.substr(0, length)));
  }

  TEST_CASE("an Engram side file that does not fit is refused") {
    const auto c = *parse_v41_config(mini_config());
    const std::string good = test::file_text(test::mini_checkpoint("mini") / "engram_meta.json");
    REQUIRE(engram_hash::make(c.engram, c.vocabulary, good));
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary + 1, good));
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary, "{"));
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary, "{}"));
    const auto changed = [&](const std::string& what, const std::string& to) {
      std::string text = good;
      return text.replace(text.find(what), what.size(), to);
    };
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary, changed("96", "97")));
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary, changed("79100288139735761", "-5")));
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary,
                                  changed("79100288139735761", "9223372036854775807")));
    CHECK_FALSE(engram_hash::make(c.engram, c.vocabulary, changed("79100288139735761,", "")));
    auto rows = c.engram;
    ++rows.table_rows[1];
    CHECK_FALSE(engram_hash::make(rows, c.vocabulary, good));
    auto wide = c.engram;
    wide.heads = 2000;
    CHECK(engram_hash::make(wide, c.vocabulary, good).error().code == error_code::too_large);
  }

  TEST_CASE("a token before the start blocks everything behind it") {
    const auto c = *parse_v41_config(mini_config());
    const auto hash =
        *engram_hash::make(c.engram, c.vocabulary,
                           test::file_text(test::mini_checkpoint("mini") / "engram_meta.json"));
    std::vector<int64_t> a(6), b(6), d(6);
    hash.rows(0, std::vector<int64_t>{5, engram_hash::no_token, 9, 9}, a);
    hash.rows(0, std::vector<int64_t>{5, engram_hash::no_token, 3, engram_hash::no_token}, b);
    hash.rows(0, std::vector<int64_t>{5, 9, 9, 9}, d);
    CHECK(a == b);
    CHECK(a != d);
  }
}
