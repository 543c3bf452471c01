// An index that another process fills from a store, over the transport.
#include "actors/bench/bench_node.hpp"
#include "actors/bench/kv_figures.hpp"
#include "actors/cache/index_feed.hpp"
#include "actors/cache/kv_io.hpp"
#include "actors/cache/kv_store.hpp"

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include <memory>

namespace deepinfer::bench {
namespace {

constexpr std::chrono::seconds patience{30};
constexpr std::chrono::milliseconds look_every{20};

/// Two nodes in this process that talk by the transport alone, and what runs on them.
class feed_site {
public:
  result<void> open(storage::block_store& store) {
    for (auto* node : {&near_, &far_}) {
      auto made = bench_node::make();
      if (!made) return made.error();
      *node = *std::move(made);
    }
    kv_store_setup setup;
    // never the owner: the figure's own store outlives this site
    setup.backing.store = std::shared_ptr<storage::block_store>{&store, [](auto*) {}};
    setup.backing.id = {1, 2};
    setup.hub = &far_->hub();
    setup.transport = &far_->transport();
    setup.config.io_workers = 1;
    setup.config.staging_bytes = 1 << 20;
    setup.wall = [] { return std::chrono::milliseconds{1}; };
    setup.spawn_io = [node = far_.get()] {
      return kv_io_actor{node->system().spawn<caf::detached>(kv_io, std::cref(node->hub()))};
    };
    store_ = far_->system().spawn(kv_store, setup);
    const auto ref = far_->hub().export_actor(kv_store_actor{store_});
    if (!ref) return ref.error();
    ref_ = *ref;
    return near_->meet(far_->transport().address(), far_->transport().self());
  }

  ~feed_site() {
    if (store_) caf::anon_send_exit(store_, caf::exit_reason::kill);
    if (feed_) caf::anon_send_exit(feed_, caf::exit_reason::kill);
    store_ = nullptr;
    feed_ = nullptr;
    near_ = nullptr;
    far_ = nullptr;
  }

  /// Seconds until an empty index knows all of the store.
  result<double> fill(const std::shared_ptr<storage::prefix_index>& index) {
    const auto begin = std::chrono::steady_clock::now();
    feed_ = near_->system().spawn(index_feed, feed_config{}, &near_->hub(), index);
    caf::anon_send(feed_, follow_store{ref_});
    caf::scoped_actor self{near_->system(), true};
    while (!index->stats().complete) {
      self->receive([](int) {}, caf::after(look_every) >> [] {});
      if (std::chrono::steady_clock::now() - begin > 20 * patience)
        return failure{error_code::deadline_exceeded, "the index was not filled in time"};
    }
    const auto end = std::chrono::steady_clock::now();
    caf::anon_send_exit(feed_, caf::exit_reason::kill);
    feed_ = nullptr;
    return std::chrono::duration<double>(end - begin).count();
  }

private:
  std::unique_ptr<bench_node> near_, far_;
  kv_store_impl_actor store_;
  index_feed_actor feed_;
  actor_ref ref_;
};

}  // namespace

result<double> time_remote_fill(storage::block_store& store, uint64_t blocks) {
  feed_site site;
  if (auto opened = site.open(store); !opened) return opened.error();
  const auto index = std::make_shared<storage::prefix_index>(blocks);
  auto seconds = site.fill(index);
  if (seconds && index->stats().blocks != blocks)
    return failure{error_code::internal, "blocks are missing in an index that was fed"};
  return seconds;
}

}  // namespace deepinfer::bench
