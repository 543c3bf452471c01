#include "actors/control/member_wire.hpp"

#include "proto/types/limits.hpp"

#include <algorithm>
#include <string>

namespace deepinfer {
namespace {

constexpr uint32_t max_roles = 32;

std::string text(capnp::Text::Reader in) {
  return {in.begin(), std::min<size_t>(in.size(), limits::max_text_bytes)};
}

}  // namespace

void write_record(wire::NodeRecord::Builder out, const policy::member_record& record) {
  out.initId().setHi(record.id.hi);
  out.getId().setLo(record.id.lo);
  out.setName(record.name);
  out.setAddress(record.address);
  auto roles = out.initRoles(static_cast<uint32_t>(record.roles.size()));
  for (uint32_t i = 0; i < record.roles.size(); ++i) roles.set(i, record.roles[i]);
  out.setEpoch(record.epoch);
  out.setState(static_cast<wire::NodeState>(record.state));
  out.setVersion(record.version);
  out.setUptimeMs(static_cast<uint64_t>(record.uptime.count()));
  out.setMachine(record.machine);
  auto services = out.initServices(static_cast<uint32_t>(record.services.size()));
  for (uint32_t i = 0; i < record.services.size(); ++i) {
    const policy::service_record& s = record.services[i];
    services[i].setKind(s.kind);
    services[i].setModel(s.model);
    services[i].setLayout(s.layout);
    if ((s.store_hi | s.store_lo) != 0) {
      services[i].initStore().setHi(s.store_hi);
      services[i].getStore().setLo(s.store_lo);
    }
    auto ref = services[i].initActor();
    ref.initNode().setHi(s.node.hi);
    ref.getNode().setLo(s.node.lo);
    ref.setActor(s.actor);
    ref.setInterface(s.interface);
  }
}

policy::member_record read_record(wire::NodeRecord::Reader in) {
  policy::member_record r;
  r.id = {in.getId().getHi(), in.getId().getLo()};
  r.name = text(in.getName());
  r.address = text(in.getAddress());
  for (const auto role : in.getRoles()) {
    if (r.roles.size() == max_roles) break;
    r.roles.push_back(text(role));
  }
  r.epoch = in.getEpoch();
  const auto state = static_cast<uint16_t>(in.getState());
  r.state = state <= 3 ? static_cast<policy::member_state>(state) : policy::member_state::alive;
  r.version = in.getVersion();
  r.uptime = std::chrono::milliseconds(in.getUptimeMs());
  r.machine = text(in.getMachine());
  for (const auto s : in.getServices()) {
    if (r.services.size() == limits::max_services_per_node) break;
    const auto ref = s.getActor();
    r.services.push_back({text(s.getKind()),
                          {ref.getNode().getHi(), ref.getNode().getLo()},
                          ref.getActor(),
                          ref.getInterface(),
                          text(s.getModel()),
                          s.getLayout(),
                          s.getStore().getHi(),
                          s.getStore().getLo()});
  }
  return r;
}

std::vector<policy::member_record> read_records(capnp::List<wire::NodeRecord>::Reader in) {
  std::vector<policy::member_record> records;
  for (const auto record : in) {
    if (records.size() == limits::max_nodes) break;
    records.push_back(read_record(record));
  }
  return records;
}

}  // namespace deepinfer
