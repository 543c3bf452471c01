#pragma once

#include "actors/node/endpoints.hpp"
#include "actors/node/node_actors.hpp"
#include "actors/node/node_config.hpp"
#include "proto/types/result.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace deepinfer {

/// One running node: transport, actor system, actors, listeners. Made and ended by the main thread.
class node_process {
public:
  /// Loads the model, opens the listeners, joins the cluster. `config` must outlive the process.
  /// `on_loss` is called from another thread when the node cannot go on.
  static result<std::unique_ptr<node_process>> start(const process_config& config,
                                                     std::function<void()> on_loss);
  virtual ~node_process() = default;

  /// Finishes open requests within `config.node.drain`, says goodbye, stops everything.
  virtual void stop() = 0;
  /// True after `on_loss`.
  [[nodiscard]] virtual bool lost() const = 0;
  [[nodiscard]] virtual const node_endpoints& endpoints() const = 0;
};

}  // namespace deepinfer
