#pragma once

#include "actors/messages/cache.hpp"
#include "actors/messages/errors.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/block/chain_hasher.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// A store that reads what it is offered and then does as the test says.
namespace deepinfer::test {

struct store_script {
  node_id where;  ///< the writer's node, whose memory is read
  net::transport* transport = nullptr;
  wire::KvPutOutcome outcome = wire::KvPutOutcome::STORED;
  bool answers = true;  ///< puts
  bool speaks = true;   ///< KvInfo
  uint64_t epoch = 1;
  storage::block_key id{0x51, 0x52};
  uint32_t group_blocks = 4;
  bool obeys = true;  ///< answers KvPurge
  bool purge_fails = false;
  bool clock_frozen = false;
  uint64_t purged_blocks = 0;

  // what came
  std::vector<wire::msg<wire::KvPut>> puts;
  std::map<storage::block_key, std::vector<std::byte>> blocks;
  uint32_t damaged = 0;
  std::vector<std::string> orders;
  std::vector<caf::typed_response_promise<wire::msg<wire::KvPutDone>>> open;
};

inline wire::msg<wire::KvPutDone> put_verdicts(const wire::msg<wire::KvPut>& put,
                                               wire::KvPutOutcome outcome) {
  wire::draft<wire::KvPutDone> out;
  auto list = out->initOutcomes(put.get().getBlocks().size());
  for (uint32_t i = 0; i < list.size(); ++i) list.set(i, outcome);
  return out.freeze();
}

/// Reads every block, checks that it is what its key and checksum say.
inline void read_blocks(store_script& script, const wire::msg<wire::KvPut>& put) {
  for (const auto block : put.get().getBlocks()) {
    const storage::block_key key{block.getKey().getHi(), block.getKey().getLo()};
    const storage::block_key parent{block.getParent().getHi(), block.getParent().getLo()};
    const auto content = block.getContent();
    const bool named = storage::key_of(parent, {reinterpret_cast<const std::byte*>(content.begin()),
                                                content.size()}) == key;
    auto bytes = std::make_shared<std::vector<std::byte>>(block.getBytes().getLength());
    const auto ref = block.getBytes();
    script.transport->read(
        script.where, {ref.getRegion(), ref.getOffset(), ref.getLength()}, *bytes,
        std::chrono::seconds{5},
        [&script, bytes, key, named, checksum = block.getChecksum()](const result<void>& read) {
          if (!read || !named || storage::block_checksum(key, *bytes) != checksum)
            ++script.damaged;
          else
            script.blocks[key] = *bytes;
        });
  }
}

inline kv_store_actor::behavior_type scripted_store(kv_store_actor::pointer self,
                                                    const std::shared_ptr<store_script>& script) {
  using namespace wire;
  return {
      [self, script](const msg<KvPut>& m) {
        auto promise = self->make_response_promise<msg<KvPutDone>>();
        script->puts.push_back(m);
        read_blocks(*script, m);
        if (script->answers)
          promise.deliver(put_verdicts(m, script->outcome));
        else
          script->open.push_back(promise);
        return promise;
      },
      [](const msg<KvOpen>&) { return msg<KvOpened>{}; },
      [](const msg<KvRead>&) { return msg<KvReadDone>{}; },
      [](const msg<KvChangesQuery>&) { return msg<KvChanges>{}; },
      [](const msg<KvSnapshotQuery>&) { return msg<KvSnapshotPage>{}; },
      [self, script](const msg<KvInfoQuery>&) {
        auto promise = self->make_response_promise<msg<KvInfo>>();
        if (!script->speaks) return promise;
        draft<KvInfo> out;
        out->initStore().setHi(script->id.hi);
        out->getStore().setLo(script->id.lo);
        out->setEpoch(script->epoch);
        out->setGroupBlocks(script->group_blocks);
        out->setReplicas(1);
        out->setCapacityBytes(1 << 30);
        out->setClockFrozen(script->clock_frozen);
        promise.deliver(out.freeze());
        return promise;
      },
      [](const msg<KvHave>&) { return msg<KvHas>{}; },
      [self, script](const msg<KvPurge>& m) {
        auto promise = self->make_response_promise<msg<KvPurged>>();
        script->orders.push_back("purge " + std::to_string(m.get().getScope()));
        if (script->purge_fails) {
          promise.deliver(to_caf({error_code::unreachable, "its disk is full"}));
        } else if (script->obeys) {
          draft<KvPurged> out;
          out->setBlocks(script->purged_blocks);
          out->setBytes(1000 * script->purged_blocks);
          promise.deliver(out.freeze());
        }
        return promise;
      },
      [script](const msg<KvClockAcknowledge>&) {
        script->orders.emplace_back("acknowledge");
        script->clock_frozen = false;
        return msg<Ack>{};
      },
      [](const msg<KvRenew>&) {},
      [](const msg<KvClose>&) {},
      [](const msg<KvReportBad>&) {},
      [](const msg<LeaseRelease>&) {},
      [](const msg<Inspect>&) { return msg<ActorInfo>{}; },
  };
}

}  // namespace deepinfer::test
