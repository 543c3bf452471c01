#include "runtime/recipe/tool_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace deepinfer::recipe {
namespace {

enum class kind : uint8_t {
  schema,          // a schema
  schema_list,     // a non-empty array of schemas
  schema_map,      // an object of schemas
  schema_or_list,  // `items` in its older and newer form
  type,            // a type name, or a non-empty array of them
  text,
  texts,  // an array of strings
  flag,
  number,
  count,  // an integer, not negative
  list,   // a non-empty array of anything
};

struct keyword {
  std::string_view name;
  kind expects;
};

// The vocabularies of drafts 6 to 2020-12, as far as they restrict their keyword's own shape.
constexpr std::array keywords = std::to_array<keyword>({
    {"type", kind::type},
    {"enum", kind::list},
    {"properties", kind::schema_map},
    {"patternProperties", kind::schema_map},
    {"$defs", kind::schema_map},
    {"definitions", kind::schema_map},
    {"dependentSchemas", kind::schema_map},
    {"additionalProperties", kind::schema},
    {"unevaluatedProperties", kind::schema},
    {"propertyNames", kind::schema},
    {"items", kind::schema_or_list},
    {"prefixItems", kind::schema_list},
    {"contains", kind::schema},
    {"unevaluatedItems", kind::schema},
    {"allOf", kind::schema_list},
    {"anyOf", kind::schema_list},
    {"oneOf", kind::schema_list},
    {"not", kind::schema},
    {"if", kind::schema},
    {"then", kind::schema},
    {"else", kind::schema},
    {"required", kind::texts},
    {"minimum", kind::number},
    {"maximum", kind::number},
    {"exclusiveMinimum", kind::number},
    {"exclusiveMaximum", kind::number},
    {"multipleOf", kind::number},
    {"minLength", kind::count},
    {"maxLength", kind::count},
    {"minItems", kind::count},
    {"maxItems", kind::count},
    {"minProperties", kind::count},
    {"maxProperties", kind::count},
    {"minContains", kind::count},
    {"maxContains", kind::count},
    {"uniqueItems", kind::flag},
    {"pattern", kind::text},
    {"format", kind::text},
    {"$ref", kind::text},
    {"title", kind::text},
    {"description", kind::text},
});

bool is_type_name(const json_value& value) {
  static constexpr std::array<std::string_view, 7> names = {"null",   "boolean", "object", "array",
                                                            "number", "string",  "integer"};
  const auto* text = value.as<std::string>();
  return text != nullptr && std::find(names.begin(), names.end(), *text) != names.end();
}

bool is_number(const json_value& value) {
  return value.as<int64_t>() || value.as<uint64_t>() || value.as<double>();
}

bool is_count(const json_value& value) {
  if (const auto* integer = value.as<int64_t>()) return *integer >= 0;
  if (const auto* real = value.as<double>())
    return *real >= 0 && *real == std::floor(*real);  // of any size: 1e300 is one
  return value.as<uint64_t>() != nullptr;
}

/// The way from the top of the schema to a place in it. Written out for a complaint only: a path
/// may be as long as the schema, and each of its members would copy it.
struct place {
  const place* above = nullptr;
  std::string_view key = {};
  size_t index = 0;  // where there is no key

  [[nodiscard]] std::string written() const {
    if (above == nullptr) return {};
    std::string text = above->written();
    constexpr size_t most = 200;
    if (text.size() > most) return text;
    text += '/';
    if (key.data() == nullptr) return text + std::to_string(index);
    text += key.size() > most ? "..." : key;
    return text.size() > most ? text + "/..." : text;
  }
};

class schema_checker {
public:
  void check(const json_value& schema, const place& path) {
    if (complaint_ || schema.as<bool>() != nullptr) return;
    const auto* members = schema.as<json_object>();
    if (members == nullptr) return complain(path, "must be a schema (an object or a boolean)");
    for (const json_member& member : *members) {
      const auto known =
          std::find_if(keywords.begin(), keywords.end(),
                       [&member](const keyword& word) { return word.name == member.key; });
      if (known != keywords.end()) check_keyword(*known, member.value, {&path, member.key});
    }
  }

  std::optional<std::string> take() { return std::move(complaint_); }

private:
  void complain(const place& path, std::string_view why) {
    if (!complaint_) complaint_ = "at '" + path.written() + "' " + std::string(why);
  }

  void check_all(const json_array& schemas, const place& path) {
    for (size_t i = 0; i < schemas.size(); ++i) check(schemas[i], {&path, {}, i});
  }

  void check_keyword(const keyword& word, const json_value& value, const place& path) {
    const auto* items = value.as<json_array>();
    switch (word.expects) {
      case kind::schema:
        return check(value, path);
      case kind::schema_or_list:
        return items != nullptr ? check_all(*items, path) : check(value, path);
      case kind::schema_list:
        if (items == nullptr || items->empty())
          return complain(path, "must be a non-empty array of schemas");
        return check_all(*items, path);
      case kind::schema_map:
        if (const auto* members = value.as<json_object>()) {
          for (const json_member& member : *members) check(member.value, {&path, member.key});
          return;
        }
        return complain(path, "must be an object of schemas");
      default:
        return check_leaf(word, value, path);
    }
  }

  void check_leaf(const keyword& word, const json_value& value, const place& path) {
    const auto* items = value.as<json_array>();
    const auto all = [items](auto&& predicate) {
      return items != nullptr && std::all_of(items->begin(), items->end(), predicate);
    };
    const auto is_text = [](const json_value& item) { return item.as<std::string>() != nullptr; };
    const auto expect = [this, &path](bool fulfilled, std::string_view why) {
      if (!fulfilled) complain(path, why);
    };
    switch (word.expects) {
      case kind::type:
        return expect(is_type_name(value) || (all(is_type_name) && !items->empty()),
                      "must be a JSON type name, or several");
      case kind::text:
        return expect(is_text(value), "must be a string");
      case kind::texts:
        return expect(all(is_text), "must be an array of strings");
      case kind::flag:
        return expect(value.as<bool>() != nullptr, "must be true or false");
      case kind::number:
        return expect(is_number(value), "must be a number");
      case kind::count:
        return expect(is_count(value), "must be an integer of at least 0");
      default:
        return expect(items != nullptr && !items->empty(), "must be a non-empty array");
    }
  }

  std::optional<std::string> complaint_;
};

}  // namespace

bool is_tool_name(std::string_view name) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !name.empty() && name.size() <= 128 &&
         name.find_first_not_of(allowed) == std::string_view::npos;
}

std::optional<std::string> tool_schema_complaint(const json_value& schema) {
  const auto* members = schema.as<json_object>();
  if (members == nullptr) return "must be a JSON Schema object";
  const json_value* type = nullptr;
  for (const json_member& member : *members)
    if (member.key == "type") type = &member.value;
  const auto* name = type == nullptr ? nullptr : type->as<std::string>();
  if (name == nullptr || *name != "object") return "must have the type \"object\" at the top";
  schema_checker checker;
  checker.check(schema, {});
  return checker.take();
}

}  // namespace deepinfer::recipe
