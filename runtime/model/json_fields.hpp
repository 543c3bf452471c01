#pragma once

#include "proto/types/result.hpp"

#include <simdjson.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reading the fields of a JSON object with ranges. The first thing wrong is kept, with the
/// field's full name, and everything after it reads as a harmless default: a reader asks for all
/// fields in a row and looks at `trouble` once. The only header of the room that shows simdjson.
namespace deepinfer::model {

struct whole_range {
  uint64_t least = 0;
  uint64_t most = 0;
};

struct real_range {
  double least = 0;
  double most = 0;
};

class json_fields {
public:
  using trouble = std::optional<failure>;

  /// `path` names the object in messages; `first_trouble` outlives this.
  json_fields(simdjson::dom::element element, std::string path, trouble& first_trouble);

  /// True when the field exists and is not null.
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] uint32_t whole(std::string_view key, whole_range range) const;
  [[nodiscard]] uint32_t whole_or(std::string_view key, whole_range range, uint32_t fallback) const;
  [[nodiscard]] double real(std::string_view key, real_range range) const;
  [[nodiscard]] double real_or(std::string_view key, real_range range, double fallback) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback) const;
  /// An array of whole numbers, at most `range.most` each and `longest` of them; absent: empty.
  [[nodiscard]] std::vector<uint64_t> wholes(std::string_view key,
                                             whole_range range,
                                             size_t longest) const;
  [[nodiscard]] std::optional<json_fields> object(std::string_view key) const;
  [[nodiscard]] std::optional<simdjson::dom::element> find(std::string_view key) const;

  void complain(std::string_view key, std::string_view what) const;

private:
  simdjson::dom::element element_;
  std::string path_;
  trouble& trouble_;
};

/// A parsed document; `root` stays valid as long as this lives.
struct json_document {
  simdjson::dom::parser parser;
  simdjson::dom::element root;

  /// `name` is the file's name in messages.
  [[nodiscard]] result<void> parse(std::string_view text, std::string_view name);
};

/// The whole file; `not_found`, or `too_large` over `most_bytes`.
[[nodiscard]] result<std::string> read_text(const std::filesystem::path& file, size_t most_bytes);

}  // namespace deepinfer::model
