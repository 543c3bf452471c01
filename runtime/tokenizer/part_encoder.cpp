#include "runtime/tokenizer/prompt_encoder.hpp"
#include "runtime/tokenizer/text_part.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace deepinfer::text {
namespace {

/// Neighbouring parts [first, last) that one call encodes.
struct encode_job {
  size_t first = 0;
  size_t last = 0;
  size_t bytes = 0;
};

/// One prompt on its way.
class prompt_work {
public:
  prompt_work(const tokenizer& source, const part_encoder_options& options)
      : source_(source), options_(options) {}

  result<std::vector<int32_t>> run(std::string_view scope,
                                   std::string_view text,
                                   std::span<const special_range> specials) {
    parts_ = cut_parts(source_, text, specials, options_.part_bytes);
    made_.resize(parts_.size());
    if (options_.reuse != nullptr) {
      found_ = options_.reuse->find(scope, parts_);
    } else {
      found_.resize(parts_.size());
    }
    encode_missing();
    for (const auto& made : made_)
      if (made && !*made) return made->error();
    std::vector<int32_t> ids = joined();
    if (options_.reuse != nullptr) keep(scope);
    return ids;
  }

private:
  void encode_missing() {
    size_t missing = 0;
    for (size_t i = 0; i < parts_.size(); ++i)
      if (found_[i] == nullptr) missing += parts_[i].text.size();
    const size_t width = options_.runner != nullptr ? options_.runner->width() : 1;
    if (width < 2 || missing < 2 * options_.least_job_bytes) {
      for (size_t i = 0; i < parts_.size(); ++i)
        if (found_[i] == nullptr) encode(i);
      return;
    }
    // Sixteen jobs a thread even out their speeds; the largest first, so that one that could not be
    // cut is not begun last.
    const size_t share = std::max(options_.least_job_bytes, missing / (16 * width));
    std::vector<encode_job> jobs = plan_jobs(share);
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const encode_job& a, const encode_job& b) { return a.bytes > b.bytes; });
    options_.runner->run(jobs.size(), [this, &jobs](size_t number) {
      for (size_t i = jobs[number].first; i < jobs[number].last; ++i)
        if (found_[i] == nullptr) encode(i);
    });
  }

  [[nodiscard]] std::vector<encode_job> plan_jobs(size_t share) const {
    std::vector<encode_job> jobs;
    encode_job open;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (found_[i] != nullptr) continue;
      const size_t bytes = parts_[i].text.size();
      if (open.bytes > 0 && open.bytes + bytes > share) {
        jobs.push_back(open);
        open = {};
      }
      if (open.bytes == 0) open.first = i;
      open.bytes += bytes;
      open.last = i + 1;
    }
    if (open.bytes > 0) jobs.push_back(open);
    return jobs;
  }

  /// Touches `made_[i]` alone, so that parts may be encoded side by side.
  void encode(size_t i) { made_[i] = source_.encode(parts_[i].text, own_specials(parts_[i])); }

  [[nodiscard]] std::span<const int32_t> ids_of(size_t i) const {
    return found_[i] != nullptr ? std::span{found_[i]->ids} : std::span{**made_[i]};
  }

  [[nodiscard]] std::vector<int32_t> joined() const {
    size_t total = 0;
    for (size_t i = 0; i < parts_.size(); ++i) total += ids_of(i).size();
    std::vector<int32_t> ids;
    ids.reserve(total);
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto own = ids_of(i);
      ids.insert(ids.end(), own.begin(), own.end());
    }
    return ids;
  }

  void keep(std::string_view scope) {
    std::vector<std::shared_ptr<const kept_part>> fresh;
    for (size_t i = 0; i < parts_.size(); ++i) {
      // A short last part is open: what the next turn appends goes into it.
      const bool is_open = i + 1 == parts_.size() && parts_[i].text.size() < options_.part_bytes;
      if (found_[i] != nullptr || is_open) continue;
      fresh.push_back(options_.reuse->make(parts_[i], **std::move(made_[i])));
    }
    options_.reuse->keep(scope, fresh);
  }

  const tokenizer& source_;
  const part_encoder_options& options_;
  std::vector<text_part> parts_;
  std::vector<std::shared_ptr<const kept_part>> found_;  // null: encoded now
  std::vector<std::optional<result<std::vector<int32_t>>>> made_;
};

class part_encoder final : public prompt_encoder {
public:
  part_encoder(std::shared_ptr<const tokenizer> source, part_encoder_options options)
      : source_(std::move(source)), options_(std::move(options)) {}

  result<std::vector<int32_t>> encode(std::string_view scope,
                                      std::string_view text,
                                      std::span<const special_range> specials) override {
    if (auto fine = source_->check(text, specials); !fine) return fine.error();
    return prompt_work(*source_, options_).run(scope, text, specials);
  }

private:
  const std::shared_ptr<const tokenizer> source_;
  const part_encoder_options options_;
};

}  // namespace

std::unique_ptr<prompt_encoder> make_part_encoder(std::shared_ptr<const tokenizer> source,
                                                  part_encoder_options options) {
  return std::make_unique<part_encoder>(std::move(source), std::move(options));
}

}  // namespace deepinfer::text
