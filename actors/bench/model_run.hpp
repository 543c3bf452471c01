#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/random_shape.hpp"
#include "runtime/model/v41_model.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace deepinfer::bench {

struct run_settings {
  model::numeric_level level = model::numeric_level::L1;
  uint32_t threads = 1;
};

/// One measured piece of work, per step where steps were asked for.
struct timed_work {
  double seconds = 0;
  model::linear_work work;
  uint64_t state_bytes = 0;  ///< of all sequences behind it
};

struct decode_plan {
  uint32_t batch = 1;
  uint32_t context = 0;  ///< tokens of each sequence before the first step
  uint32_t steps = 1;
  uint32_t logprobs = 0;  ///< as in `sampling_params`
};

/// A loaded model and what `bench model` does with it; tokens are random and fixed.
class model_run {
public:
  [[nodiscard]] static result<std::unique_ptr<model_run>> load(const std::filesystem::path& folder,
                                                               const run_settings& settings);

  /// A fresh prompt of so many tokens, its first output sampled.
  [[nodiscard]] result<timed_work> prefill(uint32_t tokens);
  /// Steps of a batch; the sequences are made outside of the measured time. Two steps go before it.
  [[nodiscard]] result<timed_work> decode(const decode_plan& plan);

  [[nodiscard]] uint64_t mapped_bytes() const { return model_->mapped_bytes(); }

private:
  model_run(std::unique_ptr<model::v41_model> model, uint32_t threads)
      : model_(std::move(model)), threads_(threads) {}
  [[nodiscard]] std::vector<int32_t> tokens(uint32_t count, uint64_t seed) const;
  [[nodiscard]] result<void> step(std::vector<model::step_item>& items);

  std::unique_ptr<model::v41_model> model_;
  uint32_t threads_;
};

/// A checkpoint folder; one made for the run goes away with its owner.
class bench_checkpoint {
public:
  bench_checkpoint(std::filesystem::path path, bool own) : path_(std::move(path)), own_(own) {}
  bench_checkpoint(bench_checkpoint&& other) noexcept
      : path_(std::move(other.path_)), own_(std::exchange(other.own_, false)) {}
  bench_checkpoint& operator=(bench_checkpoint&&) = delete;
  ~bench_checkpoint();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
  bool own_;
};

/// `given`, or a random checkpoint in the temporary folder.
[[nodiscard]] result<bench_checkpoint> use_or_make(const std::filesystem::path& given,
                                                   model::random_shape shape);

/// Seconds to read all files of the folder through a small buffer.
[[nodiscard]] result<double> time_plain_read(const std::filesystem::path& folder);
/// Seconds to load the model.
[[nodiscard]] result<double> time_load(const std::filesystem::path& folder,
                                       model::numeric_level level);

/// Resident bytes of this process.
struct resident_size {
  uint64_t own = 0;   ///< anonymous memory
  uint64_t file = 0;  ///< pages of mapped files
};
[[nodiscard]] resident_size resident_now();

}  // namespace deepinfer::bench
