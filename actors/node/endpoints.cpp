#include "actors/node/endpoints.hpp"

#include "proto/types/ids.hpp"
#include "proto/types/limits.hpp"
#include "runtime/net/local_registry.hpp"
#include "runtime/net/owned_fd.hpp"
#include "runtime/recipe/json_value.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace deepinfer {
namespace {

using net::owned_fd;

// The address files of `net::local_registry` lie in the same folders and end in ".node"; neither
// kind looks at the other.
constexpr std::string_view suffix = ".endpoints";
constexpr size_t max_file_bytes = 4096;
constexpr size_t max_name_bytes = 1024;                // of a cluster, in the file
constexpr size_t max_entries = 8 * limits::max_nodes;  // looked at per folder, rubbish included
constexpr size_t max_clusters = 256;                   // folders looked into
constexpr int write_attempts = 16;

failure system_failure(const std::string& what) {
  return {error_code::unreachable, what + ": " + std::strerror(errno)};
}

/// What one file says.
struct record {
  std::string cluster;
  node_endpoints endpoints;
};

std::string to_json(const record& r) {
  std::string out = "{\"cluster\":";
  recipe::append_json_string(out, r.cluster);
  out += ",\"node\":";
  recipe::append_json_string(out, r.endpoints.node);
  out += ",\"epoch\":" + std::to_string(r.endpoints.epoch) + ",\"http\":";
  recipe::append_json_string(out, r.endpoints.http);
  out += ",\"console\":";
  recipe::append_json_string(out, r.endpoints.console);
  return out + "}\n";
}

std::optional<std::string> text_of(const recipe::json_object& object, std::string_view key) {
  for (const recipe::json_member& member : object)
    if (const auto* text = member.value.as<std::string>(); member.key == key && text != nullptr)
      return *text;
  return std::nullopt;
}

bool is_address(const std::string& text) {
  return text.empty() || net::dialable(text);
}

/// Nothing when the content is not what a node writes.
std::optional<record> from_json(std::string_view text) {
  const auto parsed = recipe::parse_json(text, {max_file_bytes, 4, 64});
  const auto* object = parsed ? parsed->as<recipe::json_object>() : nullptr;
  if (object == nullptr) return std::nullopt;
  const auto cluster = text_of(*object, "cluster"), node = text_of(*object, "node");
  const auto http = text_of(*object, "http"), console = text_of(*object, "console");
  uint64_t epoch = 0;
  for (const recipe::json_member& member : *object)
    if (const auto* number = member.value.as<int64_t>(); member.key == "epoch" && number != nullptr)
      epoch = static_cast<uint64_t>(*number);
  if (!cluster || !node || !http || !console) return std::nullopt;
  if (!parse_node_id(*node) || !is_address(*http) || !is_address(*console)) return std::nullopt;
  return record{*cluster, {*node, epoch, *http, *console}};
}

/// Only a folder that nobody else can write to is believed: an address in it gets our prompts.
bool is_private(int folder, bool may_be_sticky) {
  struct stat info {};
  if (::fstat(folder, &info) != 0) return false;
  const bool is_ours = info.st_uid == ::geteuid() || (may_be_sticky && info.st_uid == 0);
  const bool is_shared = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  return is_ours && (!is_shared || (may_be_sticky && (info.st_mode & S_ISVTX) != 0));
}

owned_fd open_folder(int parent, const std::string& name) {
  return owned_fd{::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
}

/// Names in a folder, at most `max_entries` of them.
std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  owned_fd copy = open_folder(folder, ".");  // a stream owns its descriptor and moves its position
  DIR* stream = copy ? ::fdopendir(copy.get()) : nullptr;
  if (stream == nullptr) return names;
  copy.release();
  size_t looked = 0;
  while (const dirent* entry = ::readdir(stream)) {
    if (++looked > max_entries) break;
    names.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  return names;
}

/// The record of a living node. The file of an ended process is not locked any more and is removed.
std::optional<record> look_at(int folder, const std::string& name) {
  const owned_fd file{
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return std::nullopt;
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    ::unlinkat(folder, name.c_str(), 0);
    return std::nullopt;
  }
  if (name.front() == '.') return std::nullopt;  // being written
  std::array<char, max_file_bytes> buffer;
  const ssize_t got = ::pread(file.get(), buffer.data(), buffer.size(), 0);
  if (got <= 0) return std::nullopt;
  auto found = from_json({buffer.data(), static_cast<size_t>(got)});
  if (!found || found->endpoints.node + std::string{suffix} != name) return std::nullopt;
  return found;
}

/// Living nodes of the cluster whose folder this is, oldest first.
std::vector<record> records_in(int base, const std::string& folder_name) {
  std::vector<record> found;
  const owned_fd folder = open_folder(base, folder_name);
  if (!folder || !is_private(folder.get(), false)) return found;
  for (const std::string& name : names_in(folder.get())) {
    if (found.size() >= limits::max_nodes) break;
    if (!name.ends_with(suffix)) continue;
    auto one = look_at(folder.get(), name);
    if (one && net::safe_file_name(one->cluster) == folder_name) found.push_back(*std::move(one));
  }
  std::sort(found.begin(), found.end(), [](const record& a, const record& b) {
    return std::pair{a.endpoints.epoch, a.endpoints.node} <
           std::pair{b.endpoints.epoch, b.endpoints.node};
  });
  return found;
}

result<std::vector<record>> the_only_cluster(int base) {
  std::vector<record> only;
  std::vector<std::string> clusters;
  size_t looked = 0;
  for (const std::string& name : names_in(base)) {
    if (name.starts_with('.') || ++looked > max_clusters) continue;
    auto records = records_in(base, name);
    if (records.empty()) continue;
    clusters.push_back(records.front().cluster);
    only = std::move(records);
  }
  if (clusters.size() < 2) return only;
  std::sort(clusters.begin(), clusters.end());
  std::string all;
  for (const std::string& name : clusters) all += (all.empty() ? "" : ", ") + name;
  return failure{error_code::invalid_argument,
                 "several clusters run on this machine: " + all + "; choose one with --cluster"};
}

/// False when a reader took the new file for an abandoned one: once more then. Under its final
/// name a file is always locked.
result<bool> write_once(int folder, const std::string& name, std::string_view text, owned_fd& out) {
  const std::string draft = "." + name;
  ::unlinkat(folder, draft.c_str(), 0);  // of an attempt that was cut short
  owned_fd file{
      ::openat(folder, draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!file) return system_failure("cannot write the endpoints file");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return system_failure("cannot write the endpoints file");
  if (::renameat(folder, draft.c_str(), folder, name.c_str()) != 0) {
    if (errno == ENOENT) return false;
    return system_failure("cannot name the endpoints file");
  }
  out = std::move(file);
  return true;
}

result<void> check(const std::string& cluster, const node_endpoints& endpoints) {
  if (!parse_node_id(endpoints.node))
    return failure{error_code::invalid_argument, "'" + endpoints.node + "' is no node id"};
  if (!is_address(endpoints.http) || !is_address(endpoints.console))
    return failure{error_code::invalid_argument, "an endpoint is not host:port"};
  if (cluster.size() > max_name_bytes)
    return failure{error_code::too_large, "the cluster name is longer than 1024 bytes"};
  return {};
}

}  // namespace

std::string runtime_directory() {
  if (const char* chosen = std::getenv("DEEPINFER_RUNTIME_DIR"); chosen != nullptr && *chosen != 0)
    return chosen;
  if (const char* user = std::getenv("XDG_RUNTIME_DIR"); user != nullptr && *user != 0)
    return std::string{user} + "/deepinfer";
  return "/tmp/deepinfer-" + std::to_string(::geteuid());
}

std::string cache_directory() {
  if (const char* user = std::getenv("XDG_CACHE_HOME"); user != nullptr && *user != 0)
    return std::string{user} + "/deepinfer";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0)
    return std::string{home} + "/.cache/deepinfer";
  return {};
}

endpoints_file::endpoints_file(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

endpoints_file::endpoints_file(endpoints_file&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

endpoints_file::~endpoints_file() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(descriptor_);
}

result<endpoints_file> endpoints_file::write(const std::string& runtime_dir,
                                             const std::string& cluster,
                                             const node_endpoints& endpoints) {
  if (auto fit = check(cluster, endpoints); !fit) return fit.error();
  // The registry makes the folder and knows what makes one safe: one set of rules for both files.
  if (auto made = net::make_local_registry({runtime_dir, cluster}); !made) return made.error();
  const std::string path = runtime_dir + "/" + net::safe_file_name(cluster);
  const owned_fd folder = open_folder(AT_FDCWD, path);
  if (!folder || !is_private(folder.get(), false))
    return failure{error_code::invalid_argument, "cannot use " + path + " as a runtime directory"};
  const std::string name = endpoints.node + std::string{suffix};
  const std::string text = to_json({cluster, endpoints});
  if (text.size() > max_file_bytes)
    return failure{error_code::too_large, "the endpoints file would be longer than 4096 bytes"};
  for (int attempt = 0; attempt < write_attempts; ++attempt) {
    owned_fd file;
    const auto written = write_once(folder.get(), name, text, file);
    if (!written) return written.error();
    if (*written) return endpoints_file{file.release(), path + "/" + name};
  }
  return failure{error_code::unreachable, "the endpoints file is removed again and again"};
}

result<std::vector<node_endpoints>> find_endpoints(const std::string& runtime_dir,
                                                   const std::string& cluster) {
  const failure none{error_code::not_found,
                     cluster.empty() ? "no cluster runs on this machine (looked in " + runtime_dir +
                                           "); start one with deepinfer node, or give --url"
                                     : "no node of cluster " + cluster + " runs on this machine " +
                                           "(looked in " + runtime_dir + "); give --url"};
  const owned_fd base = open_folder(AT_FDCWD, runtime_dir);
  if (!base || !is_private(base.get(), true)) return none;
  auto records =
      cluster.empty()
          ? the_only_cluster(base.get())
          : result<std::vector<record>>{records_in(base.get(), net::safe_file_name(cluster))};
  if (!records) return records.error();
  if (records->empty()) return none;
  std::vector<node_endpoints> found;
  for (record& one : *records) found.push_back(std::move(one.endpoints));
  return found;
}

}  // namespace deepinfer
