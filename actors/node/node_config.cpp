#include "actors/node/node_config.hpp"

#include <unistd.h>

#include <charconv>

extern char** environ;

namespace deepinfer {

process_config::process_config() {
  console_http.listen = "127.0.0.1:8001";
  // Default ports give way to the next free one; a port that the user names does not.
  http.port_tries = console_http.port_tries = 100;
  schema_.section("node", "The node itself.", node);
  schema_.section("log", "The log.", log);
  schema_.section("fabric", "Links between nodes.", fabric);
  schema_.section("remote", "Handles of actors in other processes.", remote);
  schema_.section("multicast", "Finding nodes on a LAN.", multicast);
  schema_.section("http", "The gateway's listener.", http);
  schema_.section("console_http", "The listener of console and metrics.", console_http);
  schema_.section("recipe", "From requests to prompts.", recipe);
  schema_.section("encoder", "From prompts to ids.", encoder);
  schema_.section("kernels", "Arithmetic on this machine.", kernels);
  schema_.section("membership", "Who is in the cluster.", actors.membership);
  schema_.section("gateway", "Admission.", actors.gateway);
  schema_.section("request", "The life of a request.", actors.request);
  schema_.section("balancer", "Choice of engines.", actors.balancer);
  schema_.section("prefill", "Prefill engine.", actors.prefill);
  schema_.section("decode", "Decode engine.", actors.decode);
  schema_.section("kvcache", "Use of the shared KV cache.", actors.cache);
  schema_.section("kvcheck", "What gateways know of the stores.", actors.check);
  schema_.section("kvwriter", "Blocks on their way to the KV stores.", actors.kvwriter);
  schema_.section("kvfetch", "From the KV stores into shared memory.", actors.kvfetch);
  schema_.section("rings", "Window rings of conversations.", actors.rings);
  schema_.section("kvstore", "KV store: a part of the shared cache.", actors.kvstore);
  schema_.section("kvsweep", "Upkeep of a KV store.", actors.kvsweep);
  schema_.section("kvmove", "Stored blocks on their way to the stores that own them.",
                  actors.kvmove);
  schema_.section("console", "Console.", actors.console);
  schema_.environment_name("DEEPINFER_HF_MODEL_DIR", "node.model");
  for (const char* name : {"DEEPINFER_ACCELERATOR", "DEEPINFER_ENABLE_MTP_VARLEN",
                           "DEEPINFER_USE_NEXTN_DECODE", "DEEPINFER_RUNTIME_DIR"})
    schema_.foreign_environment_name(name);
}

result<host_port> parse_host_port(const std::string& text) {
  const failure wrong{error_code::invalid_argument,
                      "'" + text + "' is no address; write host:port, as in 127.0.0.1:7400"};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return wrong;
  host_port out;
  out.host = text.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  else if (out.host.find(':') != std::string::npos)
    return wrong;
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, out.port);
  if (error != std::errc{} || end != last || first == last) return wrong;
  return out;
}

std::map<std::string, std::string> environment_variables() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text{*entry};
    const size_t equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

}  // namespace deepinfer
