#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::recipe {

/// One row of `GET /v1/models`.
struct model_entry {
  std::string name;
  uint64_t created_s = 0;
  std::string owner = "deepinfer";
};

/// The body of `GET /v1/models`, and of `GET /v1/models/{name}`.
[[nodiscard]] std::string models_body(const std::vector<model_entry>& models);
[[nodiscard]] std::string model_body(const model_entry& model);

/// The same two as clients of Messages expect them: `{"data":[{"type":"model","id",
/// "display_name","created_at"}],"has_more","first_id","last_id"}`.
[[nodiscard]] std::string messages_models_body(const std::vector<model_entry>& models);
[[nodiscard]] std::string messages_model_body(const model_entry& model);

}  // namespace deepinfer::recipe
