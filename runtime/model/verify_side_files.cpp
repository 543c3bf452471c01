#include "runtime/model/checkpoint.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/engram_recipe.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/verify_parts.hpp"

#include <algorithm>

namespace deepinfer::model::verify {
namespace {

constexpr const char* from_source = "copy it from where the weights came from";

// A byte-level tokenizer has a token for each of the 256 bytes.
constexpr uint32_t least_vocabulary = 256;

void check_tokenizer(const std::filesystem::path& folder,
                     const v41_config& config,
                     const verify_options& options,
                     notebook& notes) {
  const std::string file = "tokenizer.json";
  std::error_code error;
  if (!std::filesystem::exists(folder / file, error)) {
    if (config.vocabulary >= least_vocabulary)
      notes.problem({.file = file, .what = "the tokenizer is missing", .advice = from_source});
    return;
  }
  if (!options.tokenizer_size) return;
  const auto size = options.tokenizer_size(folder / file);
  const std::string vocabulary = "at most " + std::to_string(config.vocabulary) + " ids";
  if (!size) {
    notes.problem({.file = file, .what = size.error().detail, .advice = from_source});
  } else if (*size > config.vocabulary) {
    notes.problem({.file = file,
                   .what = "the tokenizer has ids that the model's vocabulary does not have",
                   .expected = vocabulary + " (vocab_size)",
                   .found = "ids up to " + std::to_string(*size - 1),
                   .advice = "the tokenizer is another model's: " + std::string(from_source)});
  } else if (uint64_t{*size} * 20 < uint64_t{config.vocabulary} * 19) {
    // Vocabularies are padded, but by less than a twentieth.
    notes.warning({.file = file,
                   .what = "the tokenizer knows only a part of the model's vocabulary",
                   .expected = vocabulary,
                   .found = std::to_string(*size) + " ids",
                   .advice = "make sure that it is this model's tokenizer"});
  }
}

void check_engram(const std::filesystem::path& folder, const v41_config& config, notebook& notes) {
  if (config.engram.layers.empty()) return;
  const std::string file = "engram_meta.json";
  const auto text = read_text(folder / file, checkpoint_limits::side_file_bytes);
  if (!text) {
    notes.problem({.file = file, .what = text.error().detail, .advice = from_source});
    return;
  }
  const auto hash = engram_hash::make(config.engram, config.vocabulary, *text);
  if (!hash) {
    notes.problem({.file = file,
                   .what = hash.error().detail,
                   .advice = "make it again from this model's tokenizer"});
    return;
  }
  const auto recipe = engram_multipliers(config.engram);
  const bool published = std::ranges::equal(
      recipe, hash->multipliers(), [](const std::vector<uint64_t>& a, const auto& b) {
        return std::ranges::equal(
            a, b, [](uint64_t x, int64_t y) { return static_cast<int64_t>(x) == y; });
      });
  if (!published)
    notes.warning({.file = file,
                   .what = "the multipliers are not those that the published recipe draws",
                   .advice = "right only if the tables were trained with them"});
  if (hash->mapped_tokens() > config.vocabulary)
    notes.warning({.file = file,
                   .what = "token_map is longer than the vocabulary",
                   .expected = std::to_string(config.vocabulary) + " entries",
                   .found = std::to_string(hash->mapped_tokens()) + " entries",
                   .advice = "make sure that it is made from this model's tokenizer"});
}

void check_stop_tokens(const json_fields& fields, const v41_config& config, notebook& notes) {
  const auto found = fields.find("eos_token_id");
  if (!found) return;
  std::vector<uint64_t> ids;
  if (found->is_array())
    ids = fields.wholes("eos_token_id", {0, config.vocabulary - 1}, 64);
  else
    ids = {fields.whole("eos_token_id", {0, config.vocabulary - 1})};
  const bool known = std::ranges::all_of(ids, [&config](uint64_t id) {
    return std::ranges::count(config.stop_tokens, static_cast<int32_t>(id)) > 0;
  });
  if (!known && !config.stop_tokens.empty())
    notes.warning({.file = "generation_config.json",
                   .what = "eos_token_id differs from that of config.json, which is used",
                   .expected = std::to_string(config.stop_tokens.front()),
                   .found = std::to_string(ids.empty() ? 0 : ids.front())});
}

void check_generation_config(const std::filesystem::path& folder,
                             const v41_config& config,
                             notebook& notes) {
  const std::string file = "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(folder / file, error)) {
    notes.warning({.file = file,
                   .what = "the file is missing; general sampling defaults apply",
                   .advice = from_source});
    return;
  }
  const auto refused = [&](const failure& why) {
    notes.problem({.file = file, .what = why.detail, .advice = from_source});
  };
  const auto text = read_text(folder / file, checkpoint_limits::config_bytes);
  if (!text) return refused(text.error());
  json_document document;
  if (auto parsed = document.parse(*text, file); !parsed) return refused(parsed.error());
  json_fields::trouble trouble;
  const json_fields fields(document.root, file, trouble);
  if (trouble) return refused(*trouble);
  check_stop_tokens(fields, config, notes);
  static_cast<void>(fields.real_or("temperature", {0, 100}, 1));
  static_cast<void>(fields.real_or("top_p", {0, 1}, 1));
  for (const char* key : {"bos_token_id", "pad_token_id"})
    static_cast<void>(fields.whole_or(key, {0, config.vocabulary - 1}, 0));
  if (trouble) refused(*trouble);
}

}  // namespace

void check_side_files(const std::filesystem::path& folder,
                      const v41_config& config,
                      const verify_options& options,
                      notebook& notes) {
  check_tokenizer(folder, config, options, notes);
  check_generation_config(folder, config, notes);
  check_engram(folder, config, notes);
}

}  // namespace deepinfer::model::verify
