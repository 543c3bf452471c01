#include "actors/node/standard_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace deepinfer {

namespace {

result<std::string> read_all(int from, std::string_view name, size_t most_bytes) {
  std::string out;
  std::array<char, 65536> bytes;
  while (true) {
    const ssize_t count = ::read(from, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return failure{error_code::invalid_argument,
                     "cannot read " + std::string(name) + ": " + std::strerror(errno)};
    if (count == 0) return out;
    out.append(bytes.data(), static_cast<size_t>(count));
    if (out.size() > most_bytes)
      return failure{error_code::invalid_argument, std::string(name) + " is longer than " +
                                                       std::to_string(most_bytes >> 20) + " MiB"};
  }
}

}  // namespace

result<std::string> read_standard_input(size_t most_bytes) {
  return read_all(STDIN_FILENO, "standard input", most_bytes);
}

result<std::string> read_input_file(const std::string& path, size_t most_bytes) {
  const int from = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0)
    return failure{error_code::not_found, "cannot read " + path + ": " + std::strerror(errno)};
  auto text = read_all(from, path, most_bytes);
  ::close(from);
  return text;
}

}  // namespace deepinfer
