#include "runtime/net/fabric/hello.hpp"

#include "proto/codec/frame.hpp"
#include "proto/types/limits.hpp"

#include <array>
#include <cstring>

namespace deepinfer::net {
namespace {

// Little endian, as the frames: magic 4, protocol 2, lane 1, address length 1, eager limit 8,
// cluster digest 16, node id 16, epoch 8, nonce 32, address, HMAC 32 over all before.
constexpr std::string_view hello_magic = "DPIH";
constexpr std::string_view refusal_magic = "DPIR";
constexpr uint16_t protocol = wire::frame_header::version_value;
constexpr size_t cluster_bytes = 16;
constexpr size_t fixed_bytes = 4 + 2 + 1 + 1 + 8 + cluster_bytes + 16 + 8 + 32;
static_assert(fixed_bytes + max_hello_address + sizeof(digest256) <= max_hello_bytes);

template <class Number>
void put(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

template <class Number>
Number take(std::span<const std::byte> bytes, size_t offset) {
  Number value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_of(const digest256& digest, size_t count) {
  return {reinterpret_cast<const char*>(digest.data()), count};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string write_hello(const hello& content,
                        const std::string& cluster,
                        const std::string& secret) {
  DEEPINFER_CHECK(content.address.size() <= max_hello_address);
  std::string out{hello_magic};
  put(out, protocol);
  put(out, content.kind);
  put(out, static_cast<uint8_t>(content.address.size()));
  put(out, uint64_t{limits::eager_frame_bytes});
  out += text_of(plain_digest(cluster), cluster_bytes);
  put(out, content.from.hi);
  put(out, content.from.lo);
  put(out, content.epoch);
  out += text_of(content.nonce, sizeof(digest256));
  out += content.address;
  out += text_of(keyed_digest(secret, bytes_of(out)), sizeof(digest256));
  return out;
}

result<hello> read_hello(std::span<const std::byte> bytes,
                         const std::string& cluster,
                         const std::string& secret) {
  const failure damaged{error_code::corrupt, "not a deepinfer node"};
  if (bytes.size() < fixed_bytes + sizeof(digest256) || text_of(bytes.first(4)) != hello_magic)
    return damaged;
  if (take<uint16_t>(bytes, 4) != protocol || take<uint64_t>(bytes, 8) != limits::eager_frame_bytes)
    return failure{error_code::unsupported,
                   "the peer speaks another protocol: run the same release on all nodes"};
  const size_t address_bytes = take<uint8_t>(bytes, 7);
  const size_t signed_bytes = fixed_bytes + address_bytes;
  // libfabric may pad private data, so more bytes than needed are no error
  if (address_bytes > max_hello_address || bytes.size() < signed_bytes + sizeof(digest256))
    return damaged;
  if (text_of(bytes.subspan(16, cluster_bytes)) != text_of(plain_digest(cluster), cluster_bytes))
    return failure{error_code::unauthenticated,
                   "the peer belongs to another cluster: compare the cluster names"};
  if (!same_digest(keyed_digest(secret, bytes.first(signed_bytes)),
                   bytes.subspan(signed_bytes, sizeof(digest256))))
    return failure{error_code::unauthenticated,
                   "the peer has another cluster secret: give all nodes the same"};
  hello out;
  out.kind = take<lane>(bytes, 6);
  out.from = {take<uint64_t>(bytes, 32), take<uint64_t>(bytes, 40)};
  out.epoch = take<uint64_t>(bytes, 48);
  std::memcpy(out.nonce.data(), bytes.data() + 56, sizeof(digest256));
  out.address = text_of(bytes.subspan(fixed_bytes, address_bytes));
  out.wire_bytes = signed_bytes + sizeof(digest256);
  const bool known =
      out.kind == lane::control || out.kind == lane::bulk || out.kind == lane::bulk_answer;
  if (!known || !out.from) return damaged;
  return out;
}

digest256 transcript(std::string_view dialer_hello, std::string_view acceptor_hello) {
  std::string both;
  put(both, static_cast<uint64_t>(dialer_hello.size()));
  both += dialer_hello;
  both += acceptor_hello;
  return plain_digest(both);
}

digest256 link_proof(const std::string& secret, link_role of, const digest256& about) {
  constexpr std::string_view purpose = "deepinfer link proof";
  const std::array role{static_cast<std::byte>(of)};
  const std::array<std::span<const std::byte>, 3> parts{bytes_of(purpose), role, about};
  return keyed_digest(secret, parts);
}

std::string write_refusal(refusal why) {
  std::string out{refusal_magic};
  put(out, why);
  return out;
}

bool is_refusal(std::span<const std::byte> bytes, refusal why) {
  return bytes.size() > refusal_magic.size() && text_of(bytes.first(4)) == refusal_magic &&
         take<refusal>(bytes, 4) == why;
}

failure read_refusal(std::span<const std::byte> bytes) {
  if (is_refusal(bytes, refusal::itself))
    return {error_code::invalid_argument, "the address is this node's own"};
  if (is_refusal(bytes, refusal::cluster))
    return {error_code::unauthenticated,
            "refused: other cluster name or other secret; compare both"};
  if (is_refusal(bytes, refusal::protocol))
    return {error_code::unsupported, "refused: other protocol; run the same release on all nodes"};
  if (is_refusal(bytes, refusal::full))
    return {error_code::no_capacity, "refused: the peer's link table is full; raise max_links"};
  if (is_refusal(bytes, refusal::no_link))
    return {error_code::unreachable, "refused: the peer closed the link"};
  return {error_code::unreachable, "connection refused"};
}

}  // namespace deepinfer::net
