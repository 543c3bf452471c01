#pragma once

#include "actors/node/cluster_address.hpp"

namespace deepinfer {

/// The live terminal view: asks once a second, draws, obeys keys, until the user leaves. Gives the
/// exit code.
int run_live_console(const cluster_target& target);

}  // namespace deepinfer
