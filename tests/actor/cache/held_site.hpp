#pragma once

#include "tests/actor/cache/held_io.hpp"
#include "tests/actor/cache/store_site.hpp"

namespace deepinfer::test {

/// A store whose device answers when the test wants.
struct held_site : held_io, store_site {
  held_site() {
    spawn_io = [this] { return held_io::spawn(home.world); };
  }

  /// What was kept is done, and what follows from it.
  void let_go() {
    held_io::let_go();
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
