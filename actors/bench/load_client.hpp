#pragma once

#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer::bench {

struct load_result {
  size_t requests = 0;  ///< answered to the last byte within the time
  double seconds = 0;
  std::vector<double> first_token_us;  ///< from the request's first byte sent
  std::vector<double> token_age_us;    ///< from the stamp in each token to its arrival
};

/// Many keep-alive connections on one thread, each with one streamed request at a time. Made for
/// little cost per event, since it takes its share of the cores that it measures: it looks for
/// stamps (`known_protocol.hpp`) and the end of the chunked body, and no further.
class load_client {
public:
  struct options {
    std::string address;  ///< "127.0.0.1:port"
    std::string body;
    size_t tokens = 0;  ///< that each answer must bring
    size_t connections = 1;
  };
  static result<std::unique_ptr<load_client>> connect(const options& what);
  virtual ~load_client() = default;

  /// Asks again and again for `time`, then lets open answers end uncounted. An answer that is not
  /// 200, is cut, or brings another number of tokens ends the run with what it said.
  virtual result<load_result> run(std::chrono::milliseconds time) = 0;
  /// One request on each connection; returns when all streams have their first token, and leaves
  /// them open.
  virtual result<void> hold() = 0;
};

}  // namespace deepinfer::bench
