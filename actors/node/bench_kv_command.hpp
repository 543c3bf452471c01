#pragma once

#include <CLI/App.hpp>

namespace deepinfer {

/// `bench kv`: stores of blocks by themselves, and traces of requests through them.
void add_bench_kv(CLI::App& bench, int& exit_code);

}  // namespace deepinfer
