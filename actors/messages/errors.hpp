#pragma once

#include "proto/types/result.hpp"

#include <caf/error.hpp>

namespace caf {
class actor_system_config;
}

/// The one place where our errors become CAF's and back. A handler answers
/// `return to_caf(failure{...})`; an error handler of a request starts with `from_caf(err)`.
namespace deepinfer {

/// Category of our codes among CAF errors.
inline constexpr caf::atom_value failure_category = caf::atom("deepinfer");

/// The code, with `detail` as the error's context. `ok` is no failure and becomes `internal`.
[[nodiscard]] caf::error to_caf(const failure& f);

/// Any CAF error as one of ours. Errors of CAF itself map by what a caller can do about them: a
/// request that timed out is `deadline_exceeded`, an actor or node that is gone `unreachable`, a
/// message that the callee has no handler for `unsupported`, all else `internal`. No error at all
/// (a normal exit) is `cancelled`: the actor ended without anything having failed.
[[nodiscard]] failure from_caf(const caf::error& e);

/// Makes `system.render(err)` print our errors as "code: detail".
void register_failure_category(caf::actor_system_config& config);

}  // namespace deepinfer
