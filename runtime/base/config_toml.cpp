#include "proto/types/result.hpp"
#include "runtime/base/config_text.hpp"

#include <toml++/toml.h>

namespace deepinfer {
namespace {

using leaves = std::vector<std::pair<std::string, config_value>>;

result<config_value> list_value(const toml::array& list, const std::string& key) {
  std::vector<std::string> items;
  for (const toml::node& item : list) {
    const auto* text = item.as_string();
    if (text == nullptr)
      return failure{error_code::invalid_argument, key + ": a list holds strings only"};
    items.push_back(text->get());
  }
  return config_value{std::move(items)};
}

result<config_value> leaf_value(const toml::node& node, const std::string& key) {
  if (const auto* v = node.as_boolean()) return config_value{v->get()};
  if (const auto* v = node.as_integer()) return config_value{v->get()};
  if (const auto* v = node.as_floating_point()) return config_value{v->get()};
  if (const auto* v = node.as_string()) return config_value{v->get()};
  if (const auto* v = node.as_array()) return list_value(*v, key);
  return failure{error_code::invalid_argument, key + ": dates and times are not used here"};
}

// toml++ bounds the nesting of what it parses (256), so the recursion ends.
result<void> flatten(const toml::table& table, const std::string& prefix, leaves& out) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const toml::table* inner = node.as_table()) {
      if (auto done = flatten(*inner, key + ".", out); !done) return done.error();
      continue;
    }
    auto value = leaf_value(node, key);
    if (!value) return std::move(value).error();
    out.emplace_back(key, *std::move(value));
  }
  return {};
}

}  // namespace

result<leaves> flatten_toml(std::string_view text, std::string_view origin) {
  try {
    const toml::table table = toml::parse(text, origin);
    leaves out;
    if (auto done = flatten(table, "", out); !done)
      return failure{done.error().code, std::string(origin) + ": " + done.error().detail};
    return out;
  } catch (const toml::parse_error& error) {
    return failure{error_code::invalid_argument, std::string(origin) + ":" +
                                                     std::to_string(error.source().begin.line) +
                                                     ": " + std::string(error.description())};
  }
}

}  // namespace deepinfer
