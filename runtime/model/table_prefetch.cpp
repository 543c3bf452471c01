#include "runtime/model/table_prefetch.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace deepinfer::model {
namespace {

// process_madvise takes many ranges in one call, and a process may advise itself through a file
// descriptor of its own.
int own_descriptor() {
  static const int fd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  return fd;
}

}  // namespace

void prefetch_rows(const mapped_table& table, std::span<const int64_t> rows) {
  if (table.rows * table.row_bytes < prefetched_table_bytes || own_descriptor() < 0) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::vector<uintptr_t> pages;
  for (const int64_t row : rows) {
    const auto first =
        reinterpret_cast<uintptr_t>(table.first) + static_cast<uintptr_t>(row) * table.row_bytes;
    for (uintptr_t p = first / page; p <= (first + table.row_bytes - 1) / page; ++p)
      pages.push_back(p * page);
  }
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  constexpr size_t most_ranges = 1024;  // IOV_MAX
  std::vector<iovec> ranges;
  for (size_t at = 0; at < pages.size(); at += most_ranges) {
    ranges.clear();
    for (size_t i = at; i < std::min(pages.size(), at + most_ranges); ++i)
      ranges.push_back({reinterpret_cast<void*>(pages[i]), page});
    ::syscall(SYS_process_madvise, own_descriptor(), ranges.data(), ranges.size(), MADV_WILLNEED,
              0);
  }
}

}  // namespace deepinfer::model
