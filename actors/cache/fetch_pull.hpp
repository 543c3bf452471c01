#pragma once

#include "actors/cache/kv_fetch.hpp"

namespace deepinfer {

/// Between the core of a kv_fetch and the stores: messages and one-sided reads.
class fetch_pull {
public:
  using self_ptr = kv_fetch_impl_actor::stateful_pointer<kv_fetch_state>;

  explicit fetch_pull(self_ptr self) : self_(self) {}

  void open(const fetch::open_group& what);
  void read(const fetch::read_blocks& what);
  void renew(const fetch::renew_lease& what);
  void close(const fetch::close_lease& what);
  void report(const fetch::report_bad& what);

  void pulled(const fetch_pulled& what);
  void verified(const fetch_verified& what);
  void read_over(const fetch_read_over& what);
  void worked(uint32_t worker);

private:
  [[nodiscard]] std::chrono::nanoseconds now() const;
  void read_files(const fetch::read_blocks& what);
  void ask(const fetch::read_blocks& what);
  void answered(const fetch::read_blocks& what, wire::KvReadDone::Reader said);
  void refused(const fetch::read_blocks& what, const failure& why);
  void pull(uint64_t batch, const fetch::run& part, const node_id& owner, uint64_t region);
  void verify(uint64_t batch, const fetch::run& part);
  void all_pulled(const pulled_batch& batch);
  void end(uint64_t batch, size_t blocks, fetch::outcome what);
  void run(fetch_pool::work work);
  void begin_works();

  self_ptr self_;
};

/// Does what the core wants done, until there is nothing.
void run_effects(fetch_pull::self_ptr self);

}  // namespace deepinfer
