#include "actors/node/chat_call.hpp"

#include "actors/node/cluster_address.hpp"
#include "actors/node/commands.hpp"
#include "runtime/http/sse.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string_view>

namespace deepinfer::chat {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_within = 5s;
constexpr auto quiet_at_most = 60s;    // a living server sends a comment every few seconds
constexpr auto answer_within = 3600s;  // the whole answer
constexpr size_t max_error_bytes = 256 << 10;

std::string path_of(const http_url& base, recipe::api_protocol protocol) {
  constexpr std::string_view version = "/v1";
  std::string path = path_below(base, "");
  if (!path.ends_with(version)) path += version;
  return path.append(request_path(protocol));
}

http_headers headers_of(const request_options& request) {
  http_headers headers{{"content-type", "application/json"},
                       {"accept", request.is_streamed ? "text/event-stream" : "application/json"}};
  // Our own servers do without; others of this protocol insist.
  if (request.protocol == recipe::api_protocol::messages)
    headers.push_back({"anthropic-version", "2023-06-01"});
  return headers;
}

/// One answer on its way from the socket to standard output.
class reception {
public:
  explicit reception(const call_options& options)
      : options_(options), text_(options.style), answer_(options.request.protocol) {}

  /// A part of the body; false when there is no sense in reading on.
  bool take(const http_answer& head, std::string_view bytes) {
    has_begun_ = true;
    const bool is_stream =
        head.status == 200 && head.header("content-type").starts_with("text/event-stream");
    if (!is_stream) {
      is_whole_ = true;
      const size_t most = head.status == 200 ? answer::default_answer_bytes : max_error_bytes;
      if (whole_.size() + bytes.size() > most)
        return fail({error_code::too_large, "the server's answer is too long"});
      whole_ += bytes;
      return true;
    }
    const auto fed =
        events_.feed(bytes, [this](const sse_event& event) { take_event(event.data); });
    if (!fed && !trouble_) trouble_ = fed.error();
    return !trouble_;
  }

  /// After the last byte, or what came instead of it. Gives the reason why it was no answer.
  std::optional<failure> end(const result<http_answer>& head) {
    if (head && head->status != 200) {
      if (options_.prints_json) print_json(whole_);
      trouble_ = failure{error_code::internal, problem_of(head->status, whole_)};
    } else if (head && is_whole_ && !trouble_) {
      take_whole();
    }
    write(options_.prints_json ? "" : text_.end());
    if (trouble_) return trouble_;
    if (!head) {
      if (!has_begun_) return head.error();
      return failure{error_code::internal, "the answer was cut off: " + head.error().detail};
    }
    if (!answer_.is_complete())
      return failure{error_code::internal, "the answer was cut off: the stream ended too early"};
    return std::nullopt;
  }

  [[nodiscard]] bool has_begun() const { return has_begun_; }
  [[nodiscard]] const answer& received() const { return answer_; }

private:
  bool fail(failure why) {
    trouble_ = std::move(why);
    return false;
  }

  void take_event(std::string_view data) {
    if (trouble_) return;
    const auto part = answer_.take_event(data);
    if (options_.prints_json) print_json(data);
    if (!part) {
      trouble_ = part.error();
    } else if (!options_.prints_json) {
      write(text_.add(*part));
    }
  }

  void take_whole() {
    const auto part = answer_.take_whole(whole_);
    if (options_.prints_json) print_json(whole_);
    if (!part) {
      trouble_ = part.error();
    } else if (!options_.prints_json) {
      write(text_.add(*part));
    }
  }

  /// One line, as the server wrote it; only a terminal is protected.
  void print_json(std::string_view json) {
    if (json == "[DONE]") return;  // no JSON; the exit code says that it came
    std::string line = options_.style.is_terminal ? view::printable_json(json) : std::string{json};
    if (!line.ends_with('\n')) line += '\n';
    write(line);
  }

  /// A reader that has gone (a closed pipe, a full disk) ends the request: nobody needs the rest.
  void write(std::string_view text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    const bool is_out = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (!is_out && !trouble_)
      trouble_ = failure{error_code::internal, "cannot write the answer to standard output"};
  }

  const call_options& options_;
  output_text text_;
  answer answer_;
  sse_parser events_;
  std::string whole_;
  std::optional<failure> trouble_;
  bool is_whole_ = false;
  bool has_begun_ = false;
};

void on_signal(int signal) {
  constexpr std::string_view usual = "\x1b[0m\n";
  static_cast<void>(!::write(STDOUT_FILENO, usual.data(), usual.size()));
  ::raise(signal);  // the handler was for one time: now the default
}

}  // namespace

call_outcome run_call(const std::vector<http_url>& gateways,
                      const call_options& options,
                      const std::vector<turn>& talk) {
  const std::string body = request_body(options.request, talk);
  const http_headers headers = headers_of(options.request);
  failure why{error_code::unreachable, "no gateway to ask"};
  for (const http_url& gateway : gateways) {
    const auto quiet = options.request.is_streamed ? quiet_at_most : answer_within;
    http_client client{gateway.host, gateway.port, {connect_within, answer_within, quiet}};
    reception incoming{options};
    const auto head =
        client.stream({"POST", path_of(gateway, options.request.protocol), headers, body},
                      [&incoming](const http_answer& so_far, std::string_view bytes) {
                        return incoming.take(so_far, bytes);
                      });
    const auto trouble = incoming.end(head);
    const answer& received = incoming.received();
    if (!trouble) return {exit_done, received.content(), received.finish_reason()};
    why = *trouble;
    // Another gateway may help where nothing of an answer came; generating twice has no effects.
    const bool may_help = !incoming.has_begun() && why.code == error_code::unreachable;
    if (!may_help) break;
  }
  return {report("chat", why), {}, {}};
}

void restore_colours_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESETHAND;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace deepinfer::chat
