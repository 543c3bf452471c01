#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace deepinfer::test {

/// One way to break a good checkpoint, and what must be said about it.
struct broken {
  const char* name;
  const char* shape;
  void (*damage)(const std::filesystem::path& folder);
  std::vector<std::string> say;  ///< fragments of one line of the report
  const char* loader;            ///< what the loader's refusal names; null: it need not refuse
};

const std::vector<broken>& broken_checkpoints();

}  // namespace deepinfer::test
