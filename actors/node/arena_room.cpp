#include "actors/node/arena_room.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace deepinfer {
namespace {

constexpr uint64_t mebibyte = uint64_t{1} << 20;
constexpr uint64_t least_bytes = mebibyte;
constexpr uint64_t least_chosen = 16 * mebibyte;
constexpr uint64_t most_chosen = 1024 * mebibyte;
constexpr uint64_t share_of_machine = 16;

/// The number at the beginning of `text`; `none` for "max" and everything else.
uint64_t number_in(std::string_view text) {
  uint64_t value = memory_limits::none;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

uint64_t number_of_file(const std::string& path) {
  std::ifstream in{path};
  std::string line;
  return std::getline(in, line) ? number_in(line) : memory_limits::none;
}

uint64_t physical_memory(const std::string& root) {
  std::ifstream in{root + "/proc/meminfo"};
  constexpr std::string_view key{"MemTotal:"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      const uint64_t kibibytes = number_in(std::string_view{line}.substr(key.size()));
      return kibibytes == memory_limits::none ? kibibytes : kibibytes * 1024;
    }
  return memory_limits::none;
}

/// The least limit of a control group and of those around it. A container may see its own group
/// as the outermost one: a folder that is not there says nothing.
uint64_t group_limit(const std::string& mount, std::string group, const std::string& file) {
  uint64_t least = memory_limits::none;
  while (true) {
    least = std::min(least, number_of_file(mount + group + "/" + file));
    if (group.empty()) return least;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

// Lines are "hierarchy:controllers:group"; version 2 has the hierarchy 0 and no controllers.
uint64_t container_memory(const std::string& root) {
  std::ifstream in{root + "/proc/self/cgroup"};
  uint64_t least = memory_limits::none;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,")
      least = std::min(least, group_limit(root + "/sys/fs/cgroup", group, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least,
                       group_limit(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t process_limit(__rlimit_resource what) {
  rlimit limit{};
  const bool known = ::getrlimit(what, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? limit.rlim_cur : memory_limits::none;
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes / mebibyte) + " MiB";
}

failure too_large(uint64_t wanted, const std::string& over) {
  return {error_code::too_large, "kvfetch.arena_bytes = " + mebibytes(wanted) + " is more than " +
                                     over + "; 0 lets the node choose"};
}

}  // namespace

memory_limits read_memory_limits(const std::string& root) {
  return {std::min(physical_memory(root), container_memory(root)), process_limit(RLIMIT_FSIZE),
          process_limit(RLIMIT_AS)};
}

result<uint64_t> arena_size(uint64_t wanted, const memory_limits& limits) {
  const uint64_t longest = std::min(limits.file, limits.space / 2);
  if (wanted == 0) {
    const uint64_t share = std::clamp(limits.machine / share_of_machine, least_chosen, most_chosen);
    const uint64_t chosen = std::min(share, longest) / mebibyte * mebibyte;
    if (chosen >= least_bytes) return chosen;
    return failure{error_code::too_large,
                   "the limits of this process (ulimit -f, -v) leave no shared memory for blocks"};
  }
  if (wanted < least_bytes)
    return failure{error_code::invalid_argument,
                   "kvfetch.arena_bytes is 0 (the node chooses) or at least 1 MiB"};
  if (limits.machine != memory_limits::none && wanted > limits.machine / 2)
    return too_large(wanted,
                     "half of this machine's, or container's, " + mebibytes(limits.machine));
  if (wanted > longest) return too_large(wanted, "a process may have here (ulimit -f, -v)");
  return wanted;
}

}  // namespace deepinfer
