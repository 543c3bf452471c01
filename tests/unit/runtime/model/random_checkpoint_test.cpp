#include "runtime/model/random_checkpoint.hpp"

#include "runtime/base/digest.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/engram_recipe.hpp"
#include "runtime/model/model_size.hpp"
#include "runtime/model/random_config.hpp"
#include "runtime/model/random_tokenizer.hpp"
#include "runtime/model/random_values.hpp"
#include "runtime/model/tensor_file.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

constexpr random_shape all_shapes[] = {random_shape::mini,   random_shape::mini8,
                                       random_shape::mini12, random_shape::tiny,
                                       random_shape::small,  random_shape::flash_shard};

std::vector<table_entry> table_of(const model_shape& shape) {
  auto table = make_tensor_table(shape.text, shape.vision);
  REQUIRE(table);
  return *std::move(table);
}

std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out[entry.path().filename().string()] = test::file_text(entry.path());
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("every shape's config.json gives the shape back") {
    for (const random_shape shape : all_shapes) {
      const std::string name(to_string(shape));
      CAPTURE(name);
      CHECK(*parse_random_shape(name) == shape);
      const std::string text = config_text(shape_of(shape));
      const auto config = parse_v41_config(text);
      const auto vision = parse_vision_config(text);
      REQUIRE(config);
      REQUIRE(vision);
      CHECK(config_text({*config, *vision}) == text);
    }
    CHECK_FALSE(parse_random_shape("huge"));
  }

  TEST_CASE("tiny has the tensors of the bundled model") {
    const std::string text = test::read_source("examples/models/tiny-v41/config.json");
    const auto bundled = make_tensor_table(*parse_v41_config(text), *parse_vision_config(text));
    REQUIRE(bundled);
    const auto made = table_of(shape_of(random_shape::tiny));
    CHECK(totals_of(made) == totals_of(*bundled));
    const auto files = checkpoint::open(test::source_path("examples/models/tiny-v41"));
    REQUIRE(files);
    CHECK(files->tensors().size() == bundled->size());
    CHECK(files->tensor_bytes() == sum_of(totals_of(*bundled)).bytes);
  }

  // Specification 1.3: 7.893 B encoder, 7.576 B decoder, 0.662 B head, without norms and biases.
  TEST_CASE("active parameters are counted as published") {
    const std::string text = test::read_source("tests/golden/model/released_config.json");
    const auto config = parse_v41_config(text);
    const auto table = make_tensor_table(*config, *parse_vision_config(text));
    const model_size released = size_of(*config, *table);
    CHECK(std::llround(static_cast<double>(released.active_encoder) / 1e6) == 7893);
    CHECK(std::llround(static_cast<double>(released.active_decoder) / 1e6) == 7576);
    CHECK(std::llround(static_cast<double>(released.active_head) / 1e6) == 662);
    CHECK(released.mapped_bytes == 202'758'032'400);
    CHECK(released.routed_bytes == uint64_t{40 * 384 + 3 * 128} * 18'800'640);
    CHECK(released.mapped_bytes + released.resident_bytes == 510'286'023'000);
  }

  TEST_CASE("small has about 400 M parameters, 60 M active, and every kind of layer") {
    const model_size small = size_of_shape(random_shape::small);
    CAPTURE(small.parameters);
    CAPTURE(small.active());
    CHECK(small.parameters > 380'000'000);
    CHECK(small.parameters < 420'000'000);
    CHECK(small.active() > 55'000'000);
    CHECK(small.active() < 65'000'000);
    CHECK(small.mapped_bytes + small.resident_bytes < 300'000'000);
    const v41_config c = shape_of(random_shape::small).text;
    CHECK(c.ratios == std::vector<uint32_t>{0, 0, 2, 2, 2, 1, 1, 1, 1, 1});
    CHECK(c.kv_source_of(9) == 5);
    CHECK(c.index_source_of(9) == 8);
  }

  TEST_CASE("flash-shard has the released layer's tensors but for the number of experts") {
    const std::string text = test::read_source("tests/golden/model/released_config.json");
    const auto released = *make_tensor_table(*parse_v41_config(text), {});
    const auto shard = table_of(shape_of(random_shape::flash_shard));
    size_t compared = 0;
    for (const table_entry& entry : shard) {
      if (!entry.name.starts_with("layers.0.") || entry.name.find(".gate.") != std::string::npos)
        continue;
      CAPTURE(entry.name);
      const table_entry* twin = find_entry(released, "layers.20." + entry.name.substr(9));
      REQUIRE(twin != nullptr);
      CHECK(to_string(entry) == to_string(*twin));
      ++compared;
    }
    CHECK(compared == 24 * 6 + 34);
    const uint64_t bytes = sum_of(totals_of(shard)).bytes;
    CHECK(bytes > 600'000'000);
    CHECK(bytes < 800'000'000);
  }

  TEST_CASE("Engram multipliers are those of the release") {
    engram_config e;
    e.layers = {1, 14};
    e.longest_ngram = 4;
    e.compressed_vocabulary = 99092;
    CHECK(engram_multipliers(e) ==
          std::vector<std::vector<uint64_t>>{
              {76632096046245, 4839876093313, 35959672319349, 73987337458391},
              {67716810739261, 51510806800915, 30921347202721, 82619226485591}});
    // NumPy: default_rng(0).integers(0, 48038396025285290, 2) for layer 0
    e.layers = {0};
    e.longest_ngram = 2;
    e.compressed_vocabulary = 96;
    CHECK(engram_multipliers(e)[0] == std::vector<uint64_t>{61197235576963927, 25920241996298185});
  }

  TEST_CASE("random values have mean 0 and deviation 1 and do not depend on how they are cut") {
    const random_values draw(7, "a.tensor");
    std::vector<float> whole(40000), part(1);
    draw.normals(0, whole);
    double sum = 0, squares = 0;
    for (const float v : whole) {
      sum += v;
      squares += double{v} * v;
    }
    CHECK(std::fabs(sum / 40000) < 0.02);
    CHECK(std::fabs(squares / 40000 - 1) < 0.02);
    for (const size_t first : {0, 1, 31, 32, 33, 1000, 39999}) {
      CAPTURE(first);
      draw.normals(first, part);
      CHECK(part[0] == whole[first]);
    }
    std::vector<float> other(100), same(100);
    random_values(7, "another.tensor").normals(0, other);
    random_values(8, "a.tensor").normals(0, same);
    CHECK(std::memcmp(other.data(), whole.data(), 400) != 0);
    CHECK(std::memcmp(same.data(), whole.data(), 400) != 0);
  }

  TEST_CASE("the same seed gives the same files, another seed other tensors") {
    const test::scratch_folder home("again");
    const auto made = files_in(test::mini_checkpoint("mini8"));
    REQUIRE(make_random_checkpoint(home.path() / "a", random_shape::mini8, {.seed = 1234}));
    CHECK(files_in(home.path() / "a") == made);
    REQUIRE(make_random_checkpoint(home.path() / "a", random_shape::mini8, {.seed = 1235}));
    const auto other = files_in(home.path() / "a");
    CHECK(other.at("config.json") == made.at("config.json"));
    CHECK(other.at("model-00001-of-00002.safetensors") !=
          made.at("model-00001-of-00002.safetensors"));
  }

  TEST_CASE("a tensor's values do not depend on what stands around it") {
    const auto small = checkpoint::open(test::mini_checkpoint("mini8"));
    const auto large = checkpoint::open(test::mini_checkpoint("mini12"));
    REQUIRE(small);
    REQUIRE(large);
    size_t compared = 0;
    for (const tensor_view& t : small->tensors()) {
      const tensor_view* twin = large->find(t.name);
      if (twin == nullptr || twin->shape != t.shape) continue;
      CAPTURE(t.name);
      CHECK(digest_of(twin->bytes) == digest_of(t.bytes));
      ++compared;
    }
    CHECK(compared > 600);
  }

  TEST_CASE("a folder of somebody else's is left alone unless told otherwise") {
    const test::scratch_folder home("foreign");
    test::write_file(home.path() / "thesis.txt", "two years of work");
    const auto refused = make_random_checkpoint(home.path(), random_shape::mini8, {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == error_code::invalid_argument);
    CHECK(refused.error().detail.find("--force") != std::string::npos);
    CHECK(files_in(home.path()).size() == 1);
    random_options force;
    force.foreign = random_options::foreign_files::write_beside;
    REQUIRE(make_random_checkpoint(home.path(), random_shape::mini8, force));
    CHECK(test::file_text(home.path() / "thesis.txt") == "two years of work");
    CHECK(checkpoint::open(home.path()));
    CHECK_FALSE(make_random_checkpoint("/proc/no/such", random_shape::mini8, {}));
  }

  TEST_CASE("progress ends at the size of all tensors and never goes back") {
    const test::scratch_folder home("progress");
    uint64_t last = 0, all = 0;
    bool ascending = true;
    random_options options;
    options.progress = [&](uint64_t done, uint64_t total) {
      ascending = ascending && done > last;
      last = done;
      all = total;
    };
    REQUIRE(make_random_checkpoint(home.path(), random_shape::mini8, options));
    CHECK(ascending);
    CHECK(last == all);
    CHECK(all == checkpoint::open(home.path())->tensor_bytes());
  }

  TEST_CASE("a disk that is full is reported with the file's name") {
    const auto table = table_of(shape_of(random_shape::mini8));
    const auto full = tensor_file::create("/dev/full", table);
    REQUIRE_FALSE(full);
    CHECK(full.error().code == error_code::no_capacity);
    CHECK(full.error().detail.find("/dev/full") != std::string::npos);
  }

  TEST_CASE("a made-up tokenizer fills its vocabulary and knows the control tokens") {
    for (const uint32_t vocabulary : {291u, 4096u, 8192u, 18000u}) {
      CAPTURE(vocabulary);
      const auto made = text::make_tokenizer(random_tokenizer_text(vocabulary));
      REQUIRE(made);
      const text::tokenizer& t = **made;
      CHECK(t.vocabulary_size() == vocabulary);
      CHECK(recipe::check_tokenizer(t));
      CHECK(t.special_id("<｜image｜>") == static_cast<int32_t>(vocabulary) - 15);
      for (uint32_t id = 0; id < vocabulary; ++id)
        REQUIRE_FALSE(t.token_text(static_cast<int32_t>(id)).empty());
      const std::string phrase = "A word, 12 numbers\nund ein größeres Wort";
      CHECK(t.decode(*t.encode(phrase, {}), text::decode_mode::keep_special) == phrase);
    }
    CHECK(random_tokenizer_text(290).empty());
    CHECK(random_tokenizer_text(100000).empty());
  }
}
