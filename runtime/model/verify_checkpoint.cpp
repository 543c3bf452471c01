#include "runtime/model/verify_checkpoint.hpp"

#include "runtime/model/checkpoint.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/verify_parts.hpp"
#include "runtime/model/vision_config.hpp"

#include <utility>

namespace deepinfer::model {
namespace {

struct whole_config {
  v41_config text;
  std::vector<table_entry> table;
};

std::optional<whole_config> read_config(const std::filesystem::path& folder,
                                        verify::notebook& notes) {
  const auto refused = [&notes](const failure& why, const char* advice) {
    notes.problem({.file = "config.json", .what = why.detail, .advice = advice});
    return std::nullopt;
  };
  const auto text = read_text(folder / "config.json", checkpoint_limits::config_bytes);
  if (!text) return refused(text.error(), "copy config.json from where the weights came from");
  constexpr const char* repair = "correct the field, or take config.json from the weights' source";
  auto config = parse_v41_config(*text);
  if (!config) return refused(config.error(), repair);
  const auto vision = parse_vision_config(*text);
  if (!vision) return refused(vision.error(), repair);
  auto table = make_tensor_table(*config, *vision);
  if (!table) return refused(table.error(), repair);
  return whole_config{*std::move(config), *std::move(table)};
}

}  // namespace

void verify::notebook::add(severity level, finding what) {
  what.level = level;
  ++(level == severity::problem ? report_.problems : report_.warnings);
  if (report_.findings.size() < most_) report_.findings.push_back(std::move(what));
}

verify_report verify_checkpoint(const std::filesystem::path& folder,
                                const verify_options& options) {
  verify_report report;
  verify::notebook notes(report, options.most_findings);
  const auto config = read_config(folder, notes);
  const verify::contents held = verify::read_contents(folder, notes);
  if (config) {
    report.config = config->text;
    verify::compare_with_table(held, config->table, config->text, notes);
    verify::check_side_files(folder, config->text, options, notes);
  }
  if (options.depth == verify_depth::data) verify::scan_data(held, options, notes);
  return report;
}

}  // namespace deepinfer::model
