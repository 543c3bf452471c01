#include "runtime/model/v41_model.hpp"

#include "proto/types/check.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/layout_fingerprint.hpp"
#include "runtime/model/sampler.hpp"
#include "runtime/model/v41_graph.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace deepinfer::model {

// Members refer to each other, so they live at one address; the order is that of their making.
struct v41_model::internals {
  checkpoint files;
  v41_config config;
  kernels::op_table ops;
  v41_weights weights;
  std::optional<engram_hash> engram;
  v41_options options;
  model_info info;
  graph_context context{config, weights, ops, options.level};
  v41_graph graph{context, engram ? &*engram : nullptr};
  std::vector<float> logits;

  internals(checkpoint f,
            v41_config c,
            const kernels::op_table& o,
            v41_weights w,
            std::optional<engram_hash> e,
            const v41_options& opt)
      : files(std::move(f)),
        config(std::move(c)),
        ops(o),
        weights(std::move(w)),
        engram(std::move(e)),
        options(opt) {}
};

namespace {

constexpr size_t logit_rows = 16;  // logits held at once

kernels::op_table make_ops(kernel_backend backend) {
  kernels::op_table ops;
  if (backend == kernel_backend::reference) {
    kernels::register_ref(ops);
  } else {
    kernels::register_cpu(ops);
  }
  return ops;
}

model_info make_info(const checkpoint& files,
                     const v41_config& config,
                     const v41_options& options,
                     uint64_t layout) {
  model_info info;
  info.name = files.name();
  info.vocabulary = config.vocabulary;
  info.context_limit = options.context_limit == 0
                           ? config.max_positions
                           : std::min(options.context_limit, config.max_positions);
  info.stop_tokens = config.stop_tokens;
  info.layout = layout;
  info.state_bytes_per_token = state_bytes_per_token(config);
  info.state_bytes_fixed = state_bytes_fixed(config);
  return info;
}

std::span<const int32_t> tokens_of(const step_item& item, const int32_t& last) {
  return item.tokens.empty() ? std::span(&last, 1) : item.tokens;
}

bool in_vocabulary(std::span<const int32_t> tokens, uint32_t vocabulary) {
  return std::ranges::all_of(
      tokens, [=](int32_t t) { return t >= 0 && static_cast<uint32_t>(t) < vocabulary; });
}

std::vector<float> all_rows(const row_pages& pages) {
  std::vector<float> out;
  for (uint32_t i = 0; i < pages.size(); ++i)
    out.insert(out.end(), pages.row(i), pages.row(i) + pages.width());
  return out;
}

}  // namespace

v41_model::v41_model(std::unique_ptr<internals> p) : inner_(std::move(p)) {}
v41_model::~v41_model() = default;

result<std::unique_ptr<v41_model>> v41_model::load(const std::filesystem::path& folder,
                                                   const v41_options& options) {
  if (options.pass_rows == 0)
    return failure{error_code::invalid_argument, "pass_rows must be above 0"};
  auto files = checkpoint::open(folder);
  if (!files) return files.error();
  auto config = parse_v41_config(files->config_text());
  if (!config) return config.error();
  std::optional<engram_hash> engram;
  std::string side_file;
  if (!config->engram.layers.empty()) {
    auto text = read_text(files->folder() / "engram_meta.json", checkpoint_limits::side_file_bytes);
    if (!text) return text.error();
    side_file = *std::move(text);
    auto hash = engram_hash::make(config->engram, config->vocabulary, side_file);
    if (!hash) return hash.error();
    engram = *std::move(hash);
  }
  const kernels::op_table ops = make_ops(options.backend);
  auto weights = load_v41_weights(*files, *config, ops, options.most_weight_bytes);
  if (!weights) return weights.error();
  const uint64_t layout = layout_fingerprint(*files, side_file, options.level);
  model_info info = make_info(*files, *config, options, layout);
  auto p = std::make_unique<internals>(*std::move(files), *std::move(config), ops,
                                       *std::move(weights), std::move(engram), options);
  p->info = std::move(info);
  return std::unique_ptr<v41_model>(new v41_model(std::move(p)));
}

const model_info& v41_model::info() const {
  return inner_->info;
}
const v41_config& v41_model::config() const {
  return inner_->config;
}

std::unique_ptr<sequence> v41_model::make_sequence() const {
  return std::make_unique<v41_sequence>(inner_->config);
}

bool v41_model::acceptable(const step_item& item) const {
  const int32_t last = item.target->last_sampled();
  const auto tokens = tokens_of(item, last);
  return tokens.size() <= inner_->info.context_limit - item.target->computed_tokens() &&
         in_vocabulary(tokens, inner_->info.vocabulary) &&
         (!item.sample || validate(item.sampling).has_value());
}

void v41_model::finish(step_item& item, std::span<const float> logits) const {
  // A logit that is no number means broken weights or state: no token may come of it.
  const bool finite = std::ranges::all_of(logits, [](float v) { return std::isfinite(v); });
  const auto token = finite ? choose_token(logits, item.sampling, item.target->computed_tokens())
                            : result<int32_t>(failure{});
  item.failed = !token;
  if (!token) return;
  item.sampled = *token;
  item.target->set_last_sampled(*token);
}

// Cuts the items into passes of at most `pass_rows` rows. Where the cuts fall changes no bit.
void v41_model::step(std::span<step_item> items) {
  std::vector<int32_t> last(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    last[i] = items[i].target->last_sampled();
    items[i].sampled = -1;
    items[i].failed = !acceptable(items[i]);
  }
  const uint32_t vocabulary = inner_->info.vocabulary;
  size_t item = 0, done = 0;  // the next token to compute
  while (item < items.size()) {
    std::vector<graph_segment> segments;
    std::vector<uint32_t> rows;
    std::vector<step_item*> sampling;
    uint32_t used = 0;
    for (; item < items.size() && used < inner_->options.pass_rows; ++item, done = 0) {
      if (items[item].failed) continue;
      const auto tokens = tokens_of(items[item], last[item]).subspan(done);
      const size_t count = std::min<size_t>(tokens.size(), inner_->options.pass_rows - used);
      segments.push_back(
          {static_cast<v41_sequence*>(items[item].target), tokens.first(count), used});
      used += static_cast<uint32_t>(count);
      if (count < tokens.size()) {
        done += count;
        break;
      }
      if (!items[item].sample) continue;
      rows.push_back(used - 1);
      sampling.push_back(&items[item]);
    }
    if (segments.empty()) break;
    inner_->graph.run(segments, {});
    // In groups, so that the head's weights are read once for several rows.
    for (size_t first = 0; first < rows.size(); first += logit_rows) {
      const size_t count = std::min(logit_rows, rows.size() - first);
      float* logits = room(inner_->logits, count * vocabulary);
      inner_->graph.logits(std::span(rows).subspan(first, count), logits);
      for (size_t i = 0; i < count; ++i)
        finish(*sampling[first + i], std::span(logits + i * vocabulary, vocabulary));
    }
  }
}

std::vector<state_part> v41_model::export_state(const sequence& from) const {
  return export_sequence(static_cast<const v41_sequence&>(from), inner_->config,
                         inner_->info.layout);
}

result<std::unique_ptr<sequence>> v41_model::import_state(std::span<const state_part> parts,
                                                          std::span<const int32_t> tokens) const {
  if (tokens.size() > inner_->info.context_limit)
    return failure{error_code::invalid_argument, "the sequence is longer than the context limit"};
  if (!in_vocabulary(tokens, inner_->info.vocabulary))
    return failure{error_code::invalid_argument, "a token lies outside the vocabulary"};
  std::vector<int64_t> look_back(inner_->config.engram.longest_ngram - 1, engram_hash::no_token);
  for (size_t i = 0; inner_->engram && i < std::min(look_back.size(), tokens.size()); ++i)
    look_back[i] = inner_->engram->compressed(tokens[tokens.size() - 1 - i]);
  auto imported = import_sequence(parts, inner_->config, inner_->info.layout,
                                  static_cast<uint32_t>(tokens.size()), look_back);
  if (!imported) return imported.error();
  return std::unique_ptr<sequence>(*std::move(imported));
}

result<forward_result> v41_model::forward(std::span<const int32_t> tokens,
                                          const forward_options& options) {
  const model_info& info = inner_->info;
  if (tokens.empty() || tokens.size() > info.context_limit)
    return failure{error_code::invalid_argument,
                   "forward needs 1.." + std::to_string(info.context_limit) + " tokens"};
  if (!in_vocabulary(tokens, info.vocabulary))
    return failure{error_code::invalid_argument,
                   "a token lies outside the vocabulary of " + std::to_string(info.vocabulary)};
  forward_result out;
  out.rows = static_cast<uint32_t>(tokens.size());
  out.logits.resize(tokens.size() * info.vocabulary);
  if (options.per_layer) out.layers.resize(inner_->config.layers);
  v41_sequence target(inner_->config);
  const size_t chunk = options.chunk == 0 ? inner_->options.pass_rows
                                          : std::min(options.chunk, inner_->options.pass_rows);
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    const graph_segment segment{
        &target, tokens.subspan(first).first(std::min(chunk, tokens.size() - first)), 0};
    std::vector<uint32_t> rows(segment.rows());
    for (uint32_t i = 0; i < segment.rows(); ++i) rows[i] = i;
    inner_->graph.run({&segment, 1}, out.layers);
    inner_->graph.logits(rows, out.logits.data() + first * info.vocabulary);
  }
  for (const kv_source_state& source : target.sources) {
    out.entries.push_back(all_rows(source.entries));
    out.index_keys.push_back(all_rows(source.index_keys));
  }
  return out;
}

result<std::unique_ptr<step_model>> make_v41_model(const std::filesystem::path& folder,
                                                   const v41_options& options) {
  auto model = v41_model::load(folder, options);
  if (!model) return model.error();
  return std::unique_ptr<step_model>(*std::move(model));
}

}  // namespace deepinfer::model
