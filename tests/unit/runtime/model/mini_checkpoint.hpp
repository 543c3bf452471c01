#pragma once

#include "runtime/model/random_checkpoint.hpp"
#include "runtime/model/v41_model.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// Random mini checkpoints for the tests of this room.
namespace deepinfer::test {

/// A folder that goes away with its owner.
class scratch_folder {
public:
  explicit scratch_folder(std::string_view name)
      : path_(std::filesystem::temp_directory_path() /
              ("deepinfer-test-" + std::to_string(::getpid()) + "-" + std::string(name))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

inline constexpr uint64_t mini_seed = 1234;  ///< that of the expected tensors

/// The checkpoint of a shape, made once for all tests of the process.
inline std::filesystem::path mini_checkpoint(std::string_view shape) {
  static const scratch_folder home("minis");
  const auto folder = home.path() / shape;
  if (!std::filesystem::exists(folder)) {
    const auto parsed = model::parse_random_shape(shape);
    REQUIRE(parsed);
    REQUIRE(model::make_random_checkpoint(folder, *parsed, {.seed = mini_seed}));
  }
  return folder;
}

/// A copy of it that a test may damage.
inline void copy_mini(const std::filesystem::path& to) {
  std::filesystem::copy(
      mini_checkpoint("mini8"), to,
      std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
}

/// Without decoder replay unless the options ask for it: the length of a prompt shall not matter.
inline std::unique_ptr<model::v41_model> load_mini(std::string_view shape,
                                                   model::v41_options options = {}) {
  if (!options.kept_rows) options.kept_rows = 0;
  auto loaded = model::v41_model::load(mini_checkpoint(shape), options);
  REQUIRE(loaded);
  return *std::move(loaded);
}

/// Text: the image token of the minis is left out.
inline std::vector<int32_t> random_tokens(uint64_t seed, uint32_t count, uint32_t vocabulary) {
  constexpr int32_t image_token = 151;
  rng random{seed};
  std::vector<int32_t> out(count);
  for (int32_t& token : out) {
    token = static_cast<int32_t>(random.below(vocabulary));
    if (token == image_token) token = 0;
  }
  return out;
}

inline std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace deepinfer::test
