#include "actors/node/bundled_model.hpp"

#include <system_error>

namespace deepinfer {

std::filesystem::path bundled_model() {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto root = program.parent_path().parent_path().parent_path();
  const auto folder = root / "examples" / "models" / "tiny-v41";
  return std::filesystem::exists(folder / "config.json", none) ? folder : std::filesystem::path{};
}

}  // namespace deepinfer
