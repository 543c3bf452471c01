#include "storage/catalog/group_walk.hpp"

#include <algorithm>

namespace deepinfer::storage {

namespace {

constexpr uint32_t none = catalogue::none;

/// From a sibling on, the first that is committed: below a doomed one nothing is.
uint32_t committed_from(const catalogue& all, uint32_t sibling) {
  while (sibling != none && !all.is_committed(sibling)) sibling = all.at(sibling).next_sibling;
  return sibling;
}

/// What follows when an entry and all below it are done; `none` behind the head, or outside.
uint32_t after_tree(const catalogue& all, uint32_t id, uint32_t head) {
  for (; id != none && id != head; id = all.at(id).parent)
    if (const uint32_t next = committed_from(all, all.at(id).next_sibling); next != none)
      return next;
  return none;
}

uint32_t next_down(const catalogue& all, uint32_t id, uint32_t head) {
  const uint32_t child = committed_from(all, all.at(id).first_child);
  return child != none ? child : after_tree(all, id, head);
}

uint32_t first_leaf(const catalogue& all, uint32_t id) {
  for (uint32_t child = id; child != none; child = committed_from(all, all.at(child).first_child))
    id = child;
  return id;
}

uint32_t next_up(const catalogue& all, uint32_t id, uint32_t head) {
  if (id == head) return none;
  const uint32_t sibling = committed_from(all, all.at(id).next_sibling);
  return sibling != none ? first_leaf(all, sibling) : all.at(id).parent;
}

bool within(const catalogue& all, uint32_t id, uint32_t head) {
  while (id != none && id != head) id = all.at(id).parent;
  return id == head;
}

}  // namespace

head_page heads_from(const catalogue& all, uint64_t cursor, size_t entries) {
  head_page page;
  const uint64_t end = std::min<uint64_t>(all.end(), cursor + entries);
  for (uint64_t at = cursor; at < end; ++at) {
    const auto id = static_cast<uint32_t>(at);
    if (all.is_committed(id) && all.is_head(all.at(id).depth)) page.heads.push_back(all.at(id).key);
  }
  page.next_cursor = end < all.end() ? end : 0;
  return page;
}

std::vector<uint32_t> entries_of(const catalogue& all, const group_query& query) {
  std::vector<uint32_t> found;
  const uint32_t head = all.find(query.head);
  if (!all.is_committed(head) || !all.is_head(all.at(head).depth)) return found;
  const bool down = query.order == tree_order::parents_first;
  uint32_t id = down ? head : first_leaf(all, head);
  if (down && query.after) {
    const uint32_t last = all.find(query.after);
    if (!all.is_committed(last) || !within(all, last, head)) return found;
    id = next_down(all, last, head);
  }
  for (; id != none && found.size() < query.limit;
       id = down ? next_down(all, id, head) : next_up(all, id, head))
    found.push_back(id);
  return found;
}

}  // namespace deepinfer::storage
