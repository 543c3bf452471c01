#pragma once

#include "proto/types/ids.hpp"
#include "proto/types/result.hpp"
#include "runtime/net/proof.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What two nodes tell each other before a link: the private data of the connection request and
/// of its answer (256 bytes at most), and the proofs that follow in the first frames. Pure.
///
/// 1. Each hello is signed with the cluster secret, so that an outsider gets no endpoint at all.
///    It could be a recording, though.
/// 2. Each hello carries a fresh nonce, and each side then sends a proof over both hellos, which
///    no recording contains. The side with the larger id proves first; the one with the smaller
///    id answers with its own proof or with "there is a link already", so that one side alone
///    decides which of two simultaneous links stays.
namespace deepinfer::net {

enum class lane : uint8_t { control = 1, bulk = 2, bulk_answer = 3 };

struct hello {
  lane kind = lane::control;
  node_id from;
  uint64_t epoch = 0;     ///< bulk lane: number of the attempt
  digest256 nonce{};      ///< bulk lane: `transcript` of the control link
  std::string address;    ///< what others dial
  size_t wire_bytes = 0;  ///< of the signed whole, set by `read_hello`; padding may follow
};

inline constexpr size_t max_hello_bytes = 256;    ///< of libfabric's tcp provider
inline constexpr size_t max_hello_address = 120;  ///< longest address that fits

[[nodiscard]] std::string write_hello(const hello& content,
                                      const std::string& cluster,
                                      const std::string& secret);
/// `corrupt`; `unsupported` for another protocol version or eager limit; `unauthenticated` for
/// another cluster or secret.
[[nodiscard]] result<hello> read_hello(std::span<const std::byte> bytes,
                                       const std::string& cluster,
                                       const std::string& secret);

/// Both hellos as they travelled; what the proofs are about.
[[nodiscard]] digest256 transcript(std::string_view dialer_hello, std::string_view acceptor_hello);

enum class link_role : uint8_t { dialer = 'd', acceptor = 'a' };

/// What a side sends to prove that it took part in exactly this exchange.
[[nodiscard]] digest256 link_proof(const std::string& secret,
                                   link_role of,
                                   const digest256& transcript);

/// Why a connection request was rejected; travels in the rejection.
enum class refusal : uint8_t {
  itself = 1,  ///< a node dialled itself
  cluster = 2,
  protocol = 3,
  full = 4,
  no_link = 5,  ///< bulk lane without its control link
};
[[nodiscard]] std::string write_refusal(refusal why);
/// For a dialer. Nothing readable means that nobody listens.
[[nodiscard]] failure read_refusal(std::span<const std::byte> bytes);
[[nodiscard]] bool is_refusal(std::span<const std::byte> bytes, refusal why);

}  // namespace deepinfer::net
