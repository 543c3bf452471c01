#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// A fuzz target is one source that defines both of these. Linked with libFuzzer (-Dfuzz=true,
/// clang) it searches for ever; linked with smoke_main.cpp it is a bounded, seeded test of the
/// normal suite, so that a target cannot rot on machines without clang.

/// Believes nothing about the bytes, and stops the process (`DEEPINFER_CHECK`) on a broken rule.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace deepinfer::fuzz {

using bytes = std::vector<uint8_t>;

/// Good inputs to start from: few, small, each of another kind.
std::vector<bytes> seeds();

}  // namespace deepinfer::fuzz
