#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/graph_pass.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace deepinfer::model {

enum class kernel_backend : uint8_t {
  cpu,        ///< fp32 on the host
  reference,  ///< double, slow: tells a wrong kernel from a wrong graph
};

struct v41_options {
  numeric_level level = numeric_level::L1;
  uint32_t context_limit = 0;  ///< 0: what the checkpoint allows; more than that is cut to it
  uint64_t most_weight_bytes = uint64_t{16} << 30;  ///< fp32 copies of the weights
  uint32_t pass_rows = 256;  ///< rows computed at once; bounds the scratch memory
  kernel_backend backend = kernel_backend::cpu;
};

struct forward_result {
  uint32_t rows = 0;
  std::vector<float> logits;                   ///< [rows][vocabulary]
  std::vector<layer_record> layers;            ///< empty unless asked for
  std::vector<std::vector<float>> entries;     ///< per KV source, [.][head width]
  std::vector<std::vector<float>> index_keys;  ///< per KV source, [.][index width]
};

struct forward_options {
  bool per_layer = false;
  uint32_t chunk = 0;  ///< tokens per pass; 0: the model's pass_rows
};

/// A checkpoint of the DeepSeek-V4.1 family, text part, on the CPU. The interface of `step_model`
/// and what tests and tools need besides. Not thread-safe, as `step_model` says.
class v41_model final : public step_model {
public:
  /// Fails as `checkpoint::open`, `parse_v41_config`, `load_v41_weights` and `engram_hash::make`
  /// do.
  [[nodiscard]] static result<std::unique_ptr<v41_model>> load(const std::filesystem::path& folder,
                                                               const v41_options& options);
  ~v41_model() override;

  [[nodiscard]] const model_info& info() const override;
  [[nodiscard]] const v41_config& config() const;
  [[nodiscard]] std::unique_ptr<sequence> make_sequence() const override;
  void step(std::span<step_item> items) override;
  [[nodiscard]] std::vector<state_part> export_state(const sequence& from) const override;
  [[nodiscard]] result<std::unique_ptr<sequence>> import_state(
      std::span<const state_part> parts, std::span<const int32_t> tokens) const override;

  /// Logits of every position of a fresh sequence; `invalid_argument` for tokens outside the
  /// vocabulary or too many of them.
  [[nodiscard]] result<forward_result> forward(std::span<const int32_t> tokens,
                                               const forward_options& options);

private:
  struct internals;
  explicit v41_model(std::unique_ptr<internals> p);

  [[nodiscard]] bool acceptable(const step_item& item) const;
  void finish(step_item& item, std::span<const float> logits) const;

  std::unique_ptr<internals> inner_;
};

/// The model behind its general interface.
[[nodiscard]] result<std::unique_ptr<step_model>> make_v41_model(
    const std::filesystem::path& folder, const v41_options& options);

}  // namespace deepinfer::model
