#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/generate.hpp"
#include "runtime/model/numeric_level.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace deepinfer {

/// A prompt whose image placeholders became spans; the rows live here.
struct illustrated_prompt {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> rows;  ///< of each image, [its positions][width of the model]
  std::vector<model::image_rows> images;
};

struct image_job {
  std::filesystem::path folder;    ///< of the checkpoint
  std::vector<std::string> files;  ///< one for each image token of the prompt, in order
  model::numeric_level level = model::numeric_level::L1;
};

/// Reads and encodes the images and puts each in the place of one image token of `tokens`.
/// `invalid_argument` when their numbers differ, `unsupported` when the model has no vision tower;
/// otherwise as the image decoder and the tower fail, with the file's name.
[[nodiscard]] result<illustrated_prompt> illustrate(std::vector<int32_t> tokens,
                                                    const image_job& job);

}  // namespace deepinfer
