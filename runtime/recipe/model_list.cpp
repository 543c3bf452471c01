#include "runtime/recipe/model_list.hpp"

#include "runtime/recipe/json_writer.hpp"

#include <chrono>
#include <cstdio>

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

/// RFC 3339, in UTC.
std::string written_time(uint64_t unix_s) {
  using namespace std::chrono;
  const sys_seconds when{seconds{static_cast<int64_t>(unix_s)}};
  const auto day = floor<days>(when);
  const year_month_day date{day};
  const hh_mm_ss time{when - day};
  char text[64];
  const int length = std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
      static_cast<int>(time.seconds().count()));
  return {text, static_cast<size_t>(length)};
}

void write_messages_model(json_writer& json, const model_entry& model) {
  json.begin_object();
  json.text("type", "model");
  json.text("id", model.name);
  json.text("display_name", model.name);
  json.text("created_at", written_time(model.created_s));
  json.end_object();
}

void write_id(json_writer& json, std::string_view key, const model_entry* model) {
  if (model == nullptr) return json.null(key);
  json.text(key, model->name);
}

}  // namespace

std::string messages_model_body(const model_entry& model) {
  std::string body;
  json_writer json(body);
  write_messages_model(json, model);
  return body;
}

std::string messages_models_body(const std::vector<model_entry>& models) {
  std::string body;
  json_writer json(body);
  json.begin_object();
  json.key("data");
  json.begin_array();
  for (const model_entry& model : models) write_messages_model(json, model);
  json.end_array();
  json.boolean("has_more", false);
  write_id(json, "first_id", models.empty() ? nullptr : &models.front());
  write_id(json, "last_id", models.empty() ? nullptr : &models.back());
  json.end_object();
  return body;
}

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
