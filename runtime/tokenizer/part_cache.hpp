#pragma once

#include "runtime/base/digest.hpp"
#include "runtime/tokenizer/text_part.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::text {

/// What all scopes together, and one of them, may hold. A scope that is over gives up what it used
/// longest ago; when all together are over, the scope used longest ago does.
struct part_cache_limits {
  size_t max_bytes = size_t{128} << 20;
  size_t max_scope_bytes = size_t{32} << 20;
  size_t max_parts = 65'536;
  size_t max_scopes = 1024;
};

/// A part and its ids. Immutable; stays alive while somebody reads it, also when it is given up.
struct kept_part {
  digest128 key;
  std::string text;
  std::vector<special_range> specials;  ///< counted from the part's start
  std::vector<int32_t> ids;

  /// What it counts for in the limits: contents and an estimate of the tables around them.
  [[nodiscard]] size_t bytes() const {
    constexpr size_t around = 320;
    return text.size() + specials.size() * sizeof(special_range) + ids.size() * sizeof(int32_t) +
           around;
  }
};

struct part_cache_counters {
  uint64_t parts_asked = 0, parts_found = 0;
  uint64_t bytes_asked = 0, bytes_found = 0;
  uint64_t ids_found = 0;
  uint64_t parts_given_up = 0;
  size_t parts = 0, bytes = 0, scopes = 0;  ///< held now
};

/// Ids of parts that were encoded before, by content and per scope. A part is found by a digest and
/// then compared byte by byte and range by range, so a collision costs a miss and never an id; as
/// the ids of a part depend on nothing else, equal parts are one entry wherever they stand: later
/// turns of a conversation, and conversations that begin alike, share. Thread-safe; the lock is
/// held for look-ups and list operations only, `batch` of them at a time, never for a comparison,
/// an encoding or a release of memory.
class part_cache {
public:
  using key_function = digest128 (*)(const text_part&);

  explicit part_cache(const part_cache_limits& limits = {}, key_function key = digest_of_part)
      : limits_(limits), key_(key) {}

  /// For each part what is kept of it; null where nothing is.
  [[nodiscard]] std::vector<std::shared_ptr<const kept_part>> find(
      std::string_view scope, std::span<const text_part> parts);

  /// A part to `keep`.
  [[nodiscard]] std::shared_ptr<const kept_part> make(const text_part& part,
                                                      std::vector<int32_t> ids) const;

  /// Keeps `parts`, the first as the most recently used of them.
  void keep(std::string_view scope, std::span<const std::shared_ptr<const kept_part>> parts);

  [[nodiscard]] part_cache_counters counters() const;

  /// XXH3 over the bytes and the special ranges.
  [[nodiscard]] static digest128 digest_of_part(const text_part& part);

private:
  using part_ptr = std::shared_ptr<const kept_part>;
  struct slot;
  // Ordered: whoever picks digests on purpose cannot make a look-up slower than logarithmic.
  using slot_map = std::map<digest128, slot>;
  struct slot {
    part_ptr part;
    std::list<slot_map::iterator>::iterator place;
  };
  struct room;
  using room_map = std::map<std::string, room, std::less<>>;
  struct room {
    slot_map slots;
    std::list<slot_map::iterator> recent;  // front: used last
    size_t bytes = 0;
    std::list<room_map::iterator>::iterator place;
  };

  /// What is taken out under the lock, to be freed behind it.
  struct leaving {
    std::vector<part_ptr> parts;
    std::vector<room_map::node_type> rooms;
  };

  static constexpr size_t batch = 32;

  void look_up(std::string_view scope, std::span<const digest128> keys, std::span<part_ptr> found);
  void insert(std::string_view scope, const part_ptr& part, leaving& out);
  room_map::iterator enter(std::string_view scope, leaving& out);
  void drop_oldest(room_map::iterator from, leaving& out);
  void drop_room(room_map::iterator which, leaving& out);

  const part_cache_limits limits_;
  const key_function key_;

  mutable std::mutex mutex_;
  room_map rooms_;
  std::list<room_map::iterator> recent_rooms_;  // front: used last
  part_cache_counters counters_;
};

}  // namespace deepinfer::text
