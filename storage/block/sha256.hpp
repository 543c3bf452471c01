#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// SHA-256, three ways that give the same bits. The work per block of tokens is a run over many
/// whole 64-byte pieces that depends on nothing, and one last piece that needs the parent's key;
/// the instruction set computes two independent runs in about the time of one.
namespace deepinfer::storage::sha256 {

using digest = std::array<std::byte, 32>;

/// The chaining value between two 64-byte pieces.
struct state {
  std::array<uint32_t, 8> words{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
};

/// Whole messages, by OpenSSL: the reference, and the way on machines without the instructions.
[[nodiscard]] digest hash(std::span<const std::byte> message);

/// This machine has the instructions (x86 SHA extensions).
[[nodiscard]] bool lanes_usable();

/// Only where `lanes_usable()`. `pieces` times 64 bytes each.
void run(state& one, const std::byte* bytes, size_t pieces);
void run_two(state& a, const std::byte* a_bytes, state& b, const std::byte* b_bytes, size_t pieces);

}  // namespace deepinfer::storage::sha256
