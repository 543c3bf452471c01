#include "actors/cache/kv_wire.hpp"

#include <algorithm>
#include <bit>
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

namespace {

static_assert(std::endian::native == std::endian::little, "columns are copied as they are");

template <class Number, class Field>
void write_column(capnp::Data::Builder out,
                  std::span<const storage::block_change> changes,
                  Field field) {
  capnp::byte* to = out.begin();
  for (const storage::block_change& change : changes) {
    const auto value = static_cast<Number>(field(change));
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
}

template <class Number, class Field>
void read_column(capnp::Data::Reader in, std::span<storage::block_change> changes, Field field) {
  const capnp::byte* from = in.begin();
  for (storage::block_change& change : changes) {
    Number value;
    std::memcpy(&value, from, sizeof value);
    field(change, value);
    from += sizeof value;
  }
}

void write_columns(wire::KvChangeColumns::Builder out,
                   std::span<const storage::block_change> changes) {
  const auto count = static_cast<uint32_t>(changes.size());
  out.setCount(count);
  if (count == 0) return;
  const bool all_stored = std::all_of(changes.begin(), changes.end(), [](const auto& change) {
    return change.kind == storage::change_kind::stored;
  });
  if (!all_stored)
    write_column<uint8_t>(out.initKinds(count), changes, [](const auto& c) { return c.kind; });
  auto keys = out.initKeys(count * static_cast<uint32_t>(storage::key_bytes));
  for (size_t i = 0; i < count; ++i) {
    const auto one = storage::to_bytes(changes[i].key);
    std::memcpy(keys.begin() + i * storage::key_bytes, one.data(), one.size());
  }
  write_column<uint32_t>(out.initDepths(count * 4), changes, [](const auto& c) { return c.depth; });
  write_column<uint64_t>(out.initContentDigests(count * 8), changes,
                         [](const auto& c) { return c.content_digest; });
  write_column<uint64_t>(out.initExpiriesMs(count * 8), changes,
                         [](const auto& c) { return c.expiry.count(); });
}

result<std::vector<storage::block_change>> read_columns(wire::KvChangeColumns::Reader in) {
  const uint64_t count = in.getCount();
  const bool whole =
      in.getKeys().size() == count * storage::key_bytes && in.getDepths().size() == count * 4 &&
      in.getContentDigests().size() == count * 8 && in.getExpiriesMs().size() == count * 8 &&
      (in.getKinds().size() == 0 || in.getKinds().size() == count);
  if (!whole)
    return failure{error_code::corrupt, "columns of a store's changes are not of one length"};
  std::vector<storage::block_change> changes(count);
  const auto* key = reinterpret_cast<const std::byte*>(in.getKeys().begin());
  for (size_t i = 0; i < count; ++i, key += storage::key_bytes) {
    changes[i].key = storage::key_from_bytes(key);
    if (in.getFirstSequence() != 0) changes[i].sequence = in.getFirstSequence() + i;
  }
  if (in.getKinds().size() > 0)
    read_column<uint8_t>(in.getKinds(), changes, [](auto& change, uint8_t kind) {
      change.kind = kind == static_cast<uint8_t>(wire::KvChangeKind::REMOVED)
                        ? storage::change_kind::removed
                    : kind == static_cast<uint8_t>(wire::KvChangeKind::TOUCHED)
                        ? storage::change_kind::touched
                        : storage::change_kind::stored;
    });
  read_column<uint32_t>(in.getDepths(), changes, [](auto& c, uint32_t v) { c.depth = v; });
  read_column<uint64_t>(in.getContentDigests(), changes,
                        [](auto& c, uint64_t v) { c.content_digest = v; });
  read_column<uint64_t>(in.getExpiriesMs(), changes, [](auto& change, uint64_t ms) {
    change.expiry = storage::cluster_time{static_cast<int64_t>(ms)};
  });
  return changes;
}

}  // namespace

wire::msg<wire::KvChanges> to_wire(const storage::change_batch& batch) {
  wire::draft<wire::KvChanges> out;
  out->setGap(batch.gap);
  out->setEpoch(batch.next.epoch);
  out->setSequence(batch.next.sequence);
  write_columns(out->initChanges(), batch.changes);
  if (!batch.changes.empty()) out->getChanges().setFirstSequence(batch.changes.front().sequence);
  return out.freeze();
}

result<storage::change_batch> read_changes(wire::KvChanges::Reader in) {
  auto changes = read_columns(in.getChanges());
  if (!changes) return changes.error();
  return storage::change_batch{in.getGap(), {in.getEpoch(), in.getSequence()}, *std::move(changes)};
}

wire::msg<wire::KvSnapshotPage> to_wire(const storage::snapshot_page& page) {
  wire::draft<wire::KvSnapshotPage> out;
  out->setEpoch(page.position.epoch);
  out->setSequence(page.position.sequence);
  out->setNextCursor(page.next_cursor);
  write_columns(out->initBlocks(), page.blocks);
  return out.freeze();
}

result<storage::snapshot_page> read_page(wire::KvSnapshotPage::Reader in) {
  auto blocks = read_columns(in.getBlocks());
  if (!blocks) return blocks.error();
  return storage::snapshot_page{
      {in.getEpoch(), in.getSequence()}, in.getNextCursor(), *std::move(blocks)};
}

}  // namespace deepinfer
