#include "actors/node/public_prompt_files.hpp"

#include "runtime/recipe/system_prompt.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace deepinfer;

namespace {

struct prompt_files {
  test::scratch_folder folder;

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder.path() + "/" + name;
    std::ofstream{path, std::ios::binary} << text;
    return path;
  }
  result<std::shared_ptr<const public_prompts>> read(const std::vector<std::string>& files) {
    return read_public_prompts(files, *test::tiny_tokenizer());
  }
  /// The reason why a list is refused.
  std::string why_not(const std::vector<std::string>& files) {
    const auto got = read(files);
    REQUIRE_FALSE(got);
    CHECK(got.error().detail.find("kvcache.public_prompts") != std::string::npos);
    return got.error().detail;
  }
};

std::string long_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "Rule " + std::to_string(i) + ": be kind.\n";
  return text + "That is all.";
}

}  // namespace

TEST_SUITE("actors/node/public_prompt_files") {
  TEST_CASE_FIXTURE(prompt_files, "prompts are shared as requests with them are encoded") {
    const auto beginnings = recipe::system_beginnings(long_text(), *test::tiny_tokenizer());
    REQUIRE(beginnings);
    // an editor's last line end is not the prompt's
    for (const std::string end : {"", "\n", "\r\n"}) {
      const auto listed = read({write("a", long_text() + end)});
      REQUIRE(listed);
      for (const auto& one : *beginnings) CHECK((*listed)->shared_tokens(one) == one.size());
    }
    const auto none = read({});
    REQUIRE(none);
    CHECK(*none == nullptr);
  }

  TEST_CASE_FIXTURE(prompt_files,
                    "what could never be shared is refused, and setting and file named") {
    const std::string good = write("good", long_text());
    const std::string missing = folder.path() + "/missing";
    CHECK(why_not({good, missing}).find("cannot read " + missing) != std::string::npos);
    CHECK(why_not({folder.path()}).find("cannot read " + folder.path()) != std::string::npos);
    const std::string brief = write("brief", "Be kind.");
    const std::string why = why_not({brief});
    CHECK(why.find(brief) != std::string::npos);
    CHECK(why.find("blocks are of 128") != std::string::npos);
    CHECK(why_not({write("bytes", "\xff" + long_text())}).find("is not UTF-8") !=
          std::string::npos);
    CHECK(why_not({write("image", "<｜image｜>" + long_text())}).find("image placeholder") !=
          std::string::npos);
    std::string most;
    while (most.size() < max_public_prompt_bytes) most += "be kind ";
    CHECK(read({write("most", most)}));
    CHECK(why_not({write("long", most + 'a')}).find("longer than 1024 KiB") != std::string::npos);
  }

  TEST_CASE_FIXTURE(prompt_files, "a list has a limit") {
    const std::string good = write("good", long_text());
    CHECK(read(std::vector<std::string>(max_public_prompts, good)));
    CHECK(why_not(std::vector<std::string>(max_public_prompts + 1, good)).find("at most 64") !=
          std::string::npos);
  }
}
