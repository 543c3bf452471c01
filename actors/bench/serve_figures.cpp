#include "actors/bench/serve_figures.hpp"

#include "actors/bench/known_protocol.hpp"
#include "actors/bench/load_client.hpp"
#include "actors/bench/node_start.hpp"
#include "actors/bench/peer_process.hpp"

#include <array>
#include <memory>
#include <sstream>
#include <utility>

namespace deepinfer::bench {
namespace {

constexpr std::chrono::seconds patience{20};
constexpr std::array<std::string_view, 3> kinds{"bare", "known", "chat"};

std::string count_suffix(size_t count) {
  std::string text{"_"};
  return text.append(std::to_string(count));
}

std::string chat_body(uint32_t tokens) {
  return R"({"model":"default","stream":true,"ignore_eos":true,"thinking":{"type":"disabled"},)"
         R"("messages":[{"role":"user","content":"What is the capital of France, and why?"}],)"
         R"("max_tokens":)" +
         std::to_string(tokens) + "}";
}

/// One server process and the connections to it.
struct open_site {
  std::string name;
  peer_process process;
  double resident_bytes = 0;  ///< before the first connection
  std::unique_ptr<load_client> client;
};

struct wanted_site {
  site_plan site;
  uint32_t tokens = 0;
  size_t connections = 1;
};

result<std::unique_ptr<open_site>> open(const serve_plan& plan, const wanted_site& wanted) {
  auto out = std::make_unique<open_site>();
  out->name = kinds[static_cast<size_t>(wanted.site.kind)];
  if (auto started =
          out->process.start({plan.program, "bench", "serve", "--peer", site_text(wanted.site)});
      !started)
    return started.error();
  const auto address = out->process.line(patience);
  if (!address) return address.error();
  const std::string body =
      wanted.site.kind == site_kind::chat ? chat_body(wanted.tokens) : known_body({wanted.tokens});
  out->resident_bytes = out->process.resident_bytes();
  // Requests that come before the engines have reported their load wait for an engine.
  auto client = load_client::connect({*address, body, wanted.tokens, wanted.connections});
  if (!client) return client.error();
  out->client = *std::move(client);
  return out;
}

using sites = std::vector<std::unique_ptr<open_site>>;

result<sites> open_all(const serve_plan& plan,
                       std::chrono::microseconds step,
                       uint32_t tokens,
                       size_t connections) {
  sites out;
  for (const site_kind kind : {site_kind::bare, site_kind::known, site_kind::chat}) {
    if (kind == site_kind::chat && plan.model.empty()) continue;
    auto made = open(plan, {{kind, step, plan.model}, tokens, connections});
    if (!made) return made.error();
    out.push_back(*std::move(made));
  }
  return out;
}

/// Rounds of one figure on one site, compared with the same of the bare site.
struct compared {
  std::vector<std::vector<double>> by_site;

  explicit compared(size_t count) : by_site(count) {}
  void add_to(std::vector<figure>& out,
              const sites& from,
              const std::string& what,
              const std::string& unit) const {
    const yardstick floor{"serve." + from[0]->name + "." + what, by_site[0]};
    out.push_back(make_figure(floor.name, unit, floor.rounds));
    for (size_t i = 1; i < by_site.size(); ++i)
      out.push_back(make_figure("serve." + from[i]->name + "." + what, unit, by_site[i], floor));
  }
};

result<void> measure_throughput(const serve_plan& plan, std::vector<figure>& out) {
  auto all = open_all(plan, std::chrono::microseconds{0}, plan.short_tokens, plan.connections);
  if (!all) return all.error();
  compared rate{all->size()}, cpu{all->size()}, first{all->size()};
  for (size_t round = 0; round <= plan.rounds; ++round)
    for (size_t i = 0; i < all->size(); ++i) {
      open_site& site = *(*all)[i];
      const double before = site.process.cpu_seconds();
      const auto done = site.client->run(plan.throughput);
      if (!done) return done.error();
      if (round == 0) continue;  // warm
      rate.by_site[i].push_back(static_cast<double>(done->requests) / done->seconds);
      cpu.by_site[i].push_back((site.process.cpu_seconds() - before) * 1e6 /
                               static_cast<double>(done->first_token_us.size()));
      first.by_site[i].push_back(median(done->first_token_us) / 1e3);
    }
  const std::string load = count_suffix(plan.connections);
  rate.add_to(out, *all, "short_streams" + load, "requests/s");
  cpu.add_to(out, *all, "short_stream_cpu", "us");
  first.add_to(out, *all, "loaded_first_token" + load, "ms");
  return {};
}

// One request at a time: nothing to wait for but the way through the actors.
result<void> measure_first_token(const serve_plan& plan, std::vector<figure>& out) {
  auto all = open_all(plan, std::chrono::microseconds{0}, 1, 1);
  if (!all) return all.error();
  compared middle{all->size()}, late{all->size()};
  for (size_t round = 0; round <= plan.rounds; ++round)
    for (size_t i = 0; i < all->size(); ++i) {
      const auto done = (*all)[i]->client->run(plan.throughput / 4);
      if (!done) return done.error();
      if (round == 0) continue;
      middle.by_site[i].push_back(median(done->first_token_us) / 1e3);
      late.by_site[i].push_back(quantile(done->first_token_us, 0.99) / 1e3);
    }
  middle.add_to(out, *all, "first_token_p50", "ms");
  late.add_to(out, *all, "first_token_p99", "ms");
  return {};
}

result<void> measure_latency(const serve_plan& plan, std::vector<figure>& out) {
  auto all = open_all(plan, plan.step, plan.paced_tokens, plan.connections);
  if (!all) return all.error();
  compared middle{all->size()}, late{all->size()};
  for (size_t round = 0; round <= plan.rounds; ++round)
    for (size_t i = 0; i < all->size(); ++i) {
      // One whole set of streams: the time is over before the first of them ends.
      const auto done = (*all)[i]->client->run(std::chrono::milliseconds{1});
      if (!done) return done.error();
      if (round == 0) continue;
      middle.by_site[i].push_back(median(done->token_age_us) / 1e3);
      late.by_site[i].push_back(quantile(done->token_age_us, 0.99) / 1e3);
    }
  const std::string load = count_suffix(plan.connections);
  middle.add_to(out, *all, "token_age_p50" + load, "ms");
  late.add_to(out, *all, "token_age_p99" + load, "ms");
  return {};
}

// With its connection and its share of what is made once.
result<void> measure_memory(const serve_plan& plan, std::vector<figure>& out) {
  constexpr std::chrono::microseconds slow{1'000'000};
  constexpr uint32_t endless = 50'000;
  const std::string name = "stream_memory" + count_suffix(plan.open_streams);
  for (const site_kind kind : {site_kind::bare, site_kind::known, site_kind::chat}) {
    if (kind == site_kind::chat && plan.model.empty()) continue;
    auto site = open(plan, {{kind, slow, plan.model}, endless, plan.open_streams});
    if (!site) return site.error();
    if (auto held = (*site)->client->hold(); !held) return held;
    const double each = ((*site)->process.resident_bytes() - (*site)->resident_bytes) /
                        static_cast<double>(plan.open_streams) / 1024;
    out.push_back(make_figure("serve." + (*site)->name + "." + name, "KiB", {each}));
  }
  return {};
}

}  // namespace

result<std::vector<figure>> measure_serve_figures(const serve_plan& plan) {
  std::vector<figure> out;
  for (const auto measure :
       {measure_throughput, measure_first_token, measure_latency, measure_memory})
    if (auto done = measure(plan, out); !done) return done.error();
  if (plan.model.empty()) return out;
  const auto start = measure_node_start(plan.program, plan.model, plan.starts);
  if (!start) return start.error();
  out.insert(out.end(), start->begin(), start->end());
  return out;
}

std::string site_text(const site_plan& plan) {
  return std::string{kinds[static_cast<size_t>(plan.kind)]} + " " +
         std::to_string(plan.step.count()) + " " + plan.model;
}

result<site_plan> parse_site(const std::string& text) {
  std::istringstream words{text};
  std::string kind;
  int64_t step = -1;
  site_plan out;
  words >> kind >> step;
  words.ignore(1);
  std::getline(words, out.model);
  out.step = std::chrono::microseconds{step};
  for (size_t i = 0; i < kinds.size(); ++i)
    if (kind == kinds[i] && step >= 0) {
      out.kind = static_cast<site_kind>(i);
      return out;
    }
  return failure{error_code::invalid_argument, "no such site: " + text};
}

}  // namespace deepinfer::bench
