#include "actors/bench/fio_run.hpp"

#include "actors/bench/peer_process.hpp"

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace deepinfer::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 120s;

// Fields of its terse output, version 3, counted from 0 (fio(1), "Terse output").
constexpr size_t error_field = 4;
constexpr size_t read_kb_field = 5, read_ms_field = 8;
constexpr size_t write_kb_field = 46, write_ms_field = 49;

std::vector<std::string> command_of(const fio_job& job) {
  const bool reads = job.what == fio_job::order::random_read;
  const char* order = reads                                      ? "randread"
                      : job.what == fio_job::order::random_write ? "randwrite"
                                                                 : "write";
  const auto option = [](const char* name, const std::string& value) {
    return std::string{"--"}.append(name).append("=").append(value);
  };
  std::vector<std::string> words{
      "/usr/bin/env",
      "fio",
      "--name=blocks",
      "--output-format=terse",
      "--terse-version=3",
      "--thread",
      "--fallocate=native",  // space set aside, as segments are
      "--invalidate=1",      // nothing of the file is in the page cache
      "--randrepeat=0",
      option("filename", job.file),
      option("rw", order),
      option("ioengine", job.ring ? "io_uring" : "psync"),
      option("iodepth", std::to_string(job.queue_depth)),
      option("bs", std::to_string(job.block_bytes)),
      option("size", std::to_string(job.block_bytes * job.blocks)),
      option("direct", job.direct ? "1" : "0"),
  };
  if (!reads) {
    words.push_back("--end_fsync=1");
    if (job.sync_every > 0) words.push_back(option("fdatasync", std::to_string(job.sync_every)));
  }
  return words;
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t end = line.find(';');
    fields.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

}  // namespace

bool fio_installed() {
  peer_process fio;
  return fio.start({"/usr/bin/env", "fio", "--version"}) && fio.line(10s);
}

result<double> run_fio(const fio_job& job) {
  peer_process fio;
  if (auto started = fio.start(command_of(job)); !started) return started.error();
  for (;;) {
    const auto line = fio.line(patience);
    if (!line) return failure{line.error().code, "fio gave no figures for " + job.file};
    const auto fields = fields_of(*line);
    if (fields.size() <= write_ms_field || fields[0] != "3") continue;  // a remark of its own
    if (fields[error_field] != "0")
      return failure{error_code::unreachable,
                     "fio fails with error " + std::string{fields[error_field]}};
    const bool reads = job.what == fio_job::order::random_read;
    const double kb =
        std::atof(std::string{fields[reads ? read_kb_field : write_kb_field]}.c_str());
    const double ms =
        std::atof(std::string{fields[reads ? read_ms_field : write_ms_field]}.c_str());
    if (kb <= 0 || ms <= 0) return failure{error_code::internal, "fio moved no bytes"};
    return kb * 1024 / static_cast<double>(job.block_bytes) / (ms * 1e-3);
  }
}

}  // namespace deepinfer::bench
