#include "runtime/model/generate.hpp"

#include "runtime/model/sampler.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace deepinfer::model {
namespace {

failure invalid(std::string what) {
  return failure{error_code::invalid_argument, std::move(what)};
}

result<void> check_options(const generate_options& options) {
  if (options.prompts_in_flight == 0 ||
      options.prompts_in_flight > generate_limits::prompts_in_flight)
    return invalid("prompts in flight must be 1.." +
                   std::to_string(generate_limits::prompts_in_flight));
  if (options.chunk_tokens == 0) return invalid("a chunk must have at least one token");
  if (options.draft_tokens > generate_limits::draft_tokens)
    return invalid("at most " + std::to_string(generate_limits::draft_tokens) +
                   " tokens can be drafted");
  return {};
}

// Ascending, apart from each other and inside the prompt.
bool images_fit(const generate_prompt& prompt) {
  uint64_t free_from = 0;
  for (const image_rows& image : prompt.images) {
    if (image.rows == nullptr || image.count == 0 || image.position < free_from) return false;
    free_from = uint64_t{image.position} + image.count;
    if (free_from > prompt.tokens.size()) return false;
  }
  return true;
}

result<void> check_prompt(const model_info& info, const generate_prompt& prompt) {
  if (prompt.tokens.empty()) return invalid("the prompt is empty");
  if (prompt.tokens.size() >= info.context_limit)
    return failure{error_code::too_large, "the prompt has " + std::to_string(prompt.tokens.size()) +
                                              " tokens, the model takes " +
                                              std::to_string(info.context_limit) +
                                              " with its output"};
  for (const int32_t id : prompt.tokens)
    if (id < 0 || static_cast<uint32_t>(id) >= info.vocabulary)
      return invalid("token id " + std::to_string(id) + " is not in the vocabulary of " +
                     std::to_string(info.vocabulary));
  if (!images_fit(prompt)) return invalid("the images overlap, are not in order or reach out");
  if (prompt.max_tokens == 0) return invalid("max_tokens must be at least 1");
  return validate(prompt.sampling);
}

// A prompt whose turn has come.
struct running {
  size_t index;
  const generate_prompt* prompt;
  generated* out;
  std::unique_ptr<sequence> state;
  uint32_t drafts_asked = 0;  ///< in the step at hand
  bool over = false;

  [[nodiscard]] bool reads() const { return state->computed_tokens() < prompt->tokens.size(); }
};

class generation {
public:
  generation(step_model& model, const generate_options& options, const token_callback& on_token)
      : model_(model), options_(options), on_token_(on_token) {}

  std::vector<generated> run(std::span<const generate_prompt> prompts) {
    std::vector<generated> out(prompts.size());
    size_t waiting = 0;
    while (true) {
      for (; active_.size() < options_.prompts_in_flight && waiting < prompts.size(); ++waiting)
        active_.push_back({waiting, &prompts[waiting], &out[waiting], model_.make_sequence()});
      if (active_.empty()) return out;
      step();
    }
  }

private:
  void step() {
    items_.clear();
    for (running& r : active_) items_.push_back(r.reads() ? piece_of_prompt(r) : next_token(r));
    model_.step(items_);
    for (size_t i = 0; i < items_.size(); ++i) settle(active_[i], items_[i]);
    std::erase_if(active_, [](const running& r) { return r.over; });
  }

  step_item piece_of_prompt(running& r) const {
    const uint32_t at = r.state->computed_tokens();
    const auto left = static_cast<uint32_t>(r.prompt->tokens.size()) - at;
    const uint32_t count = std::min(left, options_.chunk_tokens);
    step_item item;
    item.target = r.state.get();
    item.tokens = r.prompt->tokens.subspan(at, count);
    item.tokens_to_come = left - count;
    item.images = r.prompt->images;
    item.sample = count == left;
    item.sampling = r.prompt->sampling;
    return item;
  }

  // Drafts that could not be emitted are not worth their rows.
  step_item next_token(running& r) const {
    const auto made = static_cast<uint32_t>(r.out->tokens.size());
    const uint32_t room = model_.info().context_limit - r.state->computed_tokens();
    r.drafts_asked = std::min({options_.draft_tokens, r.prompt->max_tokens - made - 1, room - 1});
    ++r.out->steps;
    r.out->drafted += r.drafts_asked;
    step_item item;
    item.target = r.state.get();
    item.sample = true;
    item.sampling = r.prompt->sampling;
    item.draft_tokens = r.drafts_asked;
    return item;
  }

  void settle(running& r, const step_item& item) {
    for (const int32_t token : item.accepted) {
      if (r.over) return;
      ++r.out->accepted;
      emit(r, token);
    }
    if (item.failed && !r.over) end(r, generate_end::failed);
    if (item.sample && !r.over) emit(r, item.sampled);
  }

  void emit(running& r, int32_t token) {
    const model_info& info = model_.info();
    std::vector<int32_t>& tokens = r.out->tokens;
    tokens.push_back(token);
    if (!on_token_(r.index, token)) return end(r, generate_end::cancelled);
    const bool stops = std::ranges::find(info.stop_tokens, token) != info.stop_tokens.end();
    if (stops && !r.prompt->ignore_eos) return end(r, generate_end::stop);
    if (tokens.size() >= r.prompt->max_tokens ||
        r.prompt->tokens.size() + tokens.size() >= info.context_limit)
      end(r, generate_end::length);
  }

  static void end(running& r, generate_end why) {
    r.out->end = why;
    r.over = true;
  }

  step_model& model_;
  const generate_options& options_;
  const token_callback& on_token_;
  std::vector<running> active_;
  std::vector<step_item> items_;
};

}  // namespace

result<std::vector<generated>> generate(step_model& model,
                                        std::span<const generate_prompt> prompts,
                                        const generate_options& options,
                                        const token_callback& on_token) {
  if (const auto good = check_options(options); !good) return good.error();
  for (size_t i = 0; i < prompts.size(); ++i)
    if (const auto good = check_prompt(model.info(), prompts[i]); !good)
      return failure{good.error().code, prompts.size() == 1 ? good.error().detail
                                                            : "prompt " + std::to_string(i) + ": " +
                                                                  good.error().detail};
  return generation(model, options, on_token).run(prompts);
}

}  // namespace deepinfer::model
