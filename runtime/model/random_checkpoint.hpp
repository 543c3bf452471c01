#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/random_shape.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>

/// Random checkpoints in the layout and the storage formats of the released model: for tests, for
/// measurements, and for trying a build without a download.
namespace deepinfer::model {

struct random_options {
  uint64_t seed = 1234;
  /// What happens to a folder that holds files of somebody else's.
  enum class foreign_files : uint8_t { refuse, write_beside } foreign = foreign_files::refuse;
  /// Called after every piece with the bytes of tensors written so far and those of all.
  std::function<void(uint64_t done, uint64_t all)> progress;
};

/// Writes config.json, generation_config.json, engram_meta.json, two shards and their index into
/// `folder`, and a tokenizer.json when the vocabulary is large enough for one. The folder is made
/// when missing; what an earlier run left there is replaced. Every tensor depends on the seed and
/// its own name alone, so the same seed gives the same bytes everywhere. Tensors go to the disk in
/// pieces; no tensor is ever whole in memory. `invalid_argument` when the folder is not empty and
/// not ours, `no_capacity` when the disk has no room.
[[nodiscard]] result<void> make_random_checkpoint(const std::filesystem::path& folder,
                                                  random_shape shape,
                                                  const random_options& options);

}  // namespace deepinfer::model
