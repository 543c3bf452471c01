#include "actors/cache/move_work.hpp"

#include "actors/serve/staged_wire.hpp"

#include <algorithm>

namespace deepinfer {

using storage::group_block;
using storage::traffic_class;

namespace {

void write_header(wire::KvPut::Builder out, const group_block& first, const move_sender& from) {
  out.setWriter(from.writer.id);
  out.setWriterEpoch(from.writer.epoch);
  out.setScope(static_cast<uint64_t>(first.record.scope));
  out.setTraffic(static_cast<uint8_t>(copied_as(first)));
  out.setDeadlineMs(static_cast<uint32_t>(from.deadline.count()));
}

void write_block(wire::BlockWrite::Builder out, const group_block& block, uint64_t checksum) {
  write_block_key(out.initKey(), block.record.key);
  write_block_key(out.initParent(), block.record.parent);
  out.setDepth(block.record.depth);
  out.setContent({reinterpret_cast<const kj::byte*>(block.content.data()), block.content.size()});
  out.setChecksum(checksum);
  // 0 would be "as its class says"
  out.setExpiryMs(static_cast<uint64_t>(std::max<int64_t>(1, block.record.expiry.count())));
}

/// In one write, as stores see it: the owner may have what lies between them.
bool may_follow(const group_block& last, const group_block& next) {
  const uint32_t depth = last.record.depth;
  return next.record.depth > depth + 1 ||
         (next.record.depth == depth + 1 && next.record.parent == last.record.key);
}

}  // namespace

traffic_class copied_as(const group_block& block) {
  const bool chat = (block.record.classes & mask_of(traffic_class::chat)) != 0;
  return chat ? traffic_class::chat : traffic_class::agent;
}

std::vector<size_t> sending_order(std::span<const group_block> page,
                                  std::span<const size_t> places) {
  std::vector<size_t> order;
  for (const traffic_class use : {traffic_class::chat, traffic_class::agent})
    for (const size_t at : places)
      if (copied_as(page[at]) == use && !page[at].content.empty()) order.push_back(at);
  return order;
}

size_t fitting(std::span<const group_block> page, std::span<const size_t> places, uint64_t bytes) {
  uint64_t sum = 0;
  for (size_t count = 0; count < places.size(); ++count) {
    const group_block& next = page[places[count]];
    sum += next.record.length;
    if (count == 0) continue;
    const group_block& last = page[places[count - 1]];
    if (sum > bytes || copied_as(next) != copied_as(last) || !may_follow(last, next)) return count;
  }
  return places.size();
}

wire::msg<wire::KvPut> copy_of(std::span<const group_block> page,
                               std::span<const size_t> places,
                               const read_work& read,
                               const move_sender& from) {
  std::vector<size_t> good;
  for (size_t i = 0; i < places.size(); ++i)
    if (read.statuses[i] == wire::KvReadStatus::OK) good.push_back(i);
  wire::draft<wire::KvPut> out;
  write_header(*out, page[places.front()], from);
  auto blocks = out->initBlocks(static_cast<uint32_t>(good.size()));
  for (uint32_t k = 0; k < good.size(); ++k) {
    const size_t i = good[k];
    write_block(blocks[k], page[places[i]], read.places[i].checksum);
    write_bytes(blocks[k].initBytes(), {read.room.region, read.room.generation}, read.parts[i]);
  }
  write_lease(out->initLease(), read.room.lease, from.owner, from.deadline);
  return out.freeze();
}

wire::msg<wire::KvPut> question_of(std::span<const group_block> page,
                                   std::span<const size_t> places,
                                   const move_sender& from) {
  wire::draft<wire::KvPut> out;
  write_header(*out, page[places.front()], from);
  out->setPlacement(from.placement);
  auto blocks = out->initBlocks(static_cast<uint32_t>(places.size()));
  for (uint32_t k = 0; k < places.size(); ++k) {
    const group_block& block = page[places[k]];
    write_block(blocks[k], block, block.record.checksum);
    blocks[k].initBytes().setLength(block.record.length);
  }
  return out.freeze();
}

}  // namespace deepinfer
