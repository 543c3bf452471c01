#include "actors/node/progress_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace deepinfer {

std::string progress_text(uint64_t done, uint64_t all, std::chrono::duration<double> elapsed) {
  const double seconds = std::max(elapsed.count(), 1e-6);
  const double giga = 1e9, rate = static_cast<double>(done) / seconds;
  const auto left = static_cast<uint64_t>(static_cast<double>(all - done) / rate);
  char text[96];
  std::snprintf(text, sizeof text, "%.1f of %.1f GB, %.2f GB/s, %llu:%02llu left",
                static_cast<double>(done) / giga, static_cast<double>(all) / giga, rate / giga,
                static_cast<unsigned long long>(left / 60),
                static_cast<unsigned long long>(left % 60));
  return text;
}

progress_line::progress_line(when shown)
    : terminal_(::isatty(STDERR_FILENO) == 1),
      shown_(terminal_ || shown == when::always),
      start_(clock::now()),
      next_(start_ + std::chrono::milliseconds(200)) {}

progress_line::~progress_line() {
  if (open_) std::fputc('\n', stderr);
}

void progress_line::update(uint64_t done, uint64_t all) {
  if (!shown_ || done == 0) return;
  const auto now = clock::now();
  if (now < next_ && done < all) return;
  next_ = now + (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(2000));
  const std::string text = progress_text(done, all, now - start_);
  if (terminal_) {
    std::fprintf(stderr, "\r%s\033[K", text.c_str());
    open_ = true;
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

}  // namespace deepinfer
