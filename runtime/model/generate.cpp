#include "runtime/model/generate.hpp"

#include <algorithm>

namespace deepinfer::model {
namespace {

result<void> check_prompt(const model_info& info, std::span<const int32_t> prompt) {
  if (prompt.empty()) return failure{error_code::invalid_argument, "the prompt is empty"};
  if (prompt.size() >= info.context_limit)
    return failure{error_code::too_large,
                   "the prompt has " + std::to_string(prompt.size()) + " tokens, the model takes " +
                       std::to_string(info.context_limit) + " with its output"};
  for (const int32_t id : prompt)
    if (id < 0 || static_cast<uint32_t>(id) >= info.vocabulary)
      return failure{error_code::invalid_argument, "token id " + std::to_string(id) +
                                                       " is not in the vocabulary of " +
                                                       std::to_string(info.vocabulary)};
  return {};
}

result<void> compute(step_model& model, step_item& item) {
  model.step({&item, 1});
  if (item.failed)
    return failure{error_code::internal,
                   "the model could not compute a token (numbers not finite)"};
  return {};
}

}  // namespace

result<generated> generate(step_model& model,
                           std::span<const int32_t> prompt,
                           const generate_options& options,
                           const std::function<bool(int32_t)>& on_token) {
  const model_info& info = model.info();
  if (const auto good = check_prompt(info, prompt); !good) return good.error();
  const auto sequence = model.make_sequence();
  step_item item;
  item.target = sequence.get();
  item.sampling = options.sampling;
  for (size_t first = 0; first < prompt.size(); first += options.chunk_tokens) {
    item.tokens =
        prompt.subspan(first, std::min<size_t>(options.chunk_tokens, prompt.size() - first));
    item.sample = first + item.tokens.size() == prompt.size();
    if (const auto done = compute(model, item); !done) return done.error();
  }
  generated out;
  item.tokens = {};
  while (true) {
    out.tokens.push_back(item.sampled);
    if (!on_token(item.sampled)) return generated{std::move(out.tokens), generate_end::cancelled};
    const bool stops = std::find(info.stop_tokens.begin(), info.stop_tokens.end(), item.sampled) !=
                       info.stop_tokens.end();
    if (stops && !options.ignore_eos) return generated{std::move(out.tokens), generate_end::stop};
    if (out.tokens.size() >= options.max_tokens ||
        prompt.size() + out.tokens.size() >= info.context_limit)
      return out;
    if (const auto done = compute(model, item); !done) return done.error();
  }
}

}  // namespace deepinfer::model
