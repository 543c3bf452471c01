#include "runtime/model/vision_config.hpp"

#include "runtime/model/json_fields.hpp"

namespace deepinfer::model {
namespace {

vision_config read_all(const json_fields& vision) {
  vision_config c;
  c.layers = vision.whole("num_hidden_layers", {1, 1024});
  c.width = vision.whole("hidden_size", {1, 1u << 16});
  c.heads = vision.whole("num_attention_heads", {1, 4096});
  c.inner_width = vision.whole("intermediate_size", {1, 1u << 18});
  c.patch = vision.whole("patch_size", {1, 64});
  c.downsample = vision.whole("downsample_ratio", {1, 16});
  c.rope_base = vision.real_or("rope_theta", {1, 1e12}, 10000);
  // The smallest span is a start, one cell, a newline and an end.
  c.max_image_tokens = vision.whole("max_image_tokens", {4, 1u << 16});
  c.min_pixels = vision.whole_or("min_pixels", {0, 1u << 28}, 0);
  c.max_aspect = vision.real_or("max_wh_ratio", {1e-3, 1e6}, 0);
  return c;
}

}  // namespace

result<std::optional<vision_config>> parse_vision_config(std::string_view json_text) {
  json_document document;
  if (auto parsed = document.parse(json_text, "config.json"); !parsed) return parsed.error();
  json_fields::trouble trouble;
  const json_fields top(document.root, "config.json", trouble);
  if (trouble) return *trouble;
  const auto vision = top.object("vision_config");
  if (trouble) return *trouble;
  if (!vision) return std::optional<vision_config>{};
  const vision_config config = read_all(*vision);
  if (trouble) return *trouble;
  // Half of a head turns with the row, half with the column, each in pairs.
  if (config.width % config.heads != 0 || config.head_width() % 4 != 0)
    vision->complain("num_attention_heads", "must cut hidden_size into heads of 4 n channels");
  if (trouble) return *trouble;
  return std::optional<vision_config>(config);
}

}  // namespace deepinfer::model
