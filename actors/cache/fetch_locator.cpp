#include "actors/cache/fetch_locator.hpp"

#include <string_view>

namespace deepinfer {
namespace {

std::optional<actor_ref> fetcher_of(wire::NodeRecord::Reader record) {
  for (const auto service : record.getServices())
    if (service.getKind() == fetch_service_kind) return read_ref(service.getActor());
  return std::nullopt;
}

}  // namespace

std::optional<actor_ref> choose_fetcher(wire::Members::Reader members) {
  const node_id self{members.getSelf().getHi(), members.getSelf().getLo()};
  std::string_view machine;
  for (const auto record : members.getRecords()) {
    if (node_id{record.getId().getHi(), record.getId().getLo()} != self) continue;
    if (auto own = fetcher_of(record)) return own;
    machine = {record.getMachine().begin(), record.getMachine().size()};
  }
  if (machine.empty()) return std::nullopt;
  std::optional<actor_ref> best;
  uint64_t best_epoch = 0;
  for (const auto record : members.getRecords()) {
    const bool here =
        std::string_view{record.getMachine().begin(), record.getMachine().size()} == machine;
    if (!here || record.getState() != wire::NodeState::ALIVE) continue;
    const auto found = fetcher_of(record);
    if (!found || (best && record.getEpoch() <= best_epoch)) continue;
    best = found;
    best_epoch = record.getEpoch();
  }
  return best;
}

result<fetched_prefix> open_fetched(storage::arena_views& views, wire::KvFetched::Reader fetched) {
  fetched_prefix out;
  out.why = {error_code_from_wire(fetched.getWhy().getCode()), fetched.getWhy().getDetail()};
  if (fetched.getBlocks().size() == 0) return out;
  auto memory = views.memory({fetched.getArenaProcess(), fetched.getArenaDescriptor(),
                              fetched.getArenaBytes(), fetched.getArenaEpoch()});
  if (!memory) return memory.error();
  out.memory = *std::move(memory);
  out.blocks.reserve(fetched.getBlocks().size());
  for (const auto block : fetched.getBlocks()) {
    const auto found =
        storage::arena_views::span_of(out.memory, block.getOffset(), block.getLength());
    if (!found) return found.error();
    out.blocks.push_back({found->bytes, block.getChecksum()});
  }
  return out;
}

}  // namespace deepinfer
