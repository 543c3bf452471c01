#pragma once

#include <caf/actor_system_config.hpp>

#include <cstdint>

namespace deepinfer {

/// How the actors of a process run in service: `threads` workers that sleep on a condition variable
/// while there is nothing to do (CAF's default policy polls), and a clock that sleeps until
/// something is due (`deadline_clock.hpp`).
void use_service_scheduler(caf::actor_system_config& config, uint32_t threads);

}  // namespace deepinfer
