#include "actors/node/prompt_images.hpp"

#include "kernels/api/cpu_device.hpp"
#include "runtime/image/decode.hpp"
#include "runtime/image/fit.hpp"
#include "runtime/image/patches.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/vision_encoder.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

namespace deepinfer {
namespace {

// The vision tower of a checkpoint, which lives for the prompts' images alone.
struct tower {
  model::checkpoint files;
  model::v41_config text;
  model::vision_config config;
  kernels::op_table ops;
  model::vision_weights weights;
};

result<std::unique_ptr<tower>> load_tower(const std::filesystem::path& folder) {
  auto files = model::checkpoint::open(folder);
  if (!files) return files.error();
  auto text = model::parse_v41_config(files->config_text());
  if (!text) return text.error();
  auto vision = model::parse_vision_config(files->config_text());
  if (!vision) return vision.error();
  if (!*vision || text->image_token < 0)
    return failure{error_code::unsupported,
                   files->name() + " has no vision tower; leave --image away"};
  auto out = std::make_unique<tower>(tower{*std::move(files), *std::move(text), **vision, {}, {}});
  kernels::register_cpu(out->ops, kernels::best_cpu_isa());
  auto weights = model::load_vision_weights(out->files, out->config, out->text.width, out->ops);
  if (!weights) return weights.error();
  out->weights = *std::move(weights);
  return out;
}

result<image::image_patches> read_patches(const std::string& file, const image::fit_rules& rules) {
  const image::image_limits limits;
  std::error_code trouble;
  const auto size = std::filesystem::file_size(file, trouble);
  if (trouble)
    return failure{error_code::not_found, "cannot be read"};  // a pipe would be waited for
  std::ifstream in(file, std::ios::binary);
  if (!in) return failure{error_code::not_found, "cannot be read"};
  if (size > limits.encoded_bytes)
    return failure{error_code::too_large,
                   "has more than " + std::to_string(limits.encoded_bytes >> 20) + " MiB"};
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  const auto picture = image::decode_image(std::as_bytes(std::span(bytes)), limits);
  if (!picture) return picture.error();
  return image::prepare_image(*picture, image::fit_image(picture->size, rules), rules);
}

}  // namespace

result<illustrated_prompt> illustrate(std::vector<int32_t> tokens, const image_job& job) {
  const auto made = load_tower(job.folder);
  if (!made) return made.error();
  const tower& t = **made;
  const auto image_token = static_cast<int32_t>(t.text.image_token);
  const auto places = static_cast<size_t>(std::ranges::count(tokens, image_token));
  if (places != job.files.size())
    return failure{error_code::invalid_argument,
                   "the prompt has " + std::to_string(places) + " image tokens, and " +
                       std::to_string(job.files.size()) + " images were given"};
  const auto round =
      job.level == model::numeric_level::L2 ? kernels::rounding::bf16 : kernels::rounding::none;
  model::vision_encoder encoder(t.config, t.weights, t.ops, {}, round);
  const image::fit_rules rules = model::fit_rules_of(t.config);
  illustrated_prompt out;
  for (const int32_t token : tokens) {
    if (token != image_token) {
      out.tokens.push_back(token);
      continue;
    }
    const std::string& file = job.files[out.rows.size()];
    const auto patches = read_patches(file, rules);
    if (!patches) return failure{patches.error().code, file + ": " + patches.error().detail};
    auto span = encoder.encode_span(*patches);
    if (!span) return failure{span.error().code, file + ": " + span.error().detail};
    const auto position = static_cast<uint32_t>(out.tokens.size());
    out.tokens.insert(out.tokens.end(), span->size(), image_token);
    out.images.push_back({position, span->size(), span->rows.data()});
    out.rows.push_back(std::move(span->rows));  // the buffer stays where it is
  }
  return out;
}

}  // namespace deepinfer
