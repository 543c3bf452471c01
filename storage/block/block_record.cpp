#include "storage/block/block_record.hpp"

#include <xxhash.h>

#include <cstring>
#include <type_traits>

namespace deepinfer::storage {

namespace {

constexpr uint8_t record_version = 1;
constexpr uint8_t content_version = 1;
constexpr size_t checksum_bytes = 8;

class byte_writer {
public:
  template <class Number>
  void put(Number value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  /// Closes with a checksum over key and everything so far.
  std::vector<std::byte> seal(const block_key& key) {
    put(XXH3_64bits_withSeed(bytes_.data(), bytes_.size(), key.hi ^ key.lo));
    return std::move(bytes_);
  }

private:
  std::vector<std::byte> bytes_;
};

class byte_reader {
public:
  explicit byte_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class Number>
  Number take() {
    Number value{};
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

bool sealed(const block_key& key, std::span<const std::byte> bytes) {
  if (bytes.size() < checksum_bytes) return false;
  uint64_t stored = 0;
  const size_t body = bytes.size() - checksum_bytes;
  std::memcpy(&stored, bytes.data() + body, checksum_bytes);
  return stored == XXH3_64bits_withSeed(bytes.data(), body, key.hi ^ key.lo);
}

}  // namespace

std::vector<std::byte> encode_record(const block_record& r) {
  byte_writer out;
  out.put(record_version);
  out.put(static_cast<uint8_t>(r.state));
  out.put(r.classes);
  out.put(uint8_t{0});
  out.put(r.length);
  out.put(r.parent.hi);
  out.put(r.parent.lo);
  out.put(static_cast<uint64_t>(r.scope));
  out.put(r.depth);
  out.put(r.location.segment);
  out.put(r.location.offset);
  out.put(r.checksum);
  out.put(r.content_digest);
  out.put(static_cast<int64_t>(r.created.count()));
  out.put(static_cast<int64_t>(r.accessed.count()));
  out.put(static_cast<int64_t>(r.expiry.count()));
  out.put(r.writer.id);
  out.put(r.writer.epoch);
  out.put(uint64_t{0});  // room for one more field without a new size
  auto bytes = out.seal(r.key);
  DEEPINFER_CHECK(bytes.size() == record_bytes);
  return bytes;
}

result<block_record> decode_record(const block_key& key, std::span<const std::byte> bytes) {
  if (!bytes.empty() && bytes[0] != std::byte{record_version})
    return failure{error_code::unsupported, "a block record of another version"};
  if (bytes.size() != record_bytes || !sealed(key, bytes))
    return failure{error_code::corrupt, "a block record fails its checksum"};
  byte_reader in{bytes};
  block_record r;
  r.key = key;
  in.take<uint8_t>();
  const auto state = in.take<uint8_t>();
  r.classes = in.take<uint8_t>();
  in.take<uint8_t>();
  r.length = in.take<uint32_t>();
  r.parent.hi = in.take<uint64_t>();
  r.parent.lo = in.take<uint64_t>();
  r.scope = static_cast<scope_id>(in.take<uint64_t>());
  r.depth = in.take<uint32_t>();
  r.location.segment = in.take<uint32_t>();
  r.location.offset = in.take<uint64_t>();
  r.checksum = in.take<uint64_t>();
  r.content_digest = in.take<uint64_t>();
  r.created = cluster_time{in.take<int64_t>()};
  r.accessed = cluster_time{in.take<int64_t>()};
  r.expiry = cluster_time{in.take<int64_t>()};
  r.writer.id = in.take<uint64_t>();
  r.writer.epoch = in.take<uint64_t>();
  if (state > static_cast<uint8_t>(block_state::doomed) || r.length == 0 ||
      r.length > max_block_bytes || r.location.offset % location_unit != 0)
    return failure{error_code::corrupt, "a block record with a field out of range"};
  r.state = static_cast<block_state>(state);
  return r;
}

std::vector<std::byte> encode_content(const block_key& key, std::span<const std::byte> content) {
  byte_writer out;
  out.put(content_version);
  out.put_bytes(content);
  return out.seal(key);
}

result<block_content> decode_content(const block_key& key, std::span<const std::byte> bytes) {
  if (!bytes.empty() && bytes[0] != std::byte{content_version})
    return failure{error_code::unsupported, "a block content of another version"};
  if (bytes.size() < 1 + checksum_bytes || bytes.size() > 1 + checksum_bytes + max_content_bytes ||
      !sealed(key, bytes))
    return failure{error_code::corrupt, "a block content fails its checksum"};
  return block_content(bytes.begin() + 1, bytes.end() - checksum_bytes);
}

}  // namespace deepinfer::storage
