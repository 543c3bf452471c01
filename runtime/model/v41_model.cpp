#include "runtime/model/v41_model.hpp"

#include "proto/types/check.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/model/engram_hash.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/layout_fingerprint.hpp"
#include "runtime/model/v41_stepper.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace deepinfer::model {

// Members refer to each other, so they live at one address; the order is that of their making.
struct v41_model::internals {
  checkpoint files;
  v41_config config;
  kernels::cpu_device_ptr device;  ///< null: the caller's thread alone
  kernels::op_table ops;
  v41_weights weights;
  std::optional<engram_hash> engram;
  v41_options options;
  replay_setting replay;
  model_info info;
  linear_work work;
  graph_context context;
  v41_stepper stepper;

  internals(checkpoint f,
            v41_config c,
            kernels::cpu_device_ptr d,
            const kernels::op_table& o,
            v41_weights w,
            std::optional<engram_hash> e,
            const v41_options& opt,
            replay_setting r,
            model_info i)
      : files(std::move(f)),
        config(std::move(c)),
        device(std::move(d)),
        ops(o),
        weights(std::move(w)),
        engram(std::move(e)),
        options(opt),
        replay(r),
        info(std::move(i)),
        context{
            config,        weights,        ops,   device ? stream_of(*device) : kernels::stream{},
            options.level, options.replay, &work, options.swap_wait},
        stepper(context,
                engram ? &*engram : nullptr,
                info,
                {options.pass_rows, replay, options.draft_tokens}) {}
};

namespace {

constexpr uint32_t default_kept_beyond_window = 12;

kernels::op_table make_ops(const v41_options& options) {
  kernels::op_table ops;
  if (options.backend == kernel_backend::reference) {
    kernels::register_ref(ops);
  } else {
    kernels::register_cpu(ops, options.isa.value_or(kernels::best_cpu_isa()));
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
  info.state_bytes_per_token = state_bytes_per_token(config, options.level);
  info.state_bytes_fixed = state_bytes_fixed(config, options.level);
  return info;
}

// Compressed ids of a prompt's last tokens, the latest first; is_image(place) of one is asked.
template <class Predicate>
std::vector<int64_t> last_ids(const v41_config& config,
                              const std::optional<engram_hash>& engram,
                              std::span<const int32_t> tokens,
                              const Predicate& is_image) {
  std::vector<int64_t> ids(config.engram.longest_ngram - 1, engram_hash::no_token);
  for (size_t i = 0; engram && i < std::min(ids.size(), tokens.size()); ++i) {
    const size_t at = tokens.size() - 1 - i;
    if (!is_image(at)) ids[i] = engram->compressed(tokens[at]);
  }
  return ids;
}

// The rows of a store as fp32.
std::vector<float> all_rows(const graph_context& context, const row_pages& pages, uint32_t width) {
  std::vector<float> out(size_t{pages.size()} * width);
  kernels::stream queue = context.queue;
  for (uint32_t i = 0; i < pages.size(); ++i)
    context.ops.unpack_rows(
        queue, {out.data() + size_t{i} * width, pages.row(i), 1, width, pages.view().format});
  return out;
}

result<void> check_options(const v41_options& options, const v41_config& config) {
  if (options.pass_rows <= ring_slack)
    return failure{error_code::invalid_argument,
                   "pass_rows must be above " + std::to_string(ring_slack)};
  if (options.kept_rows.value_or(0) != 0 && *options.kept_rows < config.window)
    return failure{
        error_code::invalid_argument,
        "kept_rows must be 0 (all) or at least the window, " + std::to_string(config.window)};
  if (options.draft_tokens >= ring_slack)
    return failure{error_code::invalid_argument,
                   "at most " + std::to_string(ring_slack - 1) + " tokens can be drafted"};
  return {};
}

// Engines exchange state when these agree; another replay makes other rows of the same tokens.
uint64_t layout_of(uint64_t content, const v41_options& options) {
  if (!options.kept_rows && options.replay == replay_variant::late) return content;
  const std::string text =
      std::to_string(content) + " kept " +
      (options.kept_rows ? std::to_string(*options.kept_rows) : std::string("default")) +
      " variant " + std::to_string(static_cast<int>(options.replay));
  return digest_of(text).lo;
}

}  // namespace

v41_model::v41_model(std::unique_ptr<internals> p) : inner_(std::move(p)) {}
v41_model::~v41_model() = default;

result<std::unique_ptr<v41_model>> v41_model::load(const std::filesystem::path& folder,
                                                   const v41_options& options) {
  auto files = checkpoint::open(folder);
  if (!files) return files.error();
  auto config = parse_v41_config(files->config_text());
  if (!config) return config.error();
  if (auto ok = check_options(options, *config); !ok) return ok.error();
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
  const kernels::op_table ops = make_ops(options);
  auto weights = load_v41_weights(*files, *config, ops);
  if (!weights) return weights.error();
  if (options.draft_tokens != 0 && !weights->drafter)
    return failure{error_code::invalid_argument,
                   files->name() + ": the checkpoint has no drafter; set the draft tokens to 0"};
  kernels::cpu_device_ptr device;
  if (options.threads > 1 && options.backend == kernel_backend::cpu) {
    device = kernels::make_cpu_device({.threads = options.threads});
    if (device == nullptr)
      return failure{error_code::no_capacity, "cannot start " + std::to_string(options.threads) +
                                                  " threads for the kernels; use fewer"};
  }
  const uint64_t layout = layout_of(layout_fingerprint(*files, side_file, options.level), options);
  const replay_setting replay{
      options.kept_rows.value_or(config->window + default_kept_beyond_window)};
  model_info info = make_info(*files, *config, options, layout);
  return std::unique_ptr<v41_model>(new v41_model(std::make_unique<internals>(
      *std::move(files), *std::move(config), std::move(device), ops, *std::move(weights),
      std::move(engram), options, replay, std::move(info))));
}

const model_info& v41_model::info() const {
  return inner_->info;
}
const v41_config& v41_model::config() const {
  return inner_->config;
}

const linear_work& v41_model::work() const {
  return inner_->work;
}
uint64_t v41_model::mapped_bytes() const {
  return inner_->weights.mapped_bytes;
}
uint64_t v41_model::resident_bytes() const {
  return inner_->weights.resident_bytes;
}

std::unique_ptr<sequence> v41_model::make_sequence() const {
  return std::make_unique<v41_sequence>(inner_->config, inner_->options.level);
}

void v41_model::step(std::span<step_item> items) {
  inner_->stepper.step(items);
}

std::vector<state_part> v41_model::export_state(const sequence& from) const {
  const auto& state = static_cast<const v41_sequence&>(from);
  if (!state.arrived()) return {};
  return export_sequence(state, inner_->config, inner_->info.layout);
}

std::vector<state_part> v41_model::export_blocks(const sequence& from,
                                                 uint32_t first,
                                                 uint32_t count) const {
  const auto& state = static_cast<const v41_sequence&>(from);
  const uint32_t full = state.computed / block_tokens;
  if (!state.arrived() || first > full || count > full - first) return {};
  return model::export_blocks(state, {first, first + count});
}

std::vector<state_part> v41_model::export_rings(const sequence& from) const {
  const auto& state = static_cast<const v41_sequence&>(from);
  if (!state.arrived() || state.computed % block_tokens != 0) return {};
  return model::export_rings(state, inner_->config, inner_->info.layout);
}

uint64_t v41_model::block_bytes() const {
  const v41_config& c = inner_->config;
  const bool differ = std::ranges::any_of(
      c.kv_sources, [&c](uint32_t layer) { return block_tokens % c.ratios[layer] != 0; });
  return differ ? 0 : model::block_bytes(c, inner_->options.level, 0);
}

// Where its image tokens stand for images.
std::vector<int64_t> v41_model::look_back(std::span<const int32_t> tokens) const {
  return last_ids(inner_->config, inner_->engram, tokens,
                  [this, tokens](size_t at) { return tokens[at] == inner_->config.image_token; });
}

// Where the images are known.
std::vector<int64_t> v41_model::look_back(std::span<const int32_t> tokens,
                                          std::span<const image_rows> images) const {
  return last_ids(inner_->config, inner_->engram, tokens, [images](size_t at) {
    return std::ranges::any_of(images, [at](const image_rows& image) {
      return at >= image.position && at - image.position < image.count;
    });
  });
}

result<std::unique_ptr<sequence>> v41_model::import_state(std::span<const state_part> parts,
                                                          std::span<const int32_t> tokens) const {
  if (tokens.size() > inner_->info.context_limit)
    return failure{error_code::invalid_argument, "the sequence is longer than the context limit"};
  if (!in_vocabulary(tokens, inner_->info.vocabulary))
    return failure{error_code::invalid_argument, "a token lies outside the vocabulary"};
  auto imported =
      import_sequence(parts, {inner_->config, inner_->options.level, inner_->info.layout,
                              static_cast<uint32_t>(tokens.size()), look_back(tokens)});
  if (!imported) return imported.error();
  return std::unique_ptr<sequence>(*std::move(imported));
}

restore_plan v41_model::plan_restore(uint32_t prompt_tokens,
                                     uint32_t blocks,
                                     restore_mode mode) const {
  return plan_prefix(inner_->config, inner_->replay, {blocks, prompt_tokens}, mode);
}

result<restored_sequence> v41_model::begin_restore(const restore_source& from) const {
  const auto refuse = [](const char* why) { return failure{error_code::invalid_argument, why}; };
  if (from.hit >= from.prompt.size() || from.hit % block_tokens != 0)
    return refuse("a prefix hit must be whole blocks and end before the prompt does");
  if (from.prompt.size() > inner_->info.context_limit)
    return refuse("the prompt is longer than the context limit");
  const prefix_hit at{from.hit, static_cast<uint32_t>(from.prompt.size())};
  if (usable_hit(inner_->replay, at, from.mode) != from.hit)
    return refuse("a prefix hit with kept rings must end before the rows of decoder replay");
  if (!in_vocabulary(from.prompt, inner_->info.vocabulary))
    return refuse("a token lies outside the vocabulary");
  const auto target = [&](std::vector<int64_t> ids) {
    return import_target{inner_->config, inner_->options.level, inner_->info.layout, from.hit,
                         std::move(ids)};
  };
  if (from.mode == restore_mode::ring)
    return adopt_prefix_with_rings(from.rings, target(look_back(from.prompt.first(from.hit))));
  if (!from.rings.empty()) return refuse("a restore without kept rings takes none");
  const uint32_t start = restore_start(inner_->config, inner_->replay, at, from.mode);
  restored_sequence begun =
      adopt_prefix(target(look_back(from.prompt.first(start), from.images)), start);
  if (from.mode == restore_mode::exact)
    static_cast<v41_sequence&>(*begun.state).cone = exact_cone(inner_->config, inner_->replay, at);
  return begun;
}

result<std::unique_ptr<sequence>> v41_model::restore(const prefix_source& from,
                                                     restore_mode mode) const {
  std::vector<std::span<const std::byte>> blocks(from.hit / block_tokens);
  std::vector<state_part> rings;
  for (const state_part& part : from.parts) {
    if (part.kind != part_kind::block) {
      rings.push_back(part);
    } else if (part.index >= blocks.size() || blocks[part.index].data() != nullptr) {
      return failure{error_code::invalid_argument, "a block of the prefix is too many"};
    } else {
      blocks[part.index] = part.bytes;
    }
  }
  auto begun = begin_restore({from.prompt, from.hit, mode, rings, from.images});
  if (!begun) return begun.error();
  if (begun->loading)
    if (auto done = load_all(*begun->loading, blocks); !done) return done.error();
  return std::move(begun->state);
}

result<draft_proposal> v41_model::draft(sequence& behind, int32_t anchor) {
  v41_drafter* drafter = inner_->stepper.drafter();
  if (drafter == nullptr)
    return failure{error_code::invalid_argument, "the model was loaded without drafts"};
  if (!in_vocabulary({&anchor, 1}, inner_->info.vocabulary))
    return failure{error_code::invalid_argument, "a token lies outside the vocabulary"};
  auto* target = static_cast<v41_sequence*>(&behind);
  return std::move(drafter->draft({&target, 1}, {&anchor, 1}, v41_drafter::detail::logits).front());
}

result<forward_result> v41_model::forward(std::span<const int32_t> tokens,
                                          const forward_options& options) {
  const model_info& info = inner_->info;
  const v41_config& c = inner_->config;
  if (tokens.empty() || tokens.size() > info.context_limit)
    return failure{error_code::invalid_argument,
                   "forward needs 1.." + std::to_string(info.context_limit) + " tokens"};
  if (!in_vocabulary(tokens, info.vocabulary))
    return failure{error_code::invalid_argument,
                   "a token lies outside the vocabulary of " + std::to_string(info.vocabulary)};
  std::vector<const float*> instead(options.images.empty() ? 0 : tokens.size(), nullptr);
  for (const image_rows& image : options.images)
    for (uint32_t i = 0; i < image.count && image.position + i < tokens.size(); ++i)
      instead[image.position + i] = image.rows + size_t{i} * c.width;
  const auto count = static_cast<uint32_t>(tokens.size());
  forward_result out;
  out.first = kept_from(count, {options.kept_rows});
  if (options.per_layer) out.layers.resize(c.layers);
  v41_graph& graph = inner_->stepper.graph();
  v41_sequence target(c, inner_->options.level);
  const uint32_t pass_rows = inner_->options.pass_rows;
  const uint32_t chunk = options.chunk == 0 ? pass_rows : std::min(options.chunk, pass_rows);
  for (uint32_t first = 0; first < count; first += chunk) {
    graph_segment segment{.target = &target,
                          .tokens = tokens.subspan(first, std::min(chunk, count - first)),
                          .start = first,
                          .kept_from = out.first};
    if (!instead.empty()) segment.instead = std::span(instead).subspan(first, segment.rows());
    graph.run({&segment, 1}, {out.layers, options.teacher, first, options.taps});
    const uint32_t rows = graph.finished().rows;
    std::vector<uint32_t> every(rows);
    for (uint32_t i = 0; i < rows; ++i) every[i] = i;
    out.logits.resize((size_t{out.rows} + rows) * info.vocabulary);
    graph.logits(every, out.logits.data() + size_t{out.rows} * info.vocabulary);
    const size_t tap_width = c.drafter.target_layers.size() * c.width;
    if (options.taps)
      out.taps.insert(out.taps.end(), graph.taps().begin(),
                      graph.taps().begin() + static_cast<std::ptrdiff_t>(rows * tap_width));
    out.rows += rows;
  }
  for (const kv_source_state& source : target.sources) {
    out.entries.push_back(all_rows(inner_->context, source.entries, c.head_width));
    out.index_keys.push_back(all_rows(inner_->context, source.index_keys, c.index_width));
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
