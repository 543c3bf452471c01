// Runs a fuzz target on a fixed number of seeded mutations of its good inputs.
//   fuzz_x_smoke [ROUNDS [SEED]]      a failure prints the round, which replays exactly
//   fuzz_x_smoke --write FOLDER       writes the good inputs, as the corpus for libFuzzer
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/rng.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

using namespace deepinfer;

namespace {

constexpr uint32_t longest = 16 * 1024;

uint64_t current_seed = 0;
uint64_t current_round = 0;

// The check that failed has printed itself; this adds how to come back to it.
void tell_round(int signal) {
  char text[96];
  const int length = std::snprintf(text, sizeof text, "signal %d in round %llu of seed %llu\n",
                                   signal, static_cast<unsigned long long>(current_round),
                                   static_cast<unsigned long long>(current_seed));
  if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Values at which length and index arithmetic tends to break.
uint64_t telling_number(test::rng& random) {
  constexpr uint64_t numbers[] = {0,    1,    2,      7,          8,          0x7f,
                                  0x80, 0xff, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX};
  return numbers[random.below(std::size(numbers))];
}

void mutate_once(fuzz::bytes& input, const fuzz::bytes& other, test::rng& random) {
  const auto size = static_cast<uint32_t>(input.size());
  const uint32_t at = size == 0 ? 0 : random.below(size);
  switch (random.below(6)) {
    case 0:  // one bit
      if (size != 0) input[at] ^= static_cast<uint8_t>(1u << random.below(8));
      break;
    case 1:  // one byte
      if (size != 0) input[at] = static_cast<uint8_t>(random.next());
      break;
    case 2: {  // a number, in place
      const uint64_t number = telling_number(random);
      for (uint32_t i = 0; i < 8 && at + i < size; ++i)
        input[at + i] = static_cast<uint8_t>(number >> (8 * i));
      break;
    }
    case 3:  // the end is missing
      input.resize(at);
      break;
    case 4: {  // a piece twice
      const fuzz::bytes piece(input.begin() + at, input.begin() + at + random.below(size - at + 1));
      input.insert(input.begin() + at, piece.begin(), piece.end());
      break;
    }
    default:  // the rest from another good input
      if (other.empty()) break;
      input.resize(at);
      input.insert(input.end(), other.begin() + random.below(static_cast<uint32_t>(other.size())),
                   other.end());
  }
  if (input.size() > longest) input.resize(longest);
}

int write_seeds(const std::string& folder) {
  int number = 0;
  for (const auto& seed : fuzz::seeds()) {
    std::ofstream file{folder + "/seed-" + std::to_string(number++), std::ios::binary};
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write into %s: does the folder exist?\n", folder.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view{argv[1]} == "--write") return write_seeds(argv[2]);
  const uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200'000;
  current_seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL})
    std::signal(signal, tell_round);

  const auto good = fuzz::seeds();
  if (good.empty() || rounds == 0) {
    std::fprintf(stderr, "nothing to do: no seeds or no rounds\n");
    return 1;
  }
  for (const auto& seed : good) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  for (current_round = 1; current_round <= rounds; ++current_round) {
    // Each round has its own generator, so that one can be repeated without those before it.
    test::rng random{current_seed * 0x9E3779B97F4A7C15u + current_round};
    const auto count = static_cast<uint32_t>(good.size());
    fuzz::bytes input = good[random.below(count)];
    const uint32_t changes = 1 + random.below(5);
    for (uint32_t i = 0; i < changes; ++i) mutate_once(input, good[random.below(count)], random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%llu rounds of seed %llu\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(current_seed));
  return 0;
}
