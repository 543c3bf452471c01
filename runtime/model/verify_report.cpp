#include "runtime/model/verify_checkpoint.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace deepinfer::model {
namespace {

// "510,286,023,000"
std::string grouped(uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string padded(std::string text, size_t width) {
  text.insert(0, width - std::min(width, text.size()), ' ');
  return text;
}

// Names and texts from a file may hold control characters; a terminal must not see them.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return out;
}

std::string line_of(const finding& f) {
  std::string line = f.level == severity::problem ? "problem: " : "warning: ";
  const auto part = [&line](std::string_view before, const std::string& text, const char* after) {
    if (!text.empty()) line.append(before).append(text).append(after);
  };
  part("", f.file, ": ");
  part("", f.tensor, ": ");
  line += f.what;
  part("; expected ", f.expected, "");
  part(f.expected.empty() ? "; found " : ", found ", f.found, "");
  part("; ", f.advice, "");
  return printable(line) + "\n";
}

std::string table_row(std::string name, const group_total& want, const group_total& found) {
  constexpr size_t name_width = 32, count_width = 9, bytes_width = 17;
  name.resize(std::max(name.size(), name_width), ' ');
  std::string row = std::move(name);
  row.append(padded(grouped(want.tensors), count_width));
  row.append(padded(grouped(want.bytes), bytes_width));
  if (want == found) return row.append("  ok\n");
  row.append("  found ").append(grouped(found.tensors));
  return row.append(" with ").append(grouped(found.bytes)).append(" bytes\n");
}

std::string table_text(const verify_report& report) {
  std::string out = "group                             tensors            bytes\n";
  for (size_t g = 0; g < tensor_groups; ++g) {
    if (report.expected[g].tensors == 0 && report.found[g].tensors == 0) continue;
    out += table_row(group_name(static_cast<tensor_group>(g), *report.config), report.expected[g],
                     report.found[g]);
  }
  out += table_row("all", sum_of(report.expected), sum_of(report.found));
  if (report.unexpected.tensors == 0) return out;
  out.append("besides: ").append(grouped(report.unexpected.tensors)).append(" tensors with ");
  out.append(grouped(report.unexpected.bytes))
      .append(" bytes that config.json does not call for\n");
  return out;
}

class report_writer {
public:
  std::string write(const verify_report& report) {
    json_.StartObject();
    key("good"), json_.Bool(report.good());
    number("problems", report.problems);
    number("warnings", report.warnings);
    number("scanned_bytes", report.scanned_bytes);
    key("findings");
    json_.StartArray();
    for (const finding& f : report.findings) put(f);
    json_.EndArray();
    key("groups");
    json_.StartArray();
    for (size_t g = 0; report.config && g < tensor_groups; ++g)
      put(group_name(static_cast<tensor_group>(g), *report.config), report.expected[g],
          report.found[g]);
    if (report.config) put("all", sum_of(report.expected), sum_of(report.found));
    json_.EndArray();
    json_.EndObject();
    return {text_.GetString(), text_.GetSize()};
  }

private:
  void key(std::string_view name) {
    json_.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
  }
  void number(std::string_view name, uint64_t value) { key(name), json_.Uint64(value); }
  void text(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    key(name);
    json_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  void put(const finding& f) {
    json_.StartObject();
    text("severity", f.level == severity::problem ? "problem" : "warning");
    text("file", f.file);
    text("tensor", f.tensor);
    text("what", f.what);
    text("expected", f.expected);
    text("found", f.found);
    text("advice", f.advice);
    json_.EndObject();
  }
  void put(const std::string& name, const group_total& want, const group_total& found) {
    json_.StartObject();
    text("group", name);
    number("tensors", want.tensors);
    number("bytes", want.bytes);
    number("found_tensors", found.tensors);
    number("found_bytes", found.bytes);
    json_.EndObject();
  }

  rapidjson::StringBuffer text_;
  rapidjson::Writer<rapidjson::StringBuffer> json_{text_};
};

}  // namespace

std::string verify_text(const verify_report& report) {
  std::string out;
  for (const finding& f : report.findings) out += line_of(f);
  const uint64_t all = report.problems + report.warnings;
  if (all > report.findings.size())
    out.append("... and ").append(grouped(all - report.findings.size())).append(" more\n");
  if (report.config) out += table_text(report);
  if (report.scanned_bytes > 0)
    out.append(grouped(report.scanned_bytes)).append(" bytes of values read\n");
  out.append(report.good() ? "good: " : "not good: ").append(grouped(report.problems));
  out.append(" problems, ").append(grouped(report.warnings)).append(" warnings\n");
  return out;
}

std::string verify_json(const verify_report& report) {
  return report_writer().write(report);
}

}  // namespace deepinfer::model
