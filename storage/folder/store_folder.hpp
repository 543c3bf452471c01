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
  /// `fresh` names a store that is new. `unreachable`, `no_capacity` or `corrupt` (an id that is
  /// none) say in their text what to do.
  static result<store_folder> claim(const std::string& base, const store_id& fresh);

  store_folder(store_folder&& other) noexcept;
  store_folder& operator=(store_folder&& other) = delete;
  ~store_folder();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const store_id& id() const { return id_; }

private:
  store_folder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_ = -1;
  store_id id_;
};

/// A living process owns this folder; what reads it offline asks first.
[[nodiscard]] bool is_owned(const std::string& folder);

/// The file `mark`: written anew by each life of a store, whole or not at all.
[[nodiscard]] result<void> write_mark(const std::string& folder, const store_id& mark);
/// `not_found` without one, `corrupt` if it is none.
[[nodiscard]] result<store_id> read_mark(const std::string& folder);

}  // namespace deepinfer::storage
