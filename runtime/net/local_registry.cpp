#include "runtime/net/local_registry.hpp"

#include "proto/types/limits.hpp"
#include "runtime/net/owned_fd.hpp"
#include "runtime/net/proof.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace deepinfer::net {
namespace {

constexpr std::string_view first_line = "deepinfer-node 1\n";
constexpr std::string_view suffix = ".node";
constexpr size_t max_entries = 4 * limits::max_nodes;  // looked at per call, rubbish included
constexpr int announce_attempts = 16;

failure system_failure(const std::string& what) {
  return {error_code::unreachable, what + ": " + std::strerror(errno)};
}

/// Makes all missing parts of `path`, private to the user.
result<void> make_path(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (!part.empty() && ::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return system_failure("cannot make the runtime directory " + part);
    if (end == std::string::npos) return {};
  }
}

/// Nobody else may be able to put files into `directory`, or to swap what is in it.
result<void> check_private(const owned_fd& directory, const std::string& path) {
  struct stat info {};
  if (::fstat(directory.get(), &info) != 0) return system_failure("cannot look at " + path);
  const bool ours = info.st_uid == ::geteuid();
  if (!ours && info.st_uid != 0)
    return failure{error_code::invalid_argument,
                   path + " belongs to another user: choose another runtime directory"};
  const bool shared = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (shared && (info.st_mode & S_ISVTX) == 0)
    return failure{error_code::invalid_argument,
                   path + " is writable by others: chmod 700, or choose another"};
  return {};
}

result<owned_fd> open_directory(int parent, const std::string& name, const std::string& path) {
  owned_fd fd{::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!fd)
    return failure{error_code::invalid_argument,
                   "cannot use " + path + " as a runtime directory (" + std::strerror(errno) +
                       "): it must be a directory of this user and no symbolic link"};
  if (auto safe = check_private(fd, path); !safe) return safe.error();
  return fd;
}

/// The file of a living node is locked by it. A shared lock is enough to find out, and two
/// readers do not take each other for the owner.
bool abandoned(int file) {
  return ::flock(file, LOCK_SH | LOCK_NB) == 0;
}

/// Empty when the content is not what a node writes.
std::string read_address(int file) {
  std::array<char, 512> buffer;
  const ssize_t got = ::pread(file, buffer.data(), buffer.size(), 0);
  if (got <= 0) return {};
  std::string_view text{buffer.data(), static_cast<size_t>(got)};
  if (!text.starts_with(first_line)) return {};
  text.remove_prefix(first_line.size());
  std::string address{text.substr(0, text.find('\n'))};
  return dialable(address) ? address : std::string{};
}

class local_registry final : public registry {
public:
  explicit local_registry(owned_fd directory) : directory_(std::move(directory)) {}
  ~local_registry() override { withdraw(); }

  result<void> announce(const registry_record& record) override {
    if (!dialable(record.address))
      return failure{error_code::invalid_argument,
                     "address " + record.address + " cannot be announced"};
    withdraw();
    // A reader may find the new file before it is locked, take it for abandoned and remove it:
    // then once more. Under its final name it is always locked.
    for (int attempt = 0; attempt < announce_attempts; ++attempt) {
      const auto written = write_file(record);
      if (!written) return written.error();
      if (*written) return {};
    }
    return failure{error_code::unreachable, "the address file is removed again and again"};
  }

  result<std::vector<std::string>> discover(std::chrono::nanoseconds) override {
    // a directory stream owns its descriptor and moves its position: give it one of its own
    owned_fd fd{::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!fd) return system_failure("cannot read the runtime directory");
    DIR* stream = ::fdopendir(fd.get());
    if (stream == nullptr) return system_failure("cannot read the runtime directory");
    fd.release();
    std::vector<std::string> found;
    size_t looked = 0;
    while (const dirent* entry = ::readdir(stream)) {
      if (++looked > max_entries || found.size() >= limits::max_nodes) break;
      const std::string name = entry->d_name;
      if (!name.ends_with(suffix) || name == name_) continue;
      if (std::string address = look_at(name); !address.empty())
        found.push_back(std::move(address));
    }
    ::closedir(stream);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  [[nodiscard]] bool proves_death() const override { return true; }

  void withdraw() override {
    if (name_.empty()) return;
    ::unlinkat(directory_.get(), name_.c_str(), 0);
    file_.reset();
    name_.clear();
  }

private:
  /// False when a reader interfered.
  result<bool> write_file(const registry_record& record) {
    const std::string name = to_string(record.id) + std::string{suffix};
    const std::string draft = "." + name;
    ::unlinkat(directory_.get(), draft.c_str(), 0);  // of an attempt that was cut short
    owned_fd file{::openat(directory_.get(), draft.c_str(),
                           O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!file) return system_failure("cannot write the address file");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
    const std::string text =
        std::string{first_line} + record.address + "\n" + std::to_string(record.epoch) + "\n";
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      return system_failure("cannot write the address file");
    if (::renameat(directory_.get(), draft.c_str(), directory_.get(), name.c_str()) != 0) {
      if (errno == ENOENT) return false;
      return system_failure("cannot name the address file");
    }
    file_ = std::move(file);
    name_ = name;
    return true;
  }

  /// The address in a living node's file; an abandoned file is removed.
  std::string look_at(const std::string& name) {
    owned_fd file{
        ::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0) return {};
    if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return {};
    if (abandoned(file.get())) {
      ::unlinkat(directory_.get(), name.c_str(), 0);
      return {};
    }
    return name.front() == '.' ? std::string{} : read_address(file.get());
  }

  owned_fd directory_;
  owned_fd file_;  ///< locked while it lives
  std::string name_;
};

}  // namespace

bool dialable(const std::string& address) {
  return !address.empty() && address.size() <= 255 && address.find(':') != std::string::npos &&
         std::all_of(address.begin(), address.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::string safe_file_name(const std::string& cluster) {
  constexpr size_t longest = 100;
  constexpr std::string_view hex = "0123456789abcdef";
  std::string name;
  for (const char c : cluster) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    if (plain) {
      name += c;
    } else {
      name += {'%', hex[byte >> 4], hex[byte & 15]};
    }
    if (name.size() > longest) break;
  }
  if (name.empty()) return "%";
  if (name.size() <= longest) return name;
  // '+' occurs in no short name, so a long one never meets it
  name = name.substr(0, 40) + "+";
  const digest256 digest = plain_digest(cluster);
  for (size_t i = 0; i < 16; ++i) {
    const auto byte = std::to_integer<unsigned>(digest[i]);
    name += {hex[byte >> 4], hex[byte & 15]};
  }
  return name;
}

result<std::unique_ptr<registry>> make_local_registry(const local_registry_config& config) {
  if (config.directory.empty())
    return failure{error_code::invalid_argument, "no runtime directory given"};
  std::string path = config.directory;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (auto made = make_path(path); !made) return made.error();
  auto base = open_directory(AT_FDCWD, path, path);
  if (!base) return base.error();
  const std::string name = safe_file_name(config.cluster);
  if (::mkdirat(base->get(), name.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure("cannot make " + path + "/" + name);
  auto room = open_directory(base->get(), name, path + "/" + name);
  if (!room) return room.error();
  struct stat info {};
  if (::fstat(room->get(), &info) != 0) return system_failure("cannot look at " + path);
  if (info.st_uid != ::geteuid() || ::fchmod(room->get(), 0700) != 0)
    return failure{error_code::invalid_argument,
                   path + "/" + name + " belongs to another user: choose another directory"};
  return std::unique_ptr<registry>{std::make_unique<local_registry>(*std::move(room))};
}

}  // namespace deepinfer::net
