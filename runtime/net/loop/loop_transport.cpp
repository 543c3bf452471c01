#include "runtime/net/loop/loop_world.hpp"

namespace deepinfer::net {
namespace {

class loop_transport final : public transport {
public:
  loop_transport(std::shared_ptr<loop_world> world, const loop_node& node)
      : world_(std::move(world)), member_(std::make_shared<loop_member>()) {
    member_->config = node;
  }
  ~loop_transport() override { stop(); }

  result<void> start(transport_handler& handler) override {
    if (member_->alive() || member_->stopping)
      return failure{error_code::invalid_argument, "a transport starts once: make another"};
    if (!member_->config.id)
      return failure{error_code::invalid_argument, "the node id is zero: draw one"};
    if (!world_->listening.emplace(member_->config.address, member_).second)
      return failure{error_code::no_capacity,
                     "address " + member_->config.address + " is taken: choose another"};
    member_->handler = &handler;
    return {};
  }

  void stop() override {
    if (!member_->alive()) return;
    member_->stopping = true;
    const failure goodbye{error_code::cancelled, "the peer said goodbye"};
    world_->end_life(member_, goodbye, failure{error_code::cancelled, "this node stops"});
  }

  node_id self() const override { return member_->config.id; }
  uint64_t epoch() const override { return member_->config.epoch; }
  std::string address() const override { return member_->config.address; }

  void dial(const std::string& address) override {
    if (member_->alive()) world_->dial(member_, address);
  }

  void drop(const node_id& peer, const failure& why) override {
    // not from inside the call: the caller may be in the middle of handling that peer
    post([world = world_.get(), member = member_, peer, why] {
      const auto found = member->links.find(peer);
      if (found == member->links.end()) return;
      const uint64_t link = found->second;
      const size_t side = world->links.at(link).side_of(*member);
      world->notify(link, 1 - side, {error_code::unreachable, "the peer closed the link"});
      world->fall(link, side, why);
    });
  }

  result<void> send(const node_id& to, outgoing_frame frame) override {
    return world_->send(*member_, to, std::move(frame));
  }

  result<memory_region> register_memory(std::span<std::byte> bytes) override {
    if (bytes.empty())
      return failure{error_code::invalid_argument, "nothing to register: the span is empty"};
    // keys differ between nodes, so that a mix-up fails instead of reading something else
    const uint64_t key = (member_->config.id.lo ^ member_->config.id.hi) + ++member_->regions_made;
    member_->regions.emplace(key, bytes);
    ++world_->regions;
    return memory_region{key, bytes};
  }

  void unregister(const memory_region& region) override {
    world_->regions -= member_->regions.erase(region.key);
  }

  void read(const node_id& from,
            const remote_span& what,
            std::span<std::byte> into,
            std::chrono::milliseconds deadline,
            read_done done) override {
    if (!member_->alive() || member_->stopping) {
      done(failure{error_code::cancelled, "this node stops"});
      return;
    }
    world_->read(member_, from, what, deadline, {0, into, std::move(done), {}});
  }

  void post(std::function<void()> task) override {
    world_->at(world_->now, [member = member_, task = std::move(task)] {
      if (member->alive()) task();
    });
  }

  bool on_transport_thread() const override { return true; }
  transport_stats stats() const override { return member_->stats; }

private:
  std::shared_ptr<loop_world> world_;
  std::shared_ptr<loop_member> member_;
};

}  // namespace

std::unique_ptr<transport> make_loop_transport(std::shared_ptr<loop_world> world,
                                               const loop_node& node) {
  return std::make_unique<loop_transport>(std::move(world), node);
}

}  // namespace deepinfer::net
