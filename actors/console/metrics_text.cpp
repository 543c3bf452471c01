#include "actors/console/metrics_text.hpp"

#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace deepinfer::view {
namespace {

/// Reads one line from the front. What it takes it appends to the JSON object of the sample; every
/// reader is false where the text is not what it should be.
class sample_reader {
public:
  sample_reader(std::string_view line, std::string& json) : rest_(line), json_(json) {}

  bool read() {
    json_ += "{\"name\":";
    if (!name()) return false;
    json_ += ",\"labels\":{";
    if (take('{') && !labels()) return false;
    json_ += "},\"value\":";
    if (!value()) return false;
    json_ += '}';
    return true;
  }

private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool name() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of("{}=,\" \t"));
    rest_.remove_prefix(word.size());
    recipe::append_json_string(json_, word);
    return !word.empty();
  }

  bool labels() {
    for (bool is_first = true; !take('}'); is_first = false) {
      if (!is_first) {
        if (!take(',')) return false;
        if (take('}')) return true;  // a last comma is allowed
        json_ += ',';
      }
      if (!name() || !take('=') || !quoted()) return false;
    }
    return true;
  }

  /// A label's value; `\\`, `\"` and `\n` are escapes.
  bool quoted() {
    if (!take('"')) return false;
    std::string text;
    while (!rest_.empty() && rest_.front() != '"') {
      const bool is_escape = take('\\');
      if (rest_.empty()) return false;
      text += is_escape && rest_.front() == 'n' ? '\n' : rest_.front();
      rest_.remove_prefix(1);
    }
    json_ += ':';
    recipe::append_json_string(json_, text);
    return take('"');
  }

  /// The number; a time stamp after it is left out.
  bool value() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t"));
    if (word == "NaN" || word == "+Inf" || word == "-Inf") {
      recipe::append_json_string(json_, word);
      return true;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(number))
      return false;
    std::array<char, 32> text;  // what the format writes need not be a JSON number, "+5" for one
    const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
    json_.append(text.data(), written.ptr);
    return true;
  }

  std::string_view rest_;
  std::string& json_;
};

}  // namespace

result<std::string> metrics_json(std::string_view text) {
  std::string json = "{\"metrics\":[";
  bool is_first = true;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (!is_first) json += ',';
    is_first = false;
    if (!sample_reader{line, json}.read())
      return failure{error_code::corrupt, "line " + std::to_string(number) +
                                              " of the metrics is not in Prometheus text format"};
  }
  return json + "]}";
}

}  // namespace deepinfer::view
