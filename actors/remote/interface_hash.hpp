#pragma once

#include "proto/codec/msg.hpp"

#include <caf/actor.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace deepinfer {
namespace remote::detail {

template <class T>
struct crossing {
  static constexpr bool may = false;
  static constexpr uint64_t id = 0;
};

template <class T>
struct crossing<wire::msg<T>> {
  static constexpr bool may = true;
  static constexpr uint64_t id = capnp::typeId<T>();
};

template <>
struct crossing<void> {
  static constexpr bool may = true;
  static constexpr uint64_t id = 0;
};

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv).
constexpr uint64_t fnv_step(uint64_t hash, uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8)
    hash = (hash ^ ((word >> shift) & 255)) * 0x100000001b3u;
  return hash;
}
inline constexpr uint64_t fnv_start = 0xcbf29ce484222325u;

template <class Signature>
struct signature_hash;

template <class In, class... Out>
struct signature_hash<caf::typed_mpi<caf::detail::type_list<In>, caf::output_tuple<Out...>>> {
  // A message that stays inside the process is none of a peer's business.
  static constexpr bool crosses = crossing<In>::may;
  static_assert(!crosses || (crossing<Out>::may && ...),
                "the answer to a wire::msg must be a wire::msg or nothing");
  static_assert(sizeof...(Out) <= 1, "answer with one wire::msg");
  static constexpr uint64_t value =
      fnv_step(fnv_step(fnv_start, crossing<In>::id), (crossing<Out>::id + ... + 0));
};

template <class First, class Second, class... In, class Out>
struct signature_hash<caf::typed_mpi<caf::detail::type_list<First, Second, In...>, Out>> {
  static constexpr bool crosses = false;  // several parts: local talk only
  static constexpr uint64_t value = 0;
};

template <class Signatures>
struct interface_hash_of;

template <class... Signatures>
struct interface_hash_of<caf::detail::type_list<Signatures...>> {
  static constexpr uint64_t compute() {
    std::array<uint64_t, sizeof...(Signatures)> hashes{
        (signature_hash<Signatures>::crosses ? signature_hash<Signatures>::value : 0)...};
    std::sort(hashes.begin(), hashes.end());
    uint64_t all = fnv_start;
    for (uint64_t h : hashes)
      if (h != 0) all = fnv_step(all, h);
    return all;
  }
};

}  // namespace remote::detail

/// What two processes compare before one of them uses a handle of the other: the Cap'n Proto ids
/// of all messages that the interface takes and answers, whatever their order. The same for the
/// same interface on every platform and in every release, since a changed message gets a new type
/// only when it stops being compatible. Untyped handles have 0.
template <class Handle>
[[nodiscard]] constexpr uint64_t interface_hash() {
  return remote::detail::interface_hash_of<typename Handle::signatures>::compute();
}

template <>
[[nodiscard]] constexpr uint64_t interface_hash<caf::actor>() {
  return 0;
}

}  // namespace deepinfer
