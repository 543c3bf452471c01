#include "runtime/net/multicast_registry.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

net::multicast_config lan(const std::string& cluster) {
  net::multicast_config config;
  // other runs of this test on the machine must not be heard
  config.port = static_cast<uint16_t>(20'000 + ::getpid() % 20'000);
  config.interface = "lo";
  config.cluster = cluster;
  config.secret = "hush";
  return config;
}

std::unique_ptr<net::registry> open(const net::multicast_config& config) {
  auto made = net::make_multicast_registry(config);
  if (!made) MESSAGE(made.error().detail);
  REQUIRE(made);
  return *std::move(made);
}

using list = std::vector<std::string>;

/// Lets all look once (virtual time), then asks the first.
list look(std::chrono::nanoseconds now, std::vector<net::registry*> all) {
  for (int pass = 0; pass < 3; ++pass)
    for (net::registry* one : all) REQUIRE(one->discover(now));
  return *all.front()->discover(now);
}

}  // namespace

TEST_SUITE("runtime/net/registry") {
  TEST_CASE("nodes on a LAN hear each other, and not those of other clusters or secrets") {
    auto config = lan("one");
    const auto a = open(config), b = open(config), late = open(config);
    const auto other = open(lan("two"));
    auto foreign_config = config;
    foreign_config.secret = "loud";
    const auto foreign = open(foreign_config);
    REQUIRE(a->announce({{1, 1}, 1, "10.0.0.1:7400"}));
    REQUIRE(b->announce({{2, 2}, 1, "10.0.0.2:7400"}));
    REQUIRE(other->announce({{3, 3}, 1, "10.0.0.3:7400"}));
    REQUIRE(foreign->announce({{4, 4}, 1, "10.0.0.4:7400"}));
    const std::vector<net::registry*> all{a.get(), b.get(), other.get(), foreign.get()};
    CHECK(look(0s, all) == list{"10.0.0.2:7400"});
    CHECK(*other->discover(0s) == list{});
    CHECK(*foreign->discover(0s) == list{});
    // one that comes later asks, and is answered before the next announcement is due
    CHECK(look(1s, {late.get(), a.get(), b.get()}) == list{"10.0.0.1:7400", "10.0.0.2:7400"});
    b->withdraw();
    CHECK(look(1s, {a.get()}) == list{});
    // who is silent is forgotten
    CHECK(*late->discover(2s) == list{"10.0.0.1:7400"});
    CHECK(*late->discover(10s) == list{});
  }

  TEST_CASE("strange packets to the group are ignored") {
    const auto config = lan("one");
    const auto a = open(config);
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in group{};
    group.sin_family = AF_INET;
    group.sin_port = htons(config.port);
    ::inet_pton(AF_INET, config.group.c_str(), &group.sin_addr);
    const in_addr loopback{htonl(INADDR_LOOPBACK)};
    REQUIRE(::setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback) == 0);
    for (const size_t size : {0, 1, 47, 48, 400, 4000}) {
      const std::vector<char> bytes(size, 'D');
      (void)::sendto(fd, bytes.data(), size, 0, reinterpret_cast<sockaddr*>(&group), sizeof group);
    }
    ::close(fd);
    CHECK(a->discover(0s)->empty());
  }

  TEST_CASE("a group, interface or port that cannot be is refused") {
    auto config = lan("one");
    config.group = "10.0.0.1";
    CHECK(net::make_multicast_registry(config).error().code == error_code::invalid_argument);
    config = lan("one");
    config.interface = "nosuch0";
    CHECK(net::make_multicast_registry(config).error().code == error_code::invalid_argument);
    config = lan("one");
    config.port = 0;
    CHECK(net::make_multicast_registry(config).error().code == error_code::invalid_argument);
  }
}
