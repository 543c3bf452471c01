#pragma once

#include "actors/remote/actor_ref.hpp"
#include "storage/block/block_key.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace deepinfer {

/// Where window rings lie: behind which block, in whose memory (KV-32). Soft state.
class ring_table {
public:
  struct limits {
    size_t max_rings = 262'144;
    size_t max_hosts = 1'024;
    /// Further than this in front of a hit, restoring without rings costs less.
    uint32_t look_back = 64;
    uint32_t max_told = 4;
  };

  struct ring {
    storage::block_key key;
    uint64_t bytes = 0;
  };
  struct news {
    uint64_t number = 0;  ///< 0: `added` is all there is
    std::vector<ring> added;
    std::vector<storage::block_key> removed;
  };
  struct place {
    uint32_t blocks = 0;  ///< in front of the rings
    actor_ref host;
    uint64_t bytes = 0;
  };

  explicit ring_table(const limits& most) : limits_(most) {}

  enum class heard : uint8_t {
    taken,
    gap,       ///< news are missing: ask for the whole list; what was known stays
    too_many,  ///< hosts
  };
  heard apply(const actor_ref& host, const news& what);
  void drop(const actor_ref& host);

  /// Rings at the end of a hit or not far in front of it, the longest first; `keys` are those of
  /// the hit's blocks.
  [[nodiscard]] std::vector<place> find(std::span<const storage::block_key> keys) const;

  [[nodiscard]] size_t size() const { return rings_.size(); }
  [[nodiscard]] size_t hosts() const { return hosts_.size(); }
  [[nodiscard]] uint64_t refused() const { return refused_; }

private:
  struct key_of_ref {
    node_id node;
    uint64_t actor = 0;
    friend auto operator<=>(const key_of_ref&, const key_of_ref&) = default;
  };
  struct host_state {
    actor_ref ref;
    uint32_t number = 0;  ///< here
    uint64_t last = 0;    ///< of its news
  };
  struct kept {
    uint32_t host = 0;
    uint64_t bytes = 0;
  };
  using ring_map = std::unordered_multimap<storage::block_key, kept>;

  void add(uint32_t host, const ring& what);
  void remove(uint32_t host, const storage::block_key& key);
  void clear(uint32_t host);
  [[nodiscard]] ring_map::iterator position(uint32_t host, const storage::block_key& key);

  limits limits_;
  ring_map rings_;
  std::map<key_of_ref, host_state> hosts_;
  std::unordered_map<uint32_t, actor_ref> refs_;
  uint32_t next_host_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace deepinfer
