#include "actors/console/actor_metrics.hpp"

#include <string_view>

namespace deepinfer {
namespace {

bool is_lasting(std::string_view kind) {
  return kind != "request";
}

// Label values are ours, but a peer of another release may have other ideas.
std::string label(capnp::Text::Reader text) {
  std::string out;
  for (const char c : std::string_view{text.begin(), text.size()}) {
    if (c == '\\' || c == '"') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string who(wire::ActorInfo::Reader actor) {
  std::string text = "{kind=\"" + label(actor.getKind());
  text += "\",actor=\"";
  text += std::to_string(actor.getId());
  text += '"';
  return text;
}

}  // namespace

std::string actor_metrics_text(wire::LocalTopology::Reader node) {
  std::string text =
      "# HELP deepinfer_actor Counters and gauges of living actors, as the console shows them.\n"
      "# TYPE deepinfer_actor untyped\n";
  for (const auto actor : node.getActors()) {
    if (!is_lasting({actor.getKind().begin(), actor.getKind().size()})) continue;
    for (const auto counter : actor.getCounters()) {
      text += "deepinfer_actor";
      text += who(actor);
      text += ",name=\"";
      text += label(counter.getName());
      text += "\"} ";
      text += std::to_string(counter.getValue());
      text += '\n';
    }
  }
  text +=
      "# HELP deepinfer_actor_mailbox Messages waiting for an actor.\n"
      "# TYPE deepinfer_actor_mailbox gauge\n";
  for (const auto actor : node.getActors()) {
    if (!is_lasting({actor.getKind().begin(), actor.getKind().size()})) continue;
    text += "deepinfer_actor_mailbox";
    text += who(actor);
    text += "} ";
    text += std::to_string(actor.getMailbox());
    text += '\n';
  }
  return text;
}

}  // namespace deepinfer
