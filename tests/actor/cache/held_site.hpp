#pragma once

#include "tests/actor/cache/store_site.hpp"

#include <utility>
#include <vector>

namespace deepinfer::test {

/// A store whose device answers when the test wants.
struct held_site : store_site {
  bool held = false;          ///< from now on work is kept
  std::vector<io_work> kept;  ///< in the order it came

  held_site() {
    spawn_io = [this] {
      return kv_io_actor{
          home.world.system.spawn([this](kv_io_actor::pointer self) -> kv_io_actor::behavior_type {
            return {
                [this, self](const io_work& work) {
                  if (held) return kept.push_back(work);
                  work.run();
                  self->send(work.reply_to, io_done{work.number});
                },
                [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
            };
          })};
    };
  }

  /// The device answers: what was kept is done, and what follows from it.
  void let_go() {
    held = false;
    for (const io_work& work : std::exchange(kept, {})) {
      work.run();
      caf::anon_send(work.reply_to, io_done{work.number});
    }
    run();
  }

  template <class Answer, class Question>
  actor_world::pending_answer<Answer> start(const Question& question) {
    auto answer = peer.world.start_ask<Answer>(store, question);
    run();
    return answer;
  }
};

}  // namespace deepinfer::test
