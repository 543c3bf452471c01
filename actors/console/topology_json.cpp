#include "actors/console/topology_json.hpp"

#include "proto/types/ids.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace deepinfer {
namespace {

// Texts of other nodes may hold any bytes; what is not UTF-8 is replaced by the writer's caller.
using json_writer = rapidjson::Writer<rapidjson::StringBuffer>;

void text(json_writer& out, capnp::Text::Reader value) {
  out.String(value.cStr(), static_cast<rapidjson::SizeType>(value.size()));
}

void field(json_writer& out, const char* key, capnp::Text::Reader value) {
  out.Key(key);
  text(out, value);
}

std::string id_of(wire::Id128::Reader id) {
  return to_string(node_id{id.getHi(), id.getLo()});
}

void text(json_writer& out, const std::string& value) {
  out.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
}

const char* state_name(wire::NodeState state) {
  switch (state) {
    case wire::NodeState::ALIVE:
      return "alive";
    case wire::NodeState::SUSPECT:
      return "suspect";
    case wire::NodeState::LEFT:
      return "left";
    default:
      return "dead";
  }
}

/// A process that a node started for its machine.
bool only_fetches(wire::NodeRecord::Reader node) {
  return node.getRoles().size() == 1 && node.getRoles()[0] == "fetch";
}

void write_node(json_writer& out, wire::NodeRecord::Reader node) {
  out.StartObject();
  out.Key("id");
  text(out, id_of(node.getId()));
  field(out, "address", node.getAddress());
  out.Key("roles");
  out.StartArray();
  for (const auto role : node.getRoles()) text(out, role);
  out.EndArray();
  out.Key("epoch");
  out.Uint64(node.getEpoch());
  out.Key("state");
  out.String(state_name(node.getState()));
  out.Key("uptime_s");
  out.Double(static_cast<double>(node.getUptimeMs()) / 1000);
  out.Key("services");
  out.StartArray();
  for (const auto service : node.getServices()) {
    out.StartObject();
    field(out, "kind", service.getKind());
    field(out, "model", service.getModel());
    out.Key("actor");
    out.Uint64(service.getActor().getActor());
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
}

void write_actor(json_writer& out, wire::ActorInfo::Reader actor) {
  out.StartObject();
  field(out, "kind", actor.getKind());
  out.Key("id");
  out.Uint64(actor.getId());
  out.Key("node");
  text(out, id_of(actor.getNode()));
  field(out, "state", actor.getState());
  out.Key("mailbox");
  out.Uint(actor.getMailbox());
  out.Key("counters");
  out.StartObject();
  for (const auto counter : actor.getCounters()) {
    out.Key(counter.getName().cStr());
    out.Int64(counter.getValue());
  }
  out.EndObject();
  out.EndObject();
}

std::string end_point(uint64_t number, wire::Id128::Reader node) {
  return std::to_string(number) + "@" + id_of(node);
}

void write_edges(json_writer& out, wire::ActorInfo::Reader actor) {
  const std::string from = end_point(actor.getId(), actor.getNode());
  for (const auto peer : actor.getPeers()) {
    out.StartObject();
    out.Key("from");
    text(out, from);
    out.Key("to");
    text(out, end_point(peer.getActor(), peer.getNode()));
    out.Key("messages");
    out.Uint64(peer.getMessages());
    out.EndObject();
  }
}

}  // namespace

std::string topology_json(wire::Topology::Reader topology) {
  rapidjson::StringBuffer buffer;
  json_writer out{buffer};
  out.StartObject();
  field(out, "cluster", topology.getCluster());
  out.Key("self");
  text(out, id_of(topology.getSelf()));
  out.Key("nodes");
  out.StartArray();
  for (const auto node : topology.getNodes())
    if (!only_fetches(node)) write_node(out, node);
  out.EndArray();
  // A list of their own: who counts nodes does not mean these.
  out.Key("fetch_processes");
  out.StartArray();
  for (const auto node : topology.getNodes())
    if (only_fetches(node)) write_node(out, node);
  out.EndArray();
  out.Key("actors");
  out.StartArray();
  for (const auto actor : topology.getActors()) write_actor(out, actor);
  out.EndArray();
  out.Key("edges");
  out.StartArray();
  for (const auto actor : topology.getActors()) write_edges(out, actor);
  out.EndArray();
  out.Key("unreachable");
  out.StartArray();
  for (const auto node : topology.getUnreachable()) text(out, id_of(node));
  out.EndArray();
  out.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

std::string events_json(wire::LocalTopology::Reader node) {
  rapidjson::StringBuffer buffer;
  json_writer out{buffer};
  out.StartObject();
  out.Key("node");
  text(out, id_of(node.getNode()));
  out.Key("lines");
  out.StartArray();
  for (const auto line : node.getLog()) text(out, line);
  out.EndArray();
  out.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace deepinfer
