#include "actors/node/process_metrics.hpp"

#include <utility>

namespace deepinfer {

process_metrics::process_metrics(const net::transport& transport, const remote_hub& hub) {
  const auto bounds = exponential_bounds({0.001, 2, 20});
  requests_->first_token_seconds =
      &all_->make_histogram("deepinfer_request_first_token_seconds",
                            "From the request to its first output token.", bounds);
  requests_->between_tokens_seconds = &all_->make_histogram(
      "deepinfer_request_between_tokens_seconds", "Between two output tokens.", bounds);
  requests_->whole_seconds = &all_->make_histogram("deepinfer_request_seconds",
                                                   "From the request to its last byte.", bounds);
  make_cache_use_metrics();
  prompts_->prompts =
      &all_->make_counter("deepinfer_codec_prompts_total", "Prompts turned into ids.");
  prompts_->tokens = &all_->make_counter("deepinfer_codec_tokens_total", "Ids of those prompts.");
  prompts_->seconds = &all_->make_histogram("deepinfer_codec_encode_seconds",
                                            "From a prompt's text to its ids.", bounds);
  make_match_metrics();
  make_hit_metrics();
  const net::transport* t = &transport;
  total("deepinfer_net_frames_sent_total", "Frames sent to peers.",
        [t] { return static_cast<double>(t->stats().frames_sent); });
  total("deepinfer_net_frames_received_total", "Frames received from peers.",
        [t] { return static_cast<double>(t->stats().frames_received); });
  total("deepinfer_net_bytes_sent_total", "Bytes of frames sent.",
        [t] { return static_cast<double>(t->stats().bytes_sent); });
  total("deepinfer_net_bytes_received_total", "Bytes of frames received.",
        [t] { return static_cast<double>(t->stats().bytes_received); });
  total("deepinfer_net_read_bytes_total", "Bytes read one-sided from peers.",
        [t] { return static_cast<double>(t->stats().read_bytes); });
  total("deepinfer_net_frames_corrupt_total", "Frames that ended a link.",
        [t] { return static_cast<double>(t->stats().frames_corrupt); });
  total("deepinfer_net_links_refused_total", "Links refused.",
        [t] { return static_cast<double>(t->stats().links_refused); });
  const remote_hub* h = &hub;
  gauge("deepinfer_remote_peers", "Linked nodes.",
        [h] { return static_cast<double>(h->stats().peers); });
  gauge("deepinfer_remote_proxies", "Handles of actors of other nodes.",
        [h] { return static_cast<double>(h->stats().proxies); });
  gauge("deepinfer_remote_exports", "Actors whose handle was given away.",
        [h] { return static_cast<double>(h->stats().exports); });
  gauge("deepinfer_remote_pending_requests", "Requests to other nodes without an answer.",
        [h] { return static_cast<double>(h->stats().pending); });
  total("deepinfer_remote_bounced_total", "Requests answered with an error by the remote layer.",
        [h] { return static_cast<double>(h->stats().bounced); });
}

void process_metrics::make_cache_use_metrics() {
  const auto fill = [this](cache_use_counters& to, const char* use) {
    const auto made = [&](const char* what, const char* unit, const char* help) {
      return &all_->make_counter(std::string{"deepinfer_request_"} + what + '_' + unit + "_total",
                                 help, {{"class", use}});
    };
    to = {made("prompt", "tokens", "Tokens of prompts."),
          made("cached", "tokens", "Prompt tokens that engines took from the cache."),
          made("prompt", "blocks", "Whole blocks of prompts."),
          made("cached", "blocks", "Blocks of prompts that engines took from the cache.")};
  };
  fill(requests_->agent, "agent");
  fill(requests_->chat, "chat");
}

void process_metrics::make_match_metrics() {
  matches_->seconds = &all_->make_histogram(
      "deepinfer_cache_match_seconds", "To look up what is stored of a prompt, hashing included.",
      exponential_bounds({1e-5, 2, 16}));
  const auto fill = [this](match_counters& to, const char* use) {
    const auto made = [&](const char* unit, const char* what) {
      return &all_->make_counter(std::string{"deepinfer_cache_"} + unit + "_total",
                                 std::string{"Of prompts, found stored or not, in "} + unit + '.',
                                 {{"class", use}, {"found", what}});
    };
    to = {made("tokens", "hit"), made("tokens", "miss"), made("blocks", "hit"),
          made("blocks", "miss")};
  };
  fill(matches_->agent, "agent");
  fill(matches_->chat, "chat");
}

void process_metrics::make_hit_metrics() {
  // A hit of a few blocks on an idle machine takes tenths of a millisecond, a long one seconds.
  const auto fill = [this](way_metrics& to, const std::string& way, const char* took,
                           const char* moved) {
    to.seconds = &all_->make_histogram("deepinfer_cache_" + way + "_seconds", took,
                                       exponential_bounds({1e-4, 2, 18}));
    to.bytes = &all_->make_counter("deepinfer_cache_" + way + "_bytes_total", moved);
  };
  fill(hits_->fetch, "fetch", "To bring the blocks of a hit into the memory of this machine.",
       "Bytes of blocks that were brought.");
  fill(hits_->swap, "swap", "To verify the blocks of a hit and move them into its sequence.",
       "Bytes of blocks that were moved into sequences.");
  fill(hits_->rings, "ring_pull", "To pull the window rings of a hit.",
       "Bytes of window rings that were pulled.");
  fill(stored_->read, "store_read", "To read blocks of this store for another process.",
       "Bytes of blocks that were read for others.");
  fill(stored_->write, "store_write", "To pull, verify and store the blocks of one write.",
       "Bytes of blocks that were stored.");
}

void process_metrics::total(const std::string& name,
                            const std::string& help,
                            std::function<double()> read,
                            const metric_labels& labels) {
  watched_.push_back(all_->watch_counter(name, help, std::move(read), labels));
}

void process_metrics::gauge(const std::string& name,
                            const std::string& help,
                            std::function<double()> read,
                            const metric_labels& labels) {
  watched_.push_back(all_->watch_gauge(name, help, std::move(read), labels));
}

void process_metrics::watch(std::shared_ptr<const text::part_cache> reuse) {
  total("deepinfer_codec_reused_tokens_total", "Ids that were remembered from earlier prompts.",
        [reuse] { return static_cast<double>(reuse->counters().ids_found); });
  gauge("deepinfer_codec_remembered_bytes", "Prompt text and ids held to be used again.",
        [reuse] { return static_cast<double>(reuse->counters().bytes); });
}

void process_metrics::watch(const std::string& listener, const http_server& server) {
  const metric_labels where{{"listener", listener}};
  const http_server* s = &server;
  gauge(
      "deepinfer_http_connections", "Open connections.",
      [s] { return static_cast<double>(s->stats().open_connections); }, where);
  gauge(
      "deepinfer_http_open_answers", "Requests being answered.",
      [s] { return static_cast<double>(s->stats().open_answers); }, where);
  total(
      "deepinfer_http_requests_total", "Requests read.",
      [s] { return static_cast<double>(s->stats().requests); }, where);
  total(
      "deepinfer_http_rejected_total", "Requests refused by the listener itself.",
      [s] { return static_cast<double>(s->stats().rejected_requests); }, where);
  total(
      "deepinfer_http_clients_gone_total", "Clients that left before their answer was out.",
      [s] { return static_cast<double>(s->stats().clients_gone); }, where);
  for (size_t i = 0; i < 5; ++i)
    total("deepinfer_http_responses_total", "Responses by status class.",
          [s, i] { return static_cast<double>(s->stats().responses[i]); },
          {{"listener", listener}, {"class", std::to_string(i + 1) + "xx"}});
}

}  // namespace deepinfer
