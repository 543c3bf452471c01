#include "actors/node/service_scheduler.hpp"

#include "actors/node/deadline_clock.hpp"

#include <caf/atom.hpp>
#include <caf/policy/work_sharing.hpp>
#include <caf/scheduler/coordinator.hpp>

namespace deepinfer {
namespace {

class service_scheduler final : public caf::scheduler::coordinator<caf::policy::work_sharing> {
public:
  using coordinator::coordinator;

  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new service_scheduler{system};  // the system owns its modules
  }

  deadline_clock& clock() noexcept override { return clock_; }

protected:
  void start() override {
    clock_.start();
    coordinator::start();
  }
  void stop() override {
    coordinator::stop();
    clock_.stop();
  }

private:
  deadline_clock clock_;
};

}  // namespace

void use_service_scheduler(caf::actor_system_config& config, uint32_t threads) {
  config.set("scheduler.max-threads", static_cast<size_t>(threads));
  config.load<service_scheduler>();
}

}  // namespace deepinfer
