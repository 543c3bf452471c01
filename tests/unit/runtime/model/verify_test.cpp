#include "runtime/model/checkpoint.hpp"
#include "runtime/model/checkpoint_index.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/random_config.hpp"
#include "runtime/model/tensor_file.hpp"
#include "runtime/model/v41_model.hpp"
#include "runtime/model/verify_checkpoint.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/unit/runtime/model/broken_cases.hpp"
#include "tests/unit/runtime/model/broken_checkpoint.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;
using test::path;

namespace {

// An FP8 scale of mini8.
const std::string scale = "layers.3.attn.wq_b.scale";

result<uint32_t> tokenizer_size(const path& file) {
  const auto tokenizer = text::load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  return (*tokenizer)->vocabulary_size();
}

verify_report verify(const path& folder, verify_options options = {}) {
  options.tokenizer_size = tokenizer_size;
  return verify_checkpoint(folder, options);
}

// A line of the report that has all the fragments.
bool says(const verify_report& report, const std::vector<std::string>& fragments) {
  const std::string text = verify_text(report);
  for (size_t at = 0; at < text.size();) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    if (std::ranges::all_of(fragments, [&line](const std::string& part) {
          return line.find(part) != std::string::npos;
        }))
      return true;
  }
  return false;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("good checkpoints have neither problems nor warnings, and all their totals") {
    for (const path& folder : {test::mini_checkpoint("mini"), test::mini_checkpoint("mini8"),
                               test::mini_checkpoint("mini12"), test::mini_checkpoint("tiny"),
                               path(test::source_path("examples/models/tiny-v41"))}) {
      const verify_report report = verify(folder);
      const std::string text = verify_text(report);
      CAPTURE(text);
      CHECK(report.good());
      CHECK(report.warnings == 0);
      CHECK(report.expected == report.found);
      CHECK(report.unexpected.tensors == 0);
      CHECK(report.scanned_bytes > 1'000'000);
      CHECK(text.find("good: 0 problems") != std::string::npos);
    }
  }

  // Holes take no room on the disk, so a checkpoint of half a terabyte is a few MB of headers.
  TEST_CASE("a checkpoint of the released size is checked by its headers") {
    const test::scratch_folder folder("released");
    const path f = folder.path();
    const std::string config_json = test::read_source("tests/golden/model/released_config.json");
    const auto config = parse_v41_config(config_json);
    const auto table = make_tensor_table(*config, *parse_vision_config(config_json));
    REQUIRE(table);
    test::write_file(f / "config.json", config_json);
    test::write_file(f / "generation_config.json", generation_config_text());
    test::write_file(f / "engram_meta.json",
                     engram_meta_text(config->engram, std::vector<uint64_t>(config->vocabulary)));
    std::vector<tensor_place> places;
    const auto half = std::span(*table).first(table->size() / 2);
    const auto rest = std::span(*table).subspan(half.size());
    for (const auto& [name, part] :
         {std::pair(test::first_shard, half), {test::second_shard, rest}}) {
      REQUIRE(tensor_file::create(f / name, part));
      for (const table_entry& entry : part) places.push_back({entry.name, name});
    }
    test::write_file(f / test::index_json, index_text(places, 510'286'023'000));
    verify_options headers;
    headers.depth = verify_depth::headers;
    const verify_report report = verify(f, headers);
    const std::string text = verify_text(report);
    CAPTURE(text);
    CHECK(report.problems == 1);  // a vocabulary of this size has a tokenizer
    CHECK(says(report, {"tokenizer.json", "missing"}));
    CHECK(says(report, {"all", "96,085", "510,286,023,000  ok"}));
    CHECK(report.warnings == 0);
  }

  TEST_CASE("an index that names too many shards is refused") {
    std::vector<tensor_place> places;
    std::vector<std::string> names;
    for (size_t i = 0; i <= checkpoint_limits::shards; ++i)
      names.push_back("m" + std::to_string(i));
    for (const std::string& name : names) places.push_back({name, name});
    CHECK(parse_checkpoint_index(index_text(std::span(places).subspan(1), 0)));
    const auto refused = parse_checkpoint_index(index_text(places, 0));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == error_code::too_large);
  }

  TEST_CASE("each kind of damage is named, with its file and tensor") {
    for (const test::broken& b : test::broken_checkpoints()) {
      const std::string name = b.name;
      CAPTURE(name);
      const test::scratch_folder folder("broken");
      test::copy_checkpoint(b.shape, folder.path());
      b.damage(folder.path());
      const verify_report report = verify(folder.path());
      const std::string text = verify_text(report);
      CAPTURE(text);
      CHECK_FALSE(report.good());
      CHECK(says(report, b.say));
      CHECK(text.find("not good: ") != std::string::npos);
      if (b.loader == nullptr) continue;
      const auto loaded = v41_model::load(folder.path(), {});
      REQUIRE_FALSE(loaded);
      CAPTURE(loaded.error().detail);
      CHECK(loaded.error().detail.find(b.loader) != std::string::npos);
    }
  }

  TEST_CASE("damage of one kind is one finding, not hundreds") {
    for (const test::broken& b : test::broken_checkpoints()) {
      const std::string name = b.name;
      if (name != "a shard cut in half" && name != "a missing shard" && name != "no tokenizer" &&
          name != "a NaN among FP8 scales" && name != "a header of 4 GiB")
        continue;
      CAPTURE(name);
      const test::scratch_folder folder("one");
      test::copy_checkpoint(b.shape, folder.path());
      b.damage(folder.path());
      CHECK(verify(folder.path()).problems == 1);
    }
  }

  TEST_CASE("what is unusual and harmless is a warning") {
    struct unusual {
      void (*change)(const path&);
      std::vector<std::string> say;
    };
    const std::vector<unusual> cases{
        {[](const path& f) { std::filesystem::remove(f / "generation_config.json"); },
         {"generation_config.json", "missing"}},
        {[](const path& f) {
           test::replace_text(f / "generation_config.json", "\"eos_token_id\": 1",
                              "\"eos_token_id\": [3, 4]");
         },
         {"generation_config.json", "eos_token_id differs", "expected 1, found 3"}},
        {[](const path& f) {
           const std::string text = test::file_text(f / test::first_shard);
           test::write_file(f / test::first_shard, text + "12345");
         },
         {test::first_shard, "5 bytes after the last tensor"}},
        {[](const path& f) {
           test::edit_header(f / test::first_shard, [](std::string& json) {
             json.erase(1, json.find("},") + 1);  // its bytes stay, without an owner
           });
         },
         {test::first_shard, "128 bytes in 1 gap between tensors"}},
        {[](const path& f) {
           test::edit_header(f / test::first_shard, [](std::string& json) {
             json.insert(1, "\"z.more\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},");
           });
         },
         {"z.more", "does not call for", "found U8 [0]"}},
        {[](const path& f) { test::write_file(f / "model-3.safetensors", "old"); },
         {"model-3.safetensors", "index does not name"}},
        {[](const path& f) {
           test::replace_text(f / "engram_meta.json", "79100288139735761", "79100288139735763");
         },
         {"engram_meta.json", "multipliers are not those"}},
        {[](const path& f) {
           test::replace_text(f / "engram_meta.json", "\"token_map\": [", "\"token_map\": [1, ");
         },
         {"engram_meta.json", "token_map is longer", "found 161 entries"}},
    };
    for (const unusual& u : cases) {
      const test::scratch_folder folder("unusual");
      test::copy_checkpoint("mini8", folder.path());
      u.change(folder.path());
      const verify_report report = verify(folder.path());
      const std::string text = verify_text(report);
      CAPTURE(text);
      CHECK(report.warnings >= 1);
      CHECK(says(report, u.say));
    }
  }

  TEST_CASE("findings are bounded, their counts are not") {
    const test::scratch_folder folder("bounded");
    test::copy_checkpoint("mini8", folder.path());
    test::replace_text(folder.path() / "config.json", "\"hidden_size\": 64", "\"hidden_size\": 96");
    verify_options few;
    few.most_findings = 3;
    const verify_report report = verify(folder.path(), few);
    CHECK(report.findings.size() == 3);
    CHECK(report.problems > 100);
    CHECK(verify_text(report).find("... and ") != std::string::npos);
  }

  TEST_CASE("the fast check reads no data, the full one all of it") {
    const test::scratch_folder folder("fast");
    test::copy_checkpoint("mini8", folder.path());
    test::poke(folder.path(), scale, 0, "\xFF");
    verify_options options;
    options.depth = verify_depth::headers;
    const verify_report fast = verify(folder.path(), options);
    CHECK(fast.good());
    CHECK(fast.scanned_bytes == 0);
    options.depth = verify_depth::data;
    uint64_t last = 0, all = 0;
    bool ascending = true;
    options.progress = [&](uint64_t done, uint64_t total) {
      ascending = ascending && done > last;
      last = done;
      all = total;
    };
    const verify_report full = verify(folder.path(), options);
    CHECK(full.problems == 1);
    CHECK(ascending);
    CHECK(last == all);
    CHECK(full.scanned_bytes == all);
  }

  TEST_CASE("the JSON report holds the findings and the groups") {
    const test::scratch_folder folder("json");
    test::copy_checkpoint("mini8", folder.path());
    test::poke(folder.path(), scale, 0, "\xFF");
    json_document document;
    const std::string text = verify_json(verify(folder.path()));
    REQUIRE(document.parse(text, "report"));
    bool good = true;
    REQUIRE(document.root["good"].get(good) == simdjson::SUCCESS);
    CHECK_FALSE(good);
    std::string_view tensor;
    REQUIRE(document.root["findings"].at(0)["tensor"].get(tensor) == simdjson::SUCCESS);
    CHECK(tensor == scale);
    simdjson::dom::array groups;
    REQUIRE(document.root["groups"].get(groups) == simdjson::SUCCESS);
    CHECK(groups.size() == tensor_groups + 1);
  }

  TEST_CASE("a folder that is empty or absent is reported, not crashed on") {
    const test::scratch_folder folder("empty");
    CHECK(verify(folder.path()).problems == 2);  // no config.json, no weights
    CHECK_FALSE(verify("/no/such/folder").good());
  }

  TEST_CASE("random damage anywhere never crashes and never passes unseen values of bad type") {
    const test::scratch_folder folder("random");
    test::rng random{7};
    const char* files[] = {test::first_shard, test::index_json, "config.json", "engram_meta.json",
                           "generation_config.json"};
    test::copy_checkpoint("mini8", folder.path());
    for (int trial = 0; trial < 150; ++trial) {
      CAPTURE(trial);
      const path file = folder.path() / files[random.below(5)];
      const std::string original = test::file_text(file);
      std::string damaged = original;
      const auto reach = static_cast<uint32_t>(std::min<size_t>(damaged.size(), 60000));
      for (uint32_t flips = 1 + random.below(6); flips > 0; --flips)
        damaged[random.below(reach)] = static_cast<char>(random.below(256));
      if (random.below(5) == 0) damaged.resize(random.below(reach));
      test::write_file(file, damaged);
      verify_options options;
      options.depth = verify_depth::headers;
      const verify_report report = verify(folder.path(), options);
      CHECK(verify_text(report).size() > 10);
      CHECK(report.findings.size() <= options.most_findings);
      test::write_file(file, original);
    }
    CHECK(verify(folder.path()).good());
  }
}
