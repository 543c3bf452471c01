#pragma once

#include "runtime/recipe/json_value.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::recipe {

/// Appends compact JSON to a string, member by member, in the order of the calls. Whoever calls it
/// closes what it opened. (RapidJSON 1.1, the packaged version, offsets null pointers and fails
/// under the undefined-behaviour sanitizer; and our strings need one fixed escaping anyway.)
class json_writer {
public:
  explicit json_writer(std::string& out) : out_(out) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }

  void key(std::string_view name) {
    separate();
    append_json_string(out_, name);
    out_ += ':';
    first_ = true;
  }

  void text(std::string_view name, std::string_view value) {
    key(name);
    append_json_string(out_, value);
    first_ = false;
  }
  void number(std::string_view name, uint64_t value) {
    key(name);
    out_ += std::to_string(value);
    first_ = false;
  }
  /// Shortest text that reads back as the same float; infinities, which JSON lacks, as the largest.
  void real(std::string_view name, float value);
  void boolean(std::string_view name, bool value) {
    key(name);
    out_ += value ? "true" : "false";
    first_ = false;
  }
  /// JSON that is written already.
  void raw(std::string_view name, std::string_view json) {
    key(name);
    out_ += json;
    first_ = false;
  }
  /// In an array.
  void element(uint64_t value) {
    separate();
    out_ += std::to_string(value);
    first_ = false;
  }
  void element(std::string_view value) {
    separate();
    append_json_string(out_, value);
    first_ = false;
  }
  void element(float value);
  void null(std::string_view name) {
    key(name);
    out_ += "null";
    first_ = false;
  }

private:
  void separate() {
    if (!first_) out_ += ',';
  }
  void open(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    first_ = false;
  }

  std::string& out_;
  bool first_ = true;  // nothing stands before the next value that a comma must follow
};

}  // namespace deepinfer::recipe
