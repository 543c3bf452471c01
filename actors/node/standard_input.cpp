#include "actors/node/standard_input.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace deepinfer {

result<std::string> read_standard_input(size_t most_bytes) {
  std::string out;
  std::array<char, 65536> bytes;
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure{error_code::invalid_argument, "cannot read standard input"};
    if (count == 0) return out;
    out.append(bytes.data(), static_cast<size_t>(count));
    if (out.size() > most_bytes)
      return failure{error_code::invalid_argument,
                     "standard input is longer than " + std::to_string(most_bytes >> 20) + " MiB"};
  }
}

}  // namespace deepinfer
