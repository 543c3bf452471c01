#include "actors/remote/type_registry.hpp"

#include "actors/messages/caf_messages.hpp"
#include "proto/codec/registry.hpp"

namespace deepinfer::remote {
namespace {

template <class T>
outgoing_content read_one(const void* element) {
  const auto& m = *static_cast<const wire::msg<T>*>(element);
  return {wire::type_id<T>(), m.bytes(), m.share()};
}

template <class T>
result<caf::mailbox_element_ptr> make_one(std::span<const std::byte> bytes,
                                          caf::strong_actor_ptr sender,
                                          caf::message_id id) {
  wire::msg<T> content;
  if (!bytes.empty()) {
    auto opened = wire::msg<T>::open(bytes);
    if (!opened) return std::move(opened).error();
    content = *std::move(opened);
  }
  return caf::make_mailbox_element(std::move(sender), id, {}, std::move(content));
}

}  // namespace

type_registry::type_registry() {
  [this]<class... Types>(wire::type_list<Types...>) {
    (readers_.emplace(typeid(wire::msg<Types>), read_one<Types>), ...);
    (makers_.emplace(wire::type_id<Types>(), make_one<Types>), ...);
  }(wire::crossing_types{});
}

std::optional<outgoing_content> type_registry::read(const caf::type_erased_tuple& content) const {
  if (content.size() != 1) return std::nullopt;
  const std::type_info* type = content.type(0).second;
  if (type == nullptr) return std::nullopt;  // one of CAF's own types
  const auto found = readers_.find(*type);
  if (found == readers_.end()) return std::nullopt;
  return found->second(content.get(0));
}

result<caf::mailbox_element_ptr> type_registry::make(uint64_t type_id,
                                                     std::span<const std::byte> bytes,
                                                     caf::strong_actor_ptr sender,
                                                     caf::message_id id) const {
  const auto found = makers_.find(type_id);
  if (found == makers_.end())
    return failure{error_code::unsupported,
                   "message type " + std::to_string(type_id) +
                       " is unknown here: run the same release on all nodes"};
  return found->second(bytes, std::move(sender), id);
}

}  // namespace deepinfer::remote
