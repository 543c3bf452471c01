#include "runtime/net/proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <vector>

namespace deepinfer::net {

digest256 keyed_digest(std::string_view key, std::span<const std::span<const std::byte>> parts) {
  std::vector<std::byte> whole;
  for (const auto part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return keyed_digest(key, whole);
}

digest256 keyed_digest(std::string_view key, std::span<const std::byte> data) {
  digest256 out{};
  unsigned int size = 0;
  // a null key means "reuse the last one" to OpenSSL; an empty key must not
  const char* key_bytes = key.empty() ? "" : key.data();
  const auto* done = HMAC(EVP_sha256(), key_bytes, static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(data.data()), data.size(),
                          reinterpret_cast<unsigned char*>(out.data()), &size);
  DEEPINFER_CHECK(done != nullptr && size == out.size());
  return out;
}

digest256 plain_digest(std::string_view text) {
  digest256 out{};
  unsigned int size = 0;
  const int done =
      EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(out.data()), &size,
                 EVP_sha256(), nullptr);
  DEEPINFER_CHECK(done == 1 && size == out.size());
  return out;
}

bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

result<digest256> draw_nonce() {
  digest256 out{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) != 1)
    return failure{error_code::internal, "the system's random generator does not answer"};
  return out;
}

}  // namespace deepinfer::net
