#include "storage/folder/store_folder.hpp"

#include "storage/block/block_key.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace deepinfer::storage {

namespace {

// What a store's capacity may be set to.
constexpr uint64_t least_capacity = uint64_t{8} << 20;
constexpr uint64_t most_capacity = uint64_t{1} << 50;

constexpr size_t id_digits = 32;

failure trouble(const std::string& what, int number) {
  const auto code = number == ENOSPC || number == EDQUOT ? error_code::no_capacity
                    : number == ENOENT                   ? error_code::not_found
                                                         : error_code::unreachable;
  return {code, what + ": " + std::strerror(number)};
}

/// A small file, whole or not at all: under another name first.
result<void> write_small(const std::string& path, std::string_view text) {
  const std::string fresh = path + ".new";
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return trouble("cannot write " + fresh, errno);
  const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                     ::fsync(file) == 0;
  const int number = errno;
  ::close(file);
  if (!whole) return trouble("cannot write " + fresh, number);
  if (::rename(fresh.c_str(), path.c_str()) != 0) return trouble("cannot name " + path, errno);
  return {};
}

result<store_id> read_id(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return trouble("cannot read " + path, errno);
  std::array<char, id_digits + 2> text{};
  const ssize_t got = ::read(file, text.data(), text.size());
  const int number = errno;
  ::close(file);
  if (got < 0) return trouble("cannot read " + path, number);
  const auto length = static_cast<size_t>(got);
  const bool form = length == id_digits + 1 && text[id_digits] == '\n';
  const auto key = parse_block_key({text.data(), std::min(length, id_digits)});
  if (!form || !key || !*key) return failure{error_code::corrupt, path + " is damaged"};
  return store_id{key->hi, key->lo};
}

std::string line_of(const store_id& id) {
  return to_string(id) + '\n';
}

}  // namespace

std::string to_string(const store_id& id) {
  return to_string(block_key{id.hi, id.lo});
}

store_folder::store_folder(store_folder&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      id_(other.id_),
      mended_(std::move(other.mended_)) {}

store_folder::~store_folder() {
  if (lock_ >= 0) ::close(lock_);
}

result<store_folder> store_folder::claim(const std::string& base, const store_id& fresh) {
  for (uint32_t slot = 0; slot < most_slots; ++slot) {
    const std::string path = base + "/" + std::to_string(slot);
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error)
      return failure{error_code::unreachable,
                     "cannot make the folder " + path + ": " + error.message()};
    const int lock = ::open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0) return trouble("cannot open " + path + "/lock", errno);
    store_folder made{path, lock};
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) continue;
      return trouble("cannot lock " + path + "/lock", errno);
    }
    if (auto named = made.take_name(fresh); !named) return named.error();
    return made;
  }
  return failure{error_code::no_capacity,
                 "all " + std::to_string(most_slots) + " folders in " + base + " are in use"};
}

/// From the id, its copy, or anew; whatever of the two is not there afterwards is written.
result<void> store_folder::take_name(const store_id& fresh) {
  const std::string path = path_ + "/id", copy_path = path_ + "/id.copy";
  const auto known = read_id(path), copy = read_id(copy_path);
  for (const auto* one : {&known, &copy})
    if (!*one && one->error().code != error_code::not_found &&
        one->error().code != error_code::corrupt)
      return one->error();
  id_ = known ? *known : copy ? *copy : fresh;
  const bool is_new = !known && !copy && known.error().code == error_code::not_found &&
                      copy.error().code == error_code::not_found;
  if (!known && copy)
    mended_ = path + " was damaged or missing: written again from its copy";
  else if (!known && !is_new)
    mended_ = path + " and its copy were damaged: the store has a new id and keeps its blocks";
  else if (known && !copy && copy.error().code == error_code::corrupt)
    mended_ = copy_path + " was damaged: written again";
  if (!known)
    if (auto written = write_small(path, line_of(id_)); !written) return written;
  if (!copy || *copy != id_) return write_small(copy_path, line_of(id_));
  return {};
}

result<store_id> read_store_id(const std::string& folder) {
  return read_id(folder + "/id");
}

result<store_id> read_store_id_copy(const std::string& folder) {
  return read_id(folder + "/id.copy");
}

result<std::string> set_aside(const std::string& path) {
  const std::string aside = path + ".damaged";
  std::error_code error;
  std::filesystem::remove_all(aside, error);
  if (!error) std::filesystem::rename(path, aside, error);
  if (error)
    return failure{error_code::unreachable,
                   "cannot move " + path + " to " + aside + ": " + error.message()};
  return aside;
}

bool is_owned(const std::string& folder) {
  const int lock = ::open((folder + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (lock < 0) return false;
  const bool owned = ::flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(lock);
  return owned;
}

// The number and its complement, so that a flipped digit is not taken for another size.
result<void> write_capacity(const std::string& folder, uint64_t bytes) {
  return write_small(folder + "/capacity", line_of({bytes, ~bytes}));
}

result<uint64_t> read_capacity(const std::string& folder) {
  const auto read = read_id(folder + "/capacity");
  if (!read) return read.error();
  if (read->lo != ~read->hi || read->hi < least_capacity || read->hi > most_capacity)
    return failure{error_code::corrupt, folder + "/capacity is damaged"};
  return read->hi;
}

result<void> forget_capacity(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove(folder + "/capacity", error);
  if (error)
    return failure{error_code::unreachable,
                   "cannot remove " + folder + "/capacity: " + error.message()};
  return {};
}

result<void> write_mark(const std::string& folder, const store_id& mark) {
  return write_small(folder + "/mark", line_of(mark));
}

result<store_id> read_mark(const std::string& folder) {
  return read_id(folder + "/mark");
}

}  // namespace deepinfer::storage
