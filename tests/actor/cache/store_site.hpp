#pragma once

#include "actors/cache/kv_io.hpp"
#include "actors/cache/kv_store.hpp"
#include "actors/cache/kv_wire.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/log.hpp"
#include "storage/memory/memory_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/noted_way.hpp"
#include "tests/support/remote_world.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer::test {

/// How a write differs from an honest one.
struct put_options {
  storage::writer_ref writer{1, 1};
  std::chrono::milliseconds deadline{10'000};
  bool flip_a_bit = false;             ///< of the staged bytes, behind their digest
  bool wrong_checksum = false;         ///< not that of the bytes
  std::chrono::milliseconds expiry{};  ///< of blocks that another store had
  std::vector<uint32_t> lacking;       ///< blocks of the chain that are left out
};

/// A store on one node and a client on another, in virtual time.
class store_site {
public:
  using milliseconds = std::chrono::milliseconds;

  explicit store_site(const net::loop_options& network = remote_world::instant())
      : net(1, network), home(net.start("10.0.0.1:1")), peer(net.start("10.0.0.2:1")), medium(7) {
    config.store = small();
    config.staging_bytes = 1 << 20;
    config.pull_bytes = 1 << 20;
    staging = *staging_area::make(*peer.transport, 1 << 20);
  }

  ~store_site() { end(); }

  /// The store's memory is its transport's to know, so the actor goes first.
  void end() {
    caf::anon_send_exit(local, caf::exit_reason::kill);
    run();
    local = nullptr;
    store = nullptr;
    backing = {};
  }

  static storage::store_config small() {
    storage::store_config made;
    made.capacity_bytes = 8 << 20;
    made.segment_bytes = 1 << 20;
    made.group_blocks = 8;
    return made;
  }

  /// Spawns the store; `config`, and `spawn_io` when it is set, as they are by then.
  kv_store_actor& open() {
    kv_store_setup setup;
    setup.config = config;
    setup.backing.store = *medium.open(store_settings(config, config.store.capacity_bytes));
    setup.backing.id = {11, 12};
    setup.backing.folder = folder;
    setup.backing.mark = {13, 14};
    setup.backing.capacity_bytes = config.store.capacity_bytes;
    setup.hub = &home.hub;
    setup.transport = home.transport.get();
    setup.wall = [this] { return wall(); };
    setup.log = log;
    setup.metrics = std::make_shared<store_metrics>(store_metrics{reads.way(), writes.way()});
    setup.spawn_io = spawn_io ? spawn_io : [this] {
      return kv_io_actor{home.world.system.spawn(kv_io, std::cref(home.hub))};
    };
    backing = setup.backing;
    local = home.world.system.spawn(kv_store, setup);
    const auto ref = home.hub.export_actor(kv_store_actor{local});
    REQUIRE(ref);
    store = *peer.hub.resolve<kv_store_actor>(*ref);
    run();
    return store;
  }

  void run() { net.run(); }
  void advance(std::chrono::nanoseconds time) { net.advance(time); }
  [[nodiscard]] milliseconds wall() const {
    return std::chrono::hours{500'000} + std::chrono::duration_cast<milliseconds>(home.world.now());
  }

  /// Blocks [from, to) of a chain, staged in the client's memory.
  wire::msg<wire::KvPut> put_of(const block_chain& chain,
                                uint32_t from,
                                uint32_t to,
                                const put_options& options = {}) {
    std::vector<uint32_t> blocks;
    for (uint32_t i = from; i < to; ++i)
      if (std::find(options.lacking.begin(), options.lacking.end(), i) == options.lacking.end())
        blocks.push_back(i);
    std::vector<model::state_part> parts;
    for (const uint32_t i : blocks)
      parts.push_back({model::part_kind::block, i, bytes_of(chain.keys[i], chain.length)});
    const auto staged = staging->stage(parts, peer.world.now(), std::chrono::hours{1});
    REQUIRE(staged);
    wire::draft<wire::KvPut> out;
    out->setWriter(options.writer.id);
    out->setWriterEpoch(options.writer.epoch);
    out->setScope(static_cast<uint64_t>(chain.scope));
    out->setTraffic(static_cast<uint8_t>(storage::traffic_class::chat));
    out->setDeadlineMs(static_cast<uint32_t>(options.deadline.count()));
    auto list = out->initBlocks(static_cast<uint32_t>(blocks.size()));
    for (uint32_t k = 0; k < blocks.size(); ++k)
      write_block(list[k], chain, blocks[k], staged->parts[k], *staged, options);
    auto lease = out->initLease();
    lease.setId(staged->lease);
    lease.initNode().setHi(peer.id().hi);
    lease.getNode().setLo(peer.id().lo);
    write_ref(lease.initOwner(),
              *peer.hub.export_actor(caf::actor_cast<lease_owner_actor>(peer.world.self)));
    return out.freeze();
  }

  std::vector<wire::KvPutOutcome> put(const block_chain& chain,
                                      uint32_t from,
                                      uint32_t to,
                                      const put_options& options = {}) {
    return outcomes_of(
        net.ask<wire::msg<wire::KvPutDone>>(peer, store, put_of(chain, from, to, options)));
  }

  static std::vector<wire::KvPutOutcome> outcomes_of(
      const result<wire::msg<wire::KvPutDone>>& done) {
    REQUIRE(done);
    const auto list = done->get().getOutcomes();
    std::vector<wire::KvPutOutcome> all;
    for (const auto one : list) all.push_back(one);
    return all;
  }

  static wire::msg<wire::KvOpen> open_of(const block_chain& chain,
                                         uint32_t from,
                                         uint32_t to,
                                         milliseconds deadline = milliseconds{0}) {
    wire::draft<wire::KvOpen> out;
    out->setDeadlineMs(static_cast<uint32_t>(deadline.count()));
    const auto keys = keys_as_data(std::span{chain.keys}.subspan(from, to - from));
    out->setKeys({reinterpret_cast<const kj::byte*>(keys.data()), keys.size()});
    const auto tokens = std::span{chain.tokens}.subspan(size_t{from} * chain_tokens,
                                                        size_t{to - from} * chain_tokens);
    out->setTokens({reinterpret_cast<const kj::byte*>(tokens.data()), tokens.size_bytes()});
    out->setFirstDepth(from);
    return out.freeze();
  }

  wire::msg<wire::KvOpened> opened(const block_chain& chain, uint32_t from, uint32_t to) {
    const auto got = net.ask<wire::msg<wire::KvOpened>>(peer, store, open_of(chain, from, to));
    REQUIRE(got);
    return *got;
  }

  static wire::msg<wire::KvRead> read_of(
      const wire::KvOpened::Reader& lease,
      std::span<const storage::block_key> keys,
      milliseconds deadline = milliseconds{10'000},
      storage::read_check check = storage::read_check::by_store) {
    wire::draft<wire::KvRead> out;
    out->setReaderVerifies(check == storage::read_check::by_reader);
    out->setLease(lease.getLease());
    out->setEpoch(lease.getEpoch());
    const auto data = keys_as_data(keys);
    out->setKeys({reinterpret_cast<const kj::byte*>(data.data()), data.size()});
    out->setDeadlineMs(static_cast<uint32_t>(deadline.count()));
    return out.freeze();
  }

  wire::msg<wire::KvReadDone> read(const wire::KvOpened::Reader& lease,
                                   std::span<const storage::block_key> keys,
                                   storage::read_check check = storage::read_check::by_store) {
    const auto got = net.ask<wire::msg<wire::KvReadDone>>(
        peer, store, read_of(lease, keys, milliseconds{10'000}, check));
    REQUIRE(got);
    return *got;
  }

  /// Pulls what a read answered; empty when that fails.
  std::vector<std::byte> pull(const wire::BulkRef::Reader& bytes) {
    std::vector<std::byte> into(bytes.getLength());
    bool good = false;
    peer.transport->read(home.id(), {bytes.getRegion(), bytes.getOffset(), bytes.getLength()}, into,
                         std::chrono::seconds{5},
                         [&good](const result<void>& read) { good = bool{read}; });
    run();
    return good ? into : std::vector<std::byte>{};
  }

  void close(const wire::KvOpened::Reader& lease, storage::use_kind use) {
    wire::draft<wire::KvClose> out;
    out->setLease(lease.getLease());
    out->setEpoch(lease.getEpoch());
    out->setUsed(use == storage::use_kind::used);
    out->setTraffic(static_cast<uint8_t>(storage::traffic_class::chat));
    peer.world.self->send(store, out.freeze());
    run();
  }

  /// Ids of leases that the store gave back to the client.
  std::vector<uint64_t> released() {
    run();
    std::vector<uint64_t> ids;
    while (const auto got = peer.world.received<wire::msg<wire::LeaseRelease>>())
      ids.push_back(got->get().getId());
    return ids;
  }

  int64_t gauge(const std::string& name) {
    const auto info = net.ask<wire::msg<wire::ActorInfo>>(peer, store, wire::msg<wire::Inspect>{});
    REQUIRE(info);
    for (const auto counter : info->get().getCounters())
      if (counter.getName() == name.c_str()) return counter.getValue();
    return 0;
  }

  /// Lines of the log with this event.
  [[nodiscard]] size_t logged(const std::string& event) const {
    size_t count = 0;
    for (const std::string& line : log->tail(200))
      count += line.find(' ' + event + ' ') == std::string::npos ? 0 : 1;
    return count;
  }

  remote_world net;
  remote_node& home;
  remote_node& peer;
  storage::memory_medium medium;
  kv_store_config config;
  std::string folder;
  std::function<kv_io_actor()> spawn_io;
  std::shared_ptr<ring_log> log = std::make_shared<ring_log>(
      200, log_level::debug, [] { return std::chrono::sys_time<milliseconds>{}; });
  noted_way reads, writes;
  std::unique_ptr<staging_area> staging;  ///< of the client
  kv_backing backing;
  kv_store_impl_actor local;
  kv_store_actor store;  ///< as the client sees it

private:
  void write_block(wire::BlockWrite::Builder out,
                   const block_chain& chain,
                   uint32_t index,
                   const staged_part& part,
                   const staged_sequence& staged,
                   const put_options& options) {
    write_block_key(out.initKey(), chain.keys[index]);
    write_block_key(out.initParent(), index == 0 ? chain.root : chain.keys[index - 1]);
    out.setDepth(index);
    out.setExpiryMs(static_cast<uint64_t>(options.expiry.count()));
    const auto content = chain.content(index);
    out.setContent({reinterpret_cast<const kj::byte*>(content.data()), content.size()});
    auto bytes = out.initBytes();
    bytes.setRegion(staged.region);
    bytes.setOffset(part.offset);
    bytes.setLength(part.length);
    bytes.setGeneration(staged.generation);
    bytes.setDigestHi(part.digest_hi);
    bytes.setDigestLo(part.digest_lo ^ (options.flip_a_bit ? 1 : 0));
    const uint64_t checksum =
        storage::block_checksum(chain.keys[index], bytes_of(chain.keys[index], chain.length));
    out.setChecksum(checksum ^ (options.wrong_checksum ? 1 : 0));
  }
};

}  // namespace deepinfer::test
