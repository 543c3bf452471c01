#include "runtime/image/data_url.hpp"
#include "runtime/recipe/messages/parts.hpp"
#include "runtime/recipe/request_fields.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer::recipe::messages {
namespace {

constexpr std::string_view document_text = "[Unsupported Document]";

/// Without parameters, in lower case: `image/PNG; q=1` is image/png.
std::string essence(std::string_view media_type) {
  std::string out(media_type.substr(0, media_type.find(';')));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

/// Where the data ends with `=`, as many of them as belong there. (None make a length of 4n + 1
/// right, which the decoder refuses.)
void normalise_padding(std::string& data) {
  if (data.empty() || data.back() != '=') return;
  data.resize(data.find_last_not_of('=') + 1);
  data.append((4 - data.size() % 4) % 4, '=');
}

image_source read_base64(field_reader& source) {
  static constexpr std::array<std::string_view, 5> types = {"image/jpeg", "image/jpg", "image/png",
                                                            "image/gif", "image/webp"};
  const std::string type = essence(source.required_string("media_type"));
  if (std::find(types.begin(), types.end(), type) == types.end())
    source.fail("media_type",
                "must be image/jpeg, image/png, image/gif or image/webp, not " + in_quotes(type));
  std::string data = source.required_string("data");
  normalise_padding(data);
  if (!source.failed())
    if (const auto decoded = image::decode_base64(data, data.size()); !decoded)
      source.fail("data", "is not valid " + decoded.error().detail);
  return {"data:" + type + ";base64," + data};
}

}  // namespace

image_source read_image_source(field_reader& source) {
  const std::string type = source.required_string("type");
  if (type == "base64") return read_base64(source);
  if (type == "url") {
    std::string url = source.required_string("url");
    check_image_url(source, "url", url);
    return {std::move(url)};
  }
  if (type == "file") {
    source.fail("type", "cannot be file, which is not supported: send base64 or a url");
  } else {
    source.fail("type", "must be base64 or url, not " + in_quotes(type));
  }
  return {};
}

std::optional<std::string> read_shown_block(field_reader& block,
                                            std::string_view type,
                                            message& to,
                                            first_error& error) {
  if (type == "text" || type == "tool_reference") {
    const std::string_view key = type == "text" ? "text" : "tool_name";
    std::string text = block.required_string(key);
    refuse_placeholder(text, block, key);
    return text;
  }
  if (type == "document") return std::string(document_text);
  if (type != "image") return std::nullopt;
  if (to.from != role::user && to.from != role::tool)
    block.fail({}, "is an image, which only user messages and tool results may have");
  if (const json_value* found = block.require("source")) {
    field_reader source(*found, block.path("source"), error);
    to.images.push_back(read_image_source(source));
  }
  return std::string(image_placeholder);
}

void read_texts(field_reader& fields, std::string_view key, message& to, first_error& error) {
  const json_value* found = fields.find(key);
  if (found == nullptr) return;
  if (const auto* text = found->as<std::string>()) {
    to.content = *text;
    return refuse_placeholder(to.content, fields, key);
  }
  const auto* blocks = found->as<json_array>();
  if (blocks == nullptr) return fields.fail(key, "must be a string or an array of blocks");
  for (size_t i = 0; i < blocks->size() && !error; ++i) {
    field_reader block((*blocks)[i], fields.path(key) + "[" + std::to_string(i) + "]", error);
    const std::string type = block.required_string("type");
    const auto text = read_shown_block(block, type, to, error);
    if (!text)
      block.fail("type",
                 "must be text, image, document or tool_reference here, not " + in_quotes(type));
    if (i > 0) to.content += "\n\n";
    to.content += text.value_or(std::string{});
  }
}

}  // namespace deepinfer::recipe::messages
