#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/tensor_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace deepinfer::model {

/// Takes bytes [offset, offset + bytes.size()) of a tensor. The bytes are gone when it returns.
using piece_sink = std::function<result<void>(
    std::string_view tensor, uint64_t offset, std::span<const std::byte> bytes)>;

/// Random values of one table entry, in pieces of a few hundred KiB (a strip of 32 rows at
/// least). The scale tensor of a quantised weight is made together with the weight; asked for by
/// itself it gives nothing. Spreads keep the activations of a random model near 1.
[[nodiscard]] result<void> make_random_tensor(const table_entry& entry,
                                              uint64_t seed,
                                              const piece_sink& sink);

}  // namespace deepinfer::model
