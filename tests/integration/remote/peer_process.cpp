#include "tests/actor/remote/clerk.hpp"
#include "tests/support/fabric_node.hpp"

#include <cstdlib>
#include <iostream>

/// The other process of the tests of remote handles: a node with a clerk under number 7 and one
/// that runs inline under number 8, until standard input ends.
///   remote_peer HI LO EPOCH PORT      ids in decimal; port 0 takes any
/// Prints its address. A line "quit" ends the first clerk.
int main(int argc, char** argv) {
  using namespace deepinfer;
  net::restore_signal_defaults();
  if (argc != 5) return 2;
  const auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 10); };
  test::fabric_node node{node_id{number(1), number(2)}, number(3),
                         static_cast<uint16_t>(number(4))};
  const auto clerk = node.system.spawn(test::clerk, &node.hub());
  const auto quick = node.system.spawn(test::clerk, &node.hub());
  node.hub().run_inline(quick);
  if (!node.hub().publish(7, clerk) || !node.hub().publish(8, quick)) return 1;
  std::cout << node.transport().address() << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    if (line == "quit") node.self->send(clerk, test::cancel(4));
  return 0;
}
