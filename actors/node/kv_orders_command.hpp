#pragma once

#include "actors/node/commands.hpp"

namespace deepinfer {

/// `kv purge` and `kv acknowledge-clock`: orders to the stores of a cluster.
void add_kv_orders(CLI::App& kv, int& exit_code);

}  // namespace deepinfer
