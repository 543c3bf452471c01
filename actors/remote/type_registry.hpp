#pragma once

#include "proto/types/result.hpp"

#include <caf/mailbox_element.hpp>
#include <caf/type_erased_tuple.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <typeindex>
#include <unordered_map>

namespace deepinfer::remote {

/// A message on its way out: its bytes, and what keeps them alive.
struct outgoing_content {
  uint64_t type_id = 0;
  std::span<const std::byte> bytes;  ///< empty for an empty `msg`
  std::shared_ptr<const void> keep;
};

/// Turns the content of a CAF message into bytes and back, for every type in
/// `wire::crossing_types`. Immutable after construction.
class type_registry {
public:
  type_registry();

  /// The bytes of a message that is exactly one `wire::msg` of a registered type; none otherwise.
  [[nodiscard]] std::optional<outgoing_content> read(const caf::type_erased_tuple& content) const;

  /// A mailbox element with the message inside: `unsupported` for an unknown type, otherwise the
  /// errors of `wire::msg::open`.
  [[nodiscard]] result<caf::mailbox_element_ptr> make(uint64_t type_id,
                                                      std::span<const std::byte> bytes,
                                                      caf::strong_actor_ptr sender,
                                                      caf::message_id id) const;

private:
  using reader = outgoing_content (*)(const void*);
  using maker = result<caf::mailbox_element_ptr> (*)(std::span<const std::byte>,
                                                     caf::strong_actor_ptr,
                                                     caf::message_id);

  std::unordered_map<std::type_index, reader> readers_;
  std::unordered_map<uint64_t, maker> makers_;
};

}  // namespace deepinfer::remote
