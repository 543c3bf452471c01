#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

/// How commands find a node of this machine without being told: every node writes a small file
/// with the addresses of its HTTP listeners into the cluster's folder of the runtime directory, and
/// holds it locked while it lives.
namespace deepinfer {

struct node_endpoints {
  std::string node;  ///< id, 32 hex digits
  uint64_t epoch = 0;
  std::string http;     ///< "host:port" of the gateway; empty without that role
  std::string console;  ///< "host:port"
};

/// `DEEPINFER_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/deepinfer`, else `/tmp/deepinfer-<uid>`.
[[nodiscard]] std::string runtime_directory();

/// Where data may lie that can be made again: `$XDG_CACHE_HOME/deepinfer`, else
/// `~/.cache/deepinfer`; empty when neither is known.
[[nodiscard]] std::string cache_directory();

/// Keeps the file locked; removes it at the end.
class endpoints_file {
public:
  static result<endpoints_file> write(const std::string& runtime_dir,
                                      const std::string& cluster,
                                      const node_endpoints& endpoints);
  endpoints_file(endpoints_file&& other) noexcept;
  endpoints_file& operator=(endpoints_file&&) = delete;
  ~endpoints_file();

private:
  endpoints_file(int descriptor, std::string path);
  int descriptor_ = -1;
  std::string path_;
};

/// Endpoints of all living nodes of a cluster on this machine, oldest first; an empty name means
/// the only cluster there is: `not_found` if there is none, `invalid_argument` with the names if
/// there are several.
[[nodiscard]] result<std::vector<node_endpoints>> find_endpoints(const std::string& runtime_dir,
                                                                 const std::string& cluster);

}  // namespace deepinfer
