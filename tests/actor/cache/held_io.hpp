#pragma once

#include "actors/cache/kv_io.hpp"
#include "tests/support/actor_world.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <utility>
#include <vector>

namespace deepinfer::test {

/// I/O actors whose device answers when the test wants. Outlives them.
struct held_io {
  bool held = false;          ///< from now on work is kept
  std::vector<io_work> kept;  ///< in the order it came

  kv_io_actor spawn(actor_world& world) {
    return world.system.spawn([this](kv_io_actor::pointer self) -> kv_io_actor::behavior_type {
      return {
          [this, self](const io_work& work) {
            if (held) return kept.push_back(work);
            work.run();
            self->send(work.reply_to, io_done{work.number});
          },
          [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
      };
    });
  }

  /// The device answers one of them, the oldest.
  void let_one_go() {
    const io_work work = kept.front();
    kept.erase(kept.begin());
    work.run();
    caf::anon_send(work.reply_to, io_done{work.number});
  }

  /// The device answers: what was kept is done. Run the world for what follows from it.
  void let_go() {
    held = false;
    for (const io_work& work : std::exchange(kept, {})) {
      work.run();
      caf::anon_send(work.reply_to, io_done{work.number});
    }
  }
};

}  // namespace deepinfer::test
