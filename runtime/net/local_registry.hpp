#pragma once

#include "runtime/net/registry.hpp"

#include <memory>
#include <string>

namespace deepinfer::net {

struct local_registry_config {
  std::string directory;  ///< of all clusters of this user on this machine; made if missing
  std::string cluster = "default";
};

/// Nodes of one machine meet in a directory per cluster name: one address file per node, which
/// the node holds locked as long as it lives, so the file of a killed process is recognised and
/// removed by the next reader. `invalid_argument` when the directory is not safe to use (owned by
/// somebody else, writable by others, a symbolic link).
[[nodiscard]] result<std::unique_ptr<registry>> make_local_registry(
    const local_registry_config& config);

/// The directory name of a cluster: harmless whatever the name is, and different for different
/// names.
[[nodiscard]] std::string safe_file_name(const std::string& cluster);

}  // namespace deepinfer::net
