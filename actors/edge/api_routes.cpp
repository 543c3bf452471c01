#include "actors/edge/api_routes.hpp"

#include <algorithm>
#include <array>

namespace deepinfer {
namespace {

using recipe::api_protocol;

constexpr auto routes = std::to_array<api_route>({
    {"/v1/chat/completions", api_task::generate, api_protocol::chat, "chatcmpl-"},
    {"/v1/completions", api_task::generate, api_protocol::completions, "cmpl-"},
    {"/v1/responses", api_task::generate, api_protocol::responses, "resp_"},
    {"/v1/messages", api_task::generate, api_protocol::messages, "msg_"},
    {"/v1/messages/count_tokens", api_task::count_tokens, api_protocol::messages, {}},
    {"/tokenize", api_task::tokenize, api_protocol::chat, {}},
    {"/detokenize", api_task::detokenize, api_protocol::chat, {}},
});

constexpr std::string_view models_path = "/v1/models";

std::string join_paths() {
  std::string out = "POST ";
  for (const api_route& one : routes)
    out.append(&one == routes.data() ? "" : ", ").append(one.path);
  return out.append("; GET /v1/models, /v1/models/{id}");
}

}  // namespace

const api_route* find_route(std::string_view path) {
  const auto found =
      std::find_if(routes.begin(), routes.end(), [path](const auto& r) { return r.path == path; });
  return found == routes.end() ? nullptr : &*found;
}

const std::string& route_list() {
  static const std::string text = join_paths();
  return text;
}

std::optional<std::string_view> model_id_of(std::string_view path) {
  if (!path.starts_with(models_path)) return std::nullopt;
  path.remove_prefix(models_path.size());
  if (path.empty()) return path;
  if (path.front() != '/' || path.size() == 1) return std::nullopt;
  return path.substr(1);
}

}  // namespace deepinfer
