#include "proto/codec/msg.hpp"

#include "proto/types/limits.hpp"

#include <capnp/dynamic.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <kj/string.h>

#include <algorithm>
#include <cstring>

namespace deepinfer::wire {
namespace {

using word = capnp::word;

kj::ArrayPtr<const word> as_words(const uint64_t* words, size_t count) {
  return {reinterpret_cast<const word*>(words), count};
}

// The traversal limit counts every read again, so a message that lives long and is read often
// would fail after a while. The size was bounded before; the walk below ran under a real limit.
capnp::ReaderOptions unlimited() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = UINT64_MAX / 16;
  options.nestingLimit = limits::max_wire_nesting;
  return options;
}

void walk(const capnp::DynamicStruct::Reader& value);

void walk_value(const capnp::DynamicValue::Reader& value) {
  switch (value.getType()) {
    case capnp::DynamicValue::STRUCT:
      walk(value.as<capnp::DynamicStruct>());
      break;
    case capnp::DynamicValue::LIST:
      for (auto element : value.as<capnp::DynamicList>()) walk_value(element);
      break;
    default:
      break;  // reading it was the check
  }
}

bool holds_pointers(capnp::Type type) {
  return type.isStruct() || type.isList() || type.isText() || type.isData() || type.isAnyPointer();
}

void walk(const capnp::DynamicStruct::Reader& value) {
  for (auto field : value.getSchema().getFields()) {
    if (!holds_pointers(field.getType())) continue;
    // A list of numbers is checked by its own pointer; no need to visit each number.
    if (field.getType().isList() && !holds_pointers(field.getType().asList().getElementType())) {
      static_cast<void>(value.get(field));
      continue;
    }
    if (value.has(field)) walk_value(value.get(field));
  }
}

}  // namespace

std::span<const std::byte> payload::bytes() const {
  return {reinterpret_cast<const std::byte*>(words_.get()), count_ * sizeof(uint64_t)};
}

std::shared_ptr<const payload> payload::freeze(capnp::MessageBuilder& builder) {
  auto made = std::make_shared<payload>();
  made->count_ = capnp::computeSerializedSizeInWords(builder);
  made->words_ = std::make_unique_for_overwrite<uint64_t[]>(made->count_);
  auto flat = capnp::messageToFlatArray(builder);
  std::memcpy(made->words_.get(), flat.begin(), made->count_ * sizeof(word));
  made->reader_ = std::make_unique<capnp::FlatArrayMessageReader>(
      as_words(made->words_.get(), made->count_), unlimited());
  return made;
}

result<std::shared_ptr<const payload>> payload::open(std::span<const std::byte> bytes,
                                                     capnp::StructSchema schema) {
  if (bytes.size() > limits::max_frame_bytes)
    return failure{error_code::too_large, "message of " + std::to_string(bytes.size()) + " bytes"};
  if (bytes.empty() || bytes.size() % sizeof(word) != 0)
    return failure{error_code::corrupt, "message length is no multiple of 8"};
  auto made = std::make_shared<payload>();
  made->count_ = bytes.size() / sizeof(word);
  made->words_ = std::make_unique_for_overwrite<uint64_t[]>(made->count_);
  std::memcpy(made->words_.get(), bytes.data(), bytes.size());
  const auto words = as_words(made->words_.get(), made->count_);
  try {
    capnp::ReaderOptions bounded;
    // Twice the size: each byte may be reached once, with slack for empty structs.
    bounded.traversalLimitInWords = 2 * made->count_ + 64;
    bounded.nestingLimit = limits::max_wire_nesting;
    capnp::FlatArrayMessageReader walked{words, bounded};
    walk(walked.getRoot<capnp::DynamicStruct>(schema));
    made->reader_ = std::make_unique<capnp::FlatArrayMessageReader>(words, unlimited());
  } catch (const kj::Exception& e) {
    return failure{error_code::corrupt,
                   std::string{"malformed message: "} + e.getDescription().cStr()};
  }
  return std::shared_ptr<const payload>{std::move(made)};
}

std::string describe(const payload& content, capnp::StructSchema schema) {
  constexpr size_t longest = 400;
  const auto root = content.reader().getRoot<capnp::DynamicStruct>(schema);
  std::string text{kj::str(schema.getShortDisplayName(), root).cStr()};
  if (text.size() > longest) text.replace(longest, std::string::npos, "...");
  return text;
}

}  // namespace deepinfer::wire
