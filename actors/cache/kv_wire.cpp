#include "actors/cache/kv_wire.hpp"

#include <cstring>
#include <string>

namespace deepinfer {

using storage::block_key;

block_key read_block_key(wire::Id128::Reader in) {
  return {in.getHi(), in.getLo()};
}

void write_block_key(wire::Id128::Builder out, const block_key& key) {
  out.setHi(key.hi);
  out.setLo(key.lo);
}

result<std::vector<block_key>> read_keys(capnp::Data::Reader in, size_t limit) {
  if (in.size() == 0 || in.size() % storage::key_bytes != 0)
    return failure{error_code::invalid_argument,
                   "keys are 16 bytes each, and there is one at least; these are " +
                       std::to_string(in.size()) + " bytes"};
  const size_t count = in.size() / storage::key_bytes;
  if (count > limit)
    return failure{error_code::too_large, std::to_string(count) + " keys in one message; at most " +
                                              std::to_string(limit) + " are taken: split it"};
  std::vector<block_key> keys(count);
  for (size_t i = 0; i < count; ++i)
    keys[i] = storage::key_from_bytes(reinterpret_cast<const std::byte*>(in.begin()) +
                                      i * storage::key_bytes);
  return keys;
}

std::vector<std::byte> keys_as_data(std::span<const block_key> keys) {
  std::vector<std::byte> bytes;
  bytes.reserve(keys.size() * storage::key_bytes);
  for (const block_key& key : keys) {
    const auto one = storage::to_bytes(key);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

result<storage::traffic_class> read_traffic(uint8_t in) {
  const auto traffic = static_cast<storage::traffic_class>(in);
  if (traffic != storage::traffic_class::agent && traffic != storage::traffic_class::chat)
    return failure{error_code::invalid_argument, "no traffic class has the number " +
                                                     std::to_string(in) +
                                                     "; run the same release on all nodes"};
  return traffic;
}

result<std::vector<int32_t>> read_block_tokens(capnp::Data::Reader in, size_t blocks) {
  const size_t unit = blocks * sizeof(int32_t);
  if (unit == 0 || in.size() == 0 || in.size() % unit != 0 ||
      in.size() / unit > storage::max_block_tokens)
    return failure{error_code::invalid_argument, std::to_string(in.size()) +
                                                     " bytes of tokens are not those of " +
                                                     std::to_string(blocks) + " whole blocks"};
  std::vector<int32_t> tokens(in.size() / sizeof(int32_t));
  std::memcpy(tokens.data(), in.begin(), in.size());
  return tokens;
}

// ---- what a store tells

void write_change(wire::KvChange::Builder out, const storage::block_change& change) {
  out.setSequence(change.sequence);
  out.setKind(static_cast<wire::KvChangeKind>(change.kind));
  write_block_key(out.initKey(), change.key);
  write_block_key(out.initParent(), change.parent);
  out.setDepth(change.depth);
  out.setContentDigest(change.content_digest);
  out.setExpiryMs(static_cast<uint64_t>(change.expiry.count()));
}

storage::block_change read_change(wire::KvChange::Reader in) {
  storage::block_change change;
  change.sequence = in.getSequence();
  change.kind = in.getKind() == wire::KvChangeKind::REMOVED   ? storage::change_kind::removed
                : in.getKind() == wire::KvChangeKind::TOUCHED ? storage::change_kind::touched
                                                              : storage::change_kind::stored;
  change.key = read_block_key(in.getKey());
  change.parent = read_block_key(in.getParent());
  change.depth = in.getDepth();
  change.content_digest = in.getContentDigest();
  change.expiry = storage::cluster_time{static_cast<int64_t>(in.getExpiryMs())};
  return change;
}

wire::msg<wire::KvChanges> to_wire(const storage::change_batch& batch) {
  wire::draft<wire::KvChanges> out;
  out->setGap(batch.gap);
  out->setEpoch(batch.next.epoch);
  out->setSequence(batch.next.sequence);
  auto list = out->initChanges(static_cast<uint32_t>(batch.changes.size()));
  for (uint32_t i = 0; i < batch.changes.size(); ++i) write_change(list[i], batch.changes[i]);
  return out.freeze();
}

storage::change_batch read_changes(wire::KvChanges::Reader in) {
  storage::change_batch batch;
  batch.gap = in.getGap();
  batch.next = {in.getEpoch(), in.getSequence()};
  for (const auto change : in.getChanges()) batch.changes.push_back(read_change(change));
  return batch;
}

wire::msg<wire::KvSnapshotPage> to_wire(const storage::snapshot_page& page) {
  wire::draft<wire::KvSnapshotPage> out;
  out->setEpoch(page.position.epoch);
  out->setSequence(page.position.sequence);
  out->setNextCursor(page.next_cursor);
  auto list = out->initBlocks(static_cast<uint32_t>(page.blocks.size()));
  for (uint32_t i = 0; i < page.blocks.size(); ++i) write_change(list[i], page.blocks[i]);
  return out.freeze();
}

storage::snapshot_page read_page(wire::KvSnapshotPage::Reader in) {
  storage::snapshot_page page;
  page.position = {in.getEpoch(), in.getSequence()};
  page.next_cursor = in.getNextCursor();
  for (const auto block : in.getBlocks()) page.blocks.push_back(read_change(block));
  return page;
}

}  // namespace deepinfer
