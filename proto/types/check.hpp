#pragma once

#include <cstdio>
#include <cstdlib>

/// A broken invariant is a bug, and going on would compute a wrong token: stop the process, in
/// release builds too. Never for bad input: that is a returned `failure`.
#define DEEPINFER_CHECK(condition)                                                             \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "check failed: %s (%s:%d)\n", #condition, __FILE_NAME__, __LINE__); \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif
