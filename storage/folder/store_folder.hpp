#pragma once

#include "proto/types/result.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace deepinfer::storage {

/// The 128 random bits that name a store: they place groups of blocks, and stay with the folder.
struct store_id {
  uint64_t hi = 0;
  uint64_t lo = 0;

  friend constexpr auto operator<=>(const store_id&, const store_id&) = default;
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return (hi | lo) != 0; }
};

/// 32 lower-case hex digits.
[[nodiscard]] std::string to_string(const store_id& id);

/// A store's folder while this process owns it.
class store_folder {
public:
  static constexpr uint32_t most_slots = 64;

  /// The first of `<base>/0`, `<base>/1`, ... that no living process owns; made if it is not there.
  /// `fresh` names a store that is new, or one of which both copies of the id are damaged: its
  /// blocks are good under any name. `unreachable` and `no_capacity` say in their text what to do.
  static result<store_folder> claim(const std::string& base, const store_id& fresh);

  store_folder(store_folder&& other) noexcept;
  store_folder& operator=(store_folder&& other) = delete;
  ~store_folder();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const store_id& id() const { return id_; }
  /// What had to be mended, in words; empty: nothing.
  [[nodiscard]] const std::string& mended() const { return mended_; }

private:
  store_folder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  result<void> take_name(const store_id& fresh);

  std::string path_;
  int lock_ = -1;
  store_id id_;
  std::string mended_;
};

/// A living process owns this folder; what reads it offline asks first.
[[nodiscard]] bool is_owned(const std::string& folder);

/// The id of a folder that nobody owns, and its copy. `not_found` without one, `corrupt` for none.
[[nodiscard]] result<store_id> read_store_id(const std::string& folder);
[[nodiscard]] result<store_id> read_store_id_copy(const std::string& folder);

/// A damaged part of a store is moved out of the way, to be looked at: `<path>.damaged`, in the
/// place of an older one. Returns the new path.
[[nodiscard]] result<std::string> set_aside(const std::string& path);

/// The file `capacity`: what was chosen when the store was made, so that its place among others
/// does not change with what is free on the disk. Whole or not at all; may be removed.
[[nodiscard]] result<void> write_capacity(const std::string& folder, uint64_t bytes);
/// `not_found` without one, `corrupt` if it is none.
[[nodiscard]] result<uint64_t> read_capacity(const std::string& folder);
[[nodiscard]] result<void> forget_capacity(const std::string& folder);

/// The file `mark`: written anew by each life of a store, whole or not at all.
[[nodiscard]] result<void> write_mark(const std::string& folder, const store_id& mark);
/// `not_found` without one, `corrupt` if it is none.
[[nodiscard]] result<store_id> read_mark(const std::string& folder);

}  // namespace deepinfer::storage
