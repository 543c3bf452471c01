#include "actors/node/store_quotas.hpp"

#include "storage/block/chain_hasher.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using storage::scope_kind;

TEST_SUITE("actors/node/store_quotas") {
  TEST_CASE("quotas are of the scopes that requests of those tenants have") {
    const auto quotas = read_store_quotas(
        {"acme=10MiB", "organization:acme=4096", "anonymous=0", "public:=7", "public=8"});
    REQUIRE(quotas);
    REQUIRE(quotas->size() == 5);
    CHECK((*quotas)[0] ==
          std::pair{storage::id_of({scope_kind::tenant, "acme"}), uint64_t{10} << 20});
    CHECK((*quotas)[1] ==
          std::pair{storage::id_of({scope_kind::organization, "acme"}), uint64_t{4096}});
    CHECK((*quotas)[2] ==
          std::pair{storage::id_of({scope_kind::tenant, "anonymous"}), uint64_t{0}});
    CHECK((*quotas)[3] == std::pair{storage::id_of(storage::public_scope()), uint64_t{7}});
    CHECK((*quotas)[4] == std::pair{storage::id_of({scope_kind::tenant, "public"}), uint64_t{8}});
    CHECK(read_store_quotas({})->empty());
  }

  TEST_CASE("what is no quota is refused, and the text is named") {
    for (const char* text : {"acme", "=1", "acme=", "acme=-1", "acme=much", "a b=1", "key:0=1",
                             "organization:=1", "public:me=1", "organization:anonymous=1"}) {
      CAPTURE(text);
      const auto quotas = read_store_quotas({"good=1", text});
      REQUIRE_FALSE(quotas);
      CHECK(quotas.error().code == error_code::invalid_argument);
      CHECK(quotas.error().detail.find(std::string{"'"} + text + "'") != std::string::npos);
    }
  }
}
