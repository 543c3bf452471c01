#pragma once

#include "proto/types/result.hpp"

#include <capnp/message.h>
#include <capnp/schema.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

/// Messages: immutable Cap'n Proto bytes, read in place, the same between two actors of one
/// process and of two. This room is the only one where a Cap'n Proto exception is caught: a
/// message that was opened has been walked to its last pointer, so reading it never throws.
namespace deepinfer::wire {

/// The bytes of one message and the reader over them. Immutable, shared, safe to read from
/// several threads at once.
class payload {
public:
  /// Standard Cap'n Proto stream framing (segment table, then segments), 8-byte aligned.
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] capnp::MessageReader& reader() const { return *reader_; }

  /// Takes what a builder holds: one copy, into one contiguous piece.
  static std::shared_ptr<const payload> freeze(capnp::MessageBuilder& builder);

  /// Copies `bytes` and walks them completely against `schema`: `corrupt` if any pointer, list or
  /// text is malformed or the message is nested deeper than `limits::max_wire_nesting`,
  /// `too_large` over `limits::max_frame_bytes`.
  static result<std::shared_ptr<const payload>> open(std::span<const std::byte> bytes,
                                                     capnp::StructSchema schema);

private:
  std::unique_ptr<uint64_t[]> words_;
  size_t count_ = 0;
  std::unique_ptr<capnp::MessageReader> reader_;
};

/// Text for logs, bounded.
[[nodiscard]] std::string describe(const payload& content, capnp::StructSchema schema);

/// One message of type `T`. Copying costs a reference count. An empty `msg` (default constructed)
/// reads as all defaults.
template <class T>
class msg {
public:
  using schema_type = T;

  msg() = default;
  explicit msg(std::shared_ptr<const payload> content) : content_(std::move(content)) {}

  /// Valid as long as this `msg` or a copy lives.
  [[nodiscard]] typename T::Reader get() const {
    return content_ ? content_->reader().template getRoot<T>() : typename T::Reader{};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return content_ ? content_->bytes() : std::span<const std::byte>{};
  }
  /// Keeps `bytes()` alive without keeping this `msg`; null when empty.
  [[nodiscard]] const std::shared_ptr<const payload>& share() const { return content_; }
  explicit operator bool() const noexcept { return content_ != nullptr; }

  friend std::string to_string(const msg& m) {
    return m ? describe(*m.content_, capnp::Schema::from<T>()) : "(empty)";
  }

  /// Bytes of a peer; see `payload::open` for the errors.
  static result<msg> open(std::span<const std::byte> bytes) {
    auto content = payload::open(bytes, capnp::Schema::from<T>());
    if (!content) return std::move(content).error();
    return msg{*std::move(content)};
  }

private:
  std::shared_ptr<const payload> content_;
};

/// A message under construction: `draft<Ping> d; d->setNumber(1); send(d.freeze());`
template <class T>
class draft {
public:
  draft() : root_(builder_.initRoot<T>()) {}

  typename T::Builder* operator->() { return &root_; }
  typename T::Builder& operator*() { return root_; }

  /// The finished message; the draft must not be used again.
  [[nodiscard]] msg<T> freeze() { return msg<T>{payload::freeze(builder_)}; }

private:
  capnp::MallocMessageBuilder builder_;
  typename T::Builder root_;
};

}  // namespace deepinfer::wire
