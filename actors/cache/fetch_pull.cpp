#include "actors/cache/fetch_pull.hpp"

#include "actors/cache/fetch_runs.hpp"
#include "actors/cache/kv_wire.hpp"
#include "actors/messages/errors.hpp"
#include "runtime/net/transport.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace deepinfer {

using fetch::block_done;
using fetch::outcome;

namespace {

constexpr std::chrono::milliseconds answer_grace{50};  // behind the deadline that a store was told

capnp::Data::Reader data_of(const void* bytes, size_t count) {
  return {static_cast<const capnp::byte*>(bytes), count};
}

fetch::opened read_opened(wire::KvOpened::Reader in) {
  fetch::opened out;
  out.blocks = in.getBlocks();
  out.lease = {in.getLease(), in.getEpoch()};
  out.ttl = std::chrono::milliseconds(in.getTtlMs());
  bool sane = true;
  for (const auto place : in.getPlaces())
    sane = sane && place.getLength() > 0 && place.getLength() <= storage::max_block_bytes;
  if (!sane || in.getPlaces().size() < in.getBlocks()) return out;
  out.folder = {in.getFolder().begin(), in.getFolder().size()};
  out.folder_mark = {in.getFolderMark().getHi(), in.getFolderMark().getLo()};
  for (const auto place : in.getPlaces())
    out.places.push_back(
        {{place.getSegment(), place.getOffset()}, place.getLength(), place.getChecksum()});
  return out;
}

outcome outcome_of(wire::KvReadStatus status) {
  switch (status) {
    case wire::KvReadStatus::OK:
      return outcome::ok;
    case wire::KvReadStatus::ABSENT:
      return outcome::absent;
    case wire::KvReadStatus::BAD:
      return outcome::bad;
    case wire::KvReadStatus::STALE:
      return outcome::stale;
    case wire::KvReadStatus::NO_ROOM:
      return outcome::no_room;
    default:
      return outcome::failed;
  }
}

/// What is verified while the rest is on its way, and still in a cache when it is.
constexpr uint64_t part_bytes = uint64_t{1} << 20;

}  // namespace

std::chrono::nanoseconds fetch_pull::now() const {
  return self_->clock().now().time_since_epoch();
}

void fetch_pull::run(fetch_pool::work work) {
  self_->state.pool->add(std::move(work));
  begin_works();
}

void fetch_pull::begin_works() {
  kv_fetch_state& state = self_->state;
  const kv_fetch_impl_actor me{self_};
  while (auto one = state.pool->next(now()))
    self_->send(state.io.at(one->worker),
                fetch_work{[me, worker = one->worker, run = std::move(one->run)] {
                  run();
                  caf::anon_send(me, fetch_io_over{worker});
                }});
}

void fetch_pull::worked(uint32_t worker) {
  self_->state.pool->over(worker);
  begin_works();
}

void fetch_pull::open(const fetch::open_group& what) {
  kv_fetch_state& state = self_->state;
  const auto over = [self = self_, job = what.job,
                     store = what.store_index](result<fetch::opened> said) {
    self->state.core->on_opened(job, store, std::move(said),
                                self->clock().now().time_since_epoch());
    run_effects(self);
  };
  const auto store = state.setup.hub->resolve<kv_store_actor>(what.store);
  if (!store) return over(store.error());
  const auto keys = keys_as_data(what.keys);
  wire::draft<wire::KvOpen> out;
  out->setKeys(data_of(keys.data(), keys.size()));
  out->setTokens(data_of(what.tokens.data(), what.tokens.size() * sizeof(int32_t)));
  out->setFirstDepth(what.first_depth);
  out->setDeadlineMs(static_cast<uint32_t>(what.timeout.count()));
  // A store that answers at its deadline is still heard, so that no lease is left without a holder.
  self_->request(*store, what.timeout + answer_grace, out.freeze())
      .then([over](const wire::msg<wire::KvOpened>& said) { over(read_opened(said.get())); },
            [over](const caf::error& why) { over(from_caf(why)); });
  state.card.sent(*store);
}

void fetch_pull::read(const fetch::read_blocks& what) {
  if (what.places.empty())
    ask(what);
  else
    read_files(what);
}

void fetch_pull::end(uint64_t batch, size_t blocks, outcome what) {
  self_->state.core->on_read(batch, std::vector<block_done>(blocks, {what, 0, 0}), now());
  run_effects(self_);
}

// ---- files

void fetch_pull::read_files(const fetch::read_blocks& what) {
  kv_fetch_state& state = self_->state;
  std::vector<fetch::piece> pieces;
  for (const auto& place : what.places)
    pieces.push_back({place.at.segment, place.at.offset, place.length});
  auto work = std::make_shared<file_batch>();
  work->runs = state.core->make_room(what.batch, pieces);
  if (work->runs.empty()) return end(what.batch, what.keys.size(), outcome::no_room);
  work->folder = what.folder;
  work->mark = what.folder_mark;
  work->keys = what.keys;
  work->places = what.places;
  for (uint32_t i = 0; i < what.keys.size(); ++i)
    work->offsets.push_back(state.core->offset_of(what.batch, i));
  const kv_fetch_impl_actor me{self_};
  run({what.folder,
       [me, work, batch = what.batch, memory = state.memory, folders = state.folders] {
         caf::anon_send(me, fetch_read_over{batch, folders->read(*work, memory->bytes())});
       },
       [self = self_, batch = what.batch, blocks = what.keys.size()] {
         fetch_pull{self}.end(batch, blocks, outcome::failed);
       }});
}

// ---- through the store

void fetch_pull::ask(const fetch::read_blocks& what) {
  kv_fetch_state& state = self_->state;
  const auto store = state.setup.hub->resolve<kv_store_actor>(what.store);
  if (!store) return end(what.batch, what.keys.size(), outcome::gone);
  const auto keys = keys_as_data(what.keys);
  wire::draft<wire::KvRead> out;
  out->setLease(what.lease.id);
  out->setEpoch(what.lease.epoch);
  out->setKeys(data_of(keys.data(), keys.size()));
  out->setDeadlineMs(static_cast<uint32_t>(what.timeout.count()));
  out->setReaderVerifies(true);
  self_->request(*store, what.timeout + answer_grace, out.freeze())
      .then(
          [self = self_, what](const wire::msg<wire::KvReadDone>& said) {
            fetch_pull{self}.answered(what, said.get());
          },
          [self = self_, what](const caf::error& why) {
            fetch_pull{self}.refused(what, from_caf(why));
          });
  state.card.sent(*store);
}

void fetch_pull::refused(const fetch::read_blocks& what, const failure& why) {
  self_->state.card.count("reads_refused");
  end(what.batch, what.keys.size(),
      why.code == error_code::no_capacity ? outcome::no_room : outcome::gone);
}

/// What the store says is bounded before it is believed: room is made for lengths a block can have.
void fetch_pull::answered(const fetch::read_blocks& what, wire::KvReadDone::Reader said) {
  kv_fetch_state& state = self_->state;
  pulled_batch batch;
  batch.keys = what.keys;
  batch.store = what.store;
  batch.staged = said.getLease().getId();
  batch.done.resize(what.keys.size());
  std::vector<fetch::piece> pieces(what.keys.size());
  std::vector<uint64_t> regions;
  bool any = false;
  const auto blocks = said.getBlocks();
  for (uint32_t i = 0; i < what.keys.size() && i < blocks.size(); ++i) {
    const auto bytes = blocks[i].getBytes();
    batch.done[i].what = outcome_of(blocks[i].getStatus());
    if (batch.done[i].what != outcome::ok) continue;
    if (bytes.getLength() == 0 || bytes.getLength() > storage::max_block_bytes) {
      batch.done[i].what = outcome::failed;
      continue;
    }
    const auto region = std::find(regions.begin(), regions.end(), bytes.getRegion());
    pieces[i] = {static_cast<uint32_t>(region - regions.begin()), bytes.getOffset(),
                 static_cast<uint32_t>(bytes.getLength())};
    if (region == regions.end()) regions.push_back(bytes.getRegion());
    batch.done[i].length = pieces[i].length;
    batch.done[i].checksum = blocks[i].getChecksum();
    any = true;
  }
  std::vector<fetch::run> runs;
  if (any) runs = state.core->make_room(what.batch, pieces);
  if (runs.empty())
    for (block_done& one : batch.done)
      if (one.what == outcome::ok) one = {outcome::no_room, 0, 0};
  const auto parts = fetch::parts_of(runs, pieces, part_bytes);
  for (uint32_t i = 0; i < what.keys.size(); ++i)
    batch.offsets.push_back(state.core->offset_of(what.batch, i));
  batch.to_pull = batch.to_verify = parts.size();
  if (parts.empty()) {
    all_pulled(batch);
    return read_over({what.batch, std::move(batch.done)});
  }
  state.pulls.emplace(what.batch, std::move(batch));
  // only the node that was asked is read from, whatever it says
  for (const fetch::run& part : parts)
    pull(what.batch, part, what.store.node, regions[pieces[part.first].source]);
}

void fetch_pull::pull(uint64_t batch,
                      const fetch::run& part,
                      const node_id& owner,
                      uint64_t region) {
  kv_fetch_state& state = self_->state;
  const kv_fetch_impl_actor me{self_};
  state.setup.transport->read(owner, {region, part.from, part.bytes},
                              state.memory->bytes().subspan(part.into, part.bytes),
                              state.setup.config.read_timeout,
                              [me, batch, part, memory = state.memory](const result<void>& read) {
                                caf::anon_send(me, fetch_pulled{batch, part, read.has_value()});
                              });
}

void fetch_pull::pulled(const fetch_pulled& what) {
  kv_fetch_state& state = self_->state;
  const auto found = state.pulls.find(what.batch);
  if (found == state.pulls.end()) return;
  pulled_batch& batch = found->second;
  if (--batch.to_pull == 0) all_pulled(batch);
  if (what.good) return verify(what.batch, what.part);
  verified({what.batch, what.part.first,
            std::vector<block_done>(what.part.count, {outcome::failed, 0, 0})});
}

/// The store may use its memory again.
void fetch_pull::all_pulled(const pulled_batch& batch) {
  if (batch.staged == 0) return;
  const auto store = self_->state.setup.hub->resolve<kv_store_actor>(batch.store);
  if (!store) return;
  wire::draft<wire::LeaseRelease> out;
  out->setId(batch.staged);
  self_->send(*store, out.freeze());
}

/// A block that is not what the store's index says is `bad`: the store is told, and looks itself.
void fetch_pull::verify(uint64_t number, const fetch::run& part) {
  kv_fetch_state& state = self_->state;
  const pulled_batch& batch = state.pulls.at(number);
  struct block {
    storage::block_key key;
    uint64_t offset = 0;
    block_done said;
  };
  std::vector<block> blocks;
  for (uint32_t i = part.first; i < part.first + part.count; ++i)
    blocks.push_back({batch.keys[i], batch.offsets[i], batch.done[i]});
  const kv_fetch_impl_actor me{self_};
  run({{},
       [me, number, first = part.first, blocks = std::move(blocks), memory = state.memory] {
         fetch_verified out{number, first, {}};
         for (const block& one : blocks)
           out.done.push_back(deepinfer::verified(
               one.key, memory->bytes().subspan(one.offset, one.said.length), one.said.checksum));
         caf::anon_send(me, std::move(out));
       },
       {}});
}

void fetch_pull::verified(const fetch_verified& what) {
  kv_fetch_state& state = self_->state;
  const auto found = state.pulls.find(what.batch);
  if (found == state.pulls.end()) return;
  pulled_batch& batch = found->second;
  std::copy(what.done.begin(), what.done.end(), batch.done.begin() + what.first);
  if (--batch.to_verify > 0) return;
  const auto ended = state.pulls.extract(found);
  read_over({what.batch, ended.mapped().done});
}

void fetch_pull::read_over(const fetch_read_over& what) {
  self_->state.core->on_read(what.batch, what.done, now());
  run_effects(self_);
}

// ---- leases

void fetch_pull::renew(const fetch::renew_lease& what) {
  const auto store = self_->state.setup.hub->resolve<kv_store_actor>(what.store);
  if (!store) return;
  wire::draft<wire::KvRenew> out;
  out->setLease(what.lease.id);
  out->setEpoch(what.lease.epoch);
  self_->send(*store, out.freeze());
}

void fetch_pull::close(const fetch::close_lease& what) {
  const auto store = self_->state.setup.hub->resolve<kv_store_actor>(what.store);
  if (!store) return;
  wire::draft<wire::KvClose> out;
  out->setLease(what.lease.id);
  out->setEpoch(what.lease.epoch);
  out->setUsed(what.use.kind == storage::use_kind::used);
  out->setTraffic(static_cast<uint8_t>(what.use.traffic));
  self_->send(*store, out.freeze());
}

void fetch_pull::report(const fetch::report_bad& what) {
  self_->state.card.count("bad_blocks_reported");
  const auto store = self_->state.setup.hub->resolve<kv_store_actor>(what.store);
  if (!store) return;
  wire::draft<wire::KvReportBad> out;
  out->initKey().setHi(what.key.hi);
  out->getKey().setLo(what.key.lo);
  self_->send(*store, out.freeze());
}

}  // namespace deepinfer
