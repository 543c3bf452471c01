#include "storage/block/sha256.hpp"

#include "proto/types/check.hpp"

#include <openssl/evp.h>

#include <memory>

namespace deepinfer::storage::sha256 {

namespace {

struct context_free {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

/// Looking an algorithm up costs more than hashing a block; one context per thread keeps it.
EVP_MD_CTX* thread_context() {
  thread_local const std::unique_ptr<EVP_MD_CTX, context_free> context = [] {
    std::unique_ptr<EVP_MD_CTX, context_free> made{EVP_MD_CTX_new()};
    DEEPINFER_CHECK(made && EVP_DigestInit_ex2(made.get(), EVP_sha256(), nullptr) == 1);
    return made;
  }();
  return context.get();
}

}  // namespace

digest hash(std::span<const std::byte> message) {
  EVP_MD_CTX* context = thread_context();
  digest out;
  unsigned length = 0;
  // fails only when out of memory: going on would name a block wrongly
  DEEPINFER_CHECK(
      EVP_DigestInit_ex2(context, nullptr, nullptr) == 1 &&
      EVP_DigestUpdate(context, message.data(), message.size()) == 1 &&
      EVP_DigestFinal_ex(context, reinterpret_cast<unsigned char*>(out.data()), &length) == 1 &&
      length == out.size());
  return out;
}

}  // namespace deepinfer::storage::sha256
