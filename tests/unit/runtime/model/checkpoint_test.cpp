#include "runtime/model/checkpoint.hpp"

#include "runtime/model/forward_dump.hpp"
#include "runtime/model/v41_model.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

constexpr const char* first_shard = "model-00001-of-00002.safetensors";
constexpr const char* second_shard = "model-00002-of-00002.safetensors";

// Loads a copy of mini8 after `damage` was done to its folder.
result<std::unique_ptr<v41_model>> load_damaged(
    const std::function<void(const std::filesystem::path&)>& damage,
    const v41_options& options = {}) {
  const test::scratch_folder folder("damaged");
  test::copy_mini(folder.path());
  damage(folder.path());
  return v41_model::load(folder.path(), options);
}

void replace_in(const std::filesystem::path& file,
                const std::string& what,
                const std::string& with) {
  std::string text = test::file_text(file);
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  test::write_file(file, text.replace(at, what.size(), with));
}

// Rewrites one tensor of a shard; `change` may alter shape and bytes.
void change_tensor(const std::filesystem::path& shard,
                   const std::string& name,
                   const std::function<void(tensor_view&, std::vector<std::byte>&)>& change) {
  const std::string text = test::file_text(shard);
  auto tensors = *parse_safetensors(std::as_bytes(std::span(text)));
  const auto at = std::ranges::find(tensors, name, &tensor_view::name);
  REQUIRE(at != tensors.end());
  std::vector<std::byte> bytes(at->bytes.begin(), at->bytes.end());
  change(*at, bytes);
  at->bytes = bytes;
  if (at->name.empty()) tensors.erase(at);
  REQUIRE(write_safetensors(shard, tensors));
}

void check_refused(const result<std::unique_ptr<v41_model>>& loaded,
                   error_code code,
                   const char* hint) {
  REQUIRE_FALSE(loaded);
  CAPTURE(loaded.error().detail);
  CHECK(loaded.error().code == code);
  CHECK(loaded.error().detail.find(hint) != std::string::npos);
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("missing files are named") {
    check_refused(v41_model::load("/no/such/folder", {}), error_code::not_found, "config.json");
    for (const char* file : {"config.json", "engram_meta.json", first_shard, second_shard}) {
      CAPTURE(file);
      check_refused(load_damaged([=](const auto& f) { std::filesystem::remove(f / file); }),
                    error_code::not_found, file);
    }
    // without an index the single file is expected
    check_refused(load_damaged([](const auto& f) {
                    std::filesystem::remove(f / "model.safetensors.index.json");
                  }),
                  error_code::not_found, "model.safetensors");
  }

  TEST_CASE("a shard cut short at any place is refused") {
    const auto size = std::filesystem::file_size(test::mini_checkpoint("mini8") / second_shard);
    for (const uintmax_t kept :
         {uintmax_t{0}, uintmax_t{4}, uintmax_t{8}, uintmax_t{1000}, size / 2, size - 1}) {
      CAPTURE(kept);
      check_refused(load_damaged([=](const auto& f) {
                      std::filesystem::resize_file(f / second_shard, kept);
                    }),
                    error_code::corrupt, second_shard);
    }
  }

  TEST_CASE("an index that lies is refused") {
    const auto index = [](const char* what, const char* with) {
      return [=](const std::filesystem::path& f) {
        replace_in(f / "model.safetensors.index.json", what, with);
      };
    };
    check_refused(load_damaged(index("\"norm.weight\"", "\"morn.weight\"")), error_code::corrupt,
                  "morn.weight");
    check_refused(load_damaged(index(first_shard, "../x")), error_code::corrupt, "plain file name");
    check_refused(load_damaged(index("weight_map", "weight_mop")), error_code::corrupt,
                  "weight_map");
    check_refused(load_damaged(index("{", "[")), error_code::corrupt, "JSON");
    check_refused(load_damaged([](const auto& f) {
                    std::filesystem::copy_file(f / first_shard, f / second_shard,
                                               std::filesystem::copy_options::overwrite_existing);
                  }),
                  error_code::corrupt, "two shards");
  }

  TEST_CASE("a tensor that is missing, misshapen or of another type is named") {
    const char* const name = "layers.2.attn.compressor.wgate.weight";
    const auto with = [&](const auto& change) {
      return load_damaged([&](const auto& f) {
        std::filesystem::remove(f / "model.safetensors.index.json");
        // one file without an index, so that only the loader can notice
        std::string both[2] = {test::file_text(f / first_shard), test::file_text(f / second_shard)};
        std::vector<tensor_view> all;
        for (const std::string& shard : both) {
          const auto tensors = parse_safetensors(std::as_bytes(std::span(shard)));
          REQUIRE(tensors);
          all.insert(all.end(), tensors->begin(), tensors->end());
        }
        REQUIRE(write_safetensors(f / "model.safetensors", all));
        change_tensor(f / "model.safetensors", name, change);
      });
    };
    CHECK(with([](tensor_view&, std::vector<std::byte>&) {}));
    check_refused(with([](tensor_view& t, auto&) { t.name.clear(); }), error_code::not_found, name);
    check_refused(with([](tensor_view& t, auto&) {
                    t.shape = {32, 128};
                  }),
                  error_code::corrupt, name);
    check_refused(with([](tensor_view& t, auto&) { t.type = tensor_type::f16; }),
                  error_code::corrupt, name);
    check_refused(with([](tensor_view&, auto& bytes) {
                    bytes[10] = std::byte{0xC0};
                    bytes[11] = std::byte{0x7F};
                  }),
                  error_code::corrupt, "not finite");
  }

  TEST_CASE("codes that mean NaN are refused in every quantised format") {
    struct damage {
      const char* tensor;
      uint8_t byte;
    };
    for (const damage d :
         {damage{"layers.3.attn.wq_b.weight", 0x7F}, damage{"layers.3.attn.wq_b.scale", 0xFF},
          damage{"layers.3.ffn.experts.5.w2.scale", 0xFF}}) {
      CAPTURE(d.tensor);
      check_refused(
          load_damaged([&](const auto& f) {
            const auto text = test::file_text(f / first_shard);
            const bool first = text.find("\"" + std::string(d.tensor) + "\"") != std::string::npos;
            change_tensor(f / (first ? first_shard : second_shard), d.tensor,
                          [&](tensor_view&, auto& bytes) { bytes.back() = std::byte{d.byte}; });
          }),
          error_code::corrupt, "not finite");
    }
  }

  TEST_CASE("settings that cannot work are refused with their names") {
    const auto refused = [](const v41_options& options, const char* word) {
      check_refused(v41_model::load(test::mini_checkpoint("mini8"), options),
                    error_code::invalid_argument, word);
    };
    refused({.pass_rows = ring_slack, .kept_rows = {}}, "pass_rows");
    refused({.kept_rows = 15}, "kept_rows");  // below the window
    refused({.kept_rows = {}, .draft_tokens = 6}, "drafted");
  }

  TEST_CASE("the layout fingerprint covers weights, configuration and level") {
    const uint64_t original =
        (*v41_model::load(test::mini_checkpoint("mini8"), {.kept_rows = {}}))->info().layout;
    const auto layout_after = [](const auto& damage) {
      const auto loaded = load_damaged(damage);
      REQUIRE(loaded);
      return (*loaded)->info().layout;
    };
    CHECK(layout_after([](const auto&) {}) == original);  // the folder's name does not matter
    CHECK(layout_after([](const auto& f) {
            change_tensor(f / second_shard, "norm.weight",
                          [](tensor_view&, auto& bytes) { bytes[0] ^= std::byte{1}; });
          }) != original);
    CHECK(layout_after([](const auto& f) {
            replace_in(f / "config.json", "\"rope_theta\": 10000", "\"rope_theta\": 10001");
          }) != original);
    CHECK(test::load_mini("mini8", {.level = numeric_level::L0})->info().layout != original);
  }

  TEST_CASE("an embedding at an odd address is copied, not misread") {
    const test::scratch_folder folder("odd");
    test::copy_mini(folder.path());
    // one byte in front moves every tensor behind it
    for (const char* shard : {first_shard, second_shard}) {
      const std::string text = test::file_text(folder.path() / shard);
      auto tensors = *parse_safetensors(std::as_bytes(std::span(text)));
      const std::byte one{1};
      tensors.insert(tensors.begin(), {"a.first", tensor_type::u8, {1}, std::span(&one, 1)});
      if (std::string(shard) == second_shard) tensors[0].name = "b.first";
      REQUIRE(write_safetensors(folder.path() / shard, tensors));
    }
    const auto odd = v41_model::load(folder.path(), {});
    REQUIRE(odd);
    const auto tokens = test::random_tokens(1, 20, 160);
    CHECK((*odd)->forward(tokens, {})->logits ==
          test::load_mini("mini8")->forward(tokens, {})->logits);
  }

  TEST_CASE("forward refuses tokens it cannot compute") {
    const auto model = test::load_mini("mini8", {.context_limit = 10});
    CHECK_FALSE(model->forward({}, {}));
    CHECK_FALSE(model->forward(std::vector<int32_t>(11, 1), {}));
    CHECK_FALSE(model->forward(std::vector<int32_t>{160}, {}));
    CHECK(model->forward(std::vector<int32_t>(10, 1), {}));
  }

  TEST_CASE("a dump holds the forward's tensors under the reference's names") {
    const test::scratch_folder folder("dump");
    const auto tokens = test::random_tokens(2, 30, 160);
    const auto out = folder.path() / "out.safetensors";
    REQUIRE(write_forward_dump(test::mini_checkpoint("mini8"), tokens, out,
                               {.level = numeric_level::L1, .per_layer = true, .chunk = 7}));
    const std::string text = test::file_text(out);
    const auto tensors = *parse_safetensors(std::as_bytes(std::span(text)));
    const auto find = [&](const char* name) {
      const auto at = std::ranges::find(tensors, name, &tensor_view::name);
      REQUIRE_MESSAGE(at != tensors.end(), name);
      return *at;
    };
    CHECK(to_string(find("prompt")) == "I32 [30]");
    CHECK(to_string(find("full.layer4.stream")) == "F32 [30, 4, 64]");
    CHECK(to_string(find("full.layer2.ckv")) == "F32 [15, 64]");
    CHECK(to_string(find("full.layer6.topk")) == "I32 [30, 8]");
    const auto logits = test::load_mini("mini8")->forward(tokens, {})->logits;
    CHECK(std::memcmp(find("full.logits").bytes.data(), logits.data(), logits.size() * 4) == 0);
    CHECK_FALSE(write_forward_dump(test::mini_checkpoint("mini8"), tokens, "/no/such/x", {}));
  }

  TEST_CASE("a description names shape, tensors by owner and state sizes") {
    const auto text = describe_model(test::mini_checkpoint("mini8"));
    REQUIRE(text);
    for (const char* part :
         {"\"name\": \"mini8\"", "\"layers\": 8", "\"layers 0-3 without Engram\"",
          "\"Engram tables + scales\"", "\"drafter_stages\": 3", "\"vision_layers\": 2",
          "\"active_parameters\": ", "\"mapped_bytes\": 25278", "\"state_bytes_per_token\": 80",
          "\"layout_L1\""}) {
      CAPTURE(part);
      CHECK(text->find(part) != std::string::npos);
    }
    CHECK_FALSE(describe_model("/no/such/folder"));
  }
}
