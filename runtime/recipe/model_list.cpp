#include "runtime/recipe/model_list.hpp"

#include "runtime/recipe/json_writer.hpp"

namespace deepinfer::recipe {
namespace {

void write_model(json_writer& json, const model_entry& model) {
  json.begin_object();
  json.text("id", model.name);
  json.text("object", "model");
  json.number("created", model.created_s);
  json.text("owned_by", model.owner);
  json.end_object();
}

}  // namespace

std::string model_body(const model_entry& model) {
  std::string body;
  json_writer json(body);
  write_model(json, model);
  return body;
}

std::string models_body(const std::vector<model_entry>& models) {
  std::string body;
  json_writer json(body);
  json.begin_object();
  json.text("object", "list");
  json.key("data");
  json.begin_array();
  for (const model_entry& model : models) write_model(json, model);
  json.end_array();
  json.end_object();
  return body;
}

}  // namespace deepinfer::recipe
