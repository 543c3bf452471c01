#include "runtime/recipe/render.hpp"

#include "runtime/recipe/control_tokens.hpp"
#include "runtime/recipe/json_value.hpp"
#include "runtime/recipe/prompt_text.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace deepinfer::recipe {
namespace {

/// Text under construction that remembers which bytes are control tokens.
class prompt_builder {
public:
  void plain(std::string_view text) { out_.text += text; }

  void special(std::string_view token) {
    out_.specials.push_back({out_.text.size(), out_.text.size() + token.size()});
    out_.text += token;
  }

  /// Our own fixed text: the given tokens in it are meant as such.
  void markup(std::string_view text, std::initializer_list<std::string_view> tokens) {
    while (!text.empty()) {
      size_t at = std::string_view::npos;
      std::string_view found;
      for (const std::string_view token : tokens)
        if (const size_t here = text.find(token); here < at) {
          at = here;
          found = token;
        }
      plain(text.substr(0, at));
      if (found.empty()) return;
      special(found);
      text.remove_prefix(at + found.size());
    }
  }

  void dsml(std::string_view text) { markup(text, {token::dsml}); }

  /// A message's text with the placeholders that the converter wrote for its images.
  void content(message& from) {
    if (from.images.empty()) return plain(from.content);
    markup(from.content, {image_placeholder});
    std::move(from.images.begin(), from.images.end(), std::back_inserter(out_.images));
  }

  rendered_prompt take() && { return std::move(out_); }

private:
  rendered_prompt out_;
};

void merge_users(std::vector<message>& messages) {
  std::vector<message> merged;
  merged.reserve(messages.size());
  for (message& next : messages) {
    if (merged.empty() || merged.back().from != role::user || next.from != role::user) {
      merged.push_back(std::move(next));
      continue;
    }
    merged.back().content.append("\n\n").append(next.content);
    std::move(next.images.begin(), next.images.end(), std::back_inserter(merged.back().images));
  }
  messages = std::move(merged);
}

/// Puts the results in [begin, end), a run of user and tool messages, into the order of the calls
/// they answer; unknown ids count as the first call's. User messages keep their places.
void sort_results(std::vector<message>::iterator begin,
                  std::vector<message>::iterator end,
                  const std::vector<tool_call>& calls) {
  std::vector<std::vector<message>::iterator> slots;
  for (auto at = begin; at != end; ++at)
    if (at->from == role::tool) slots.push_back(at);
  if (slots.size() < 2) return;
  std::map<std::string_view, size_t> order;
  for (size_t i = 0; i < calls.size(); ++i) order.emplace(calls[i].id, i);
  std::vector<std::pair<size_t, message>> results;
  for (const auto slot : slots) {
    const auto found = order.find(slot->call_id);
    const size_t position = found == order.end() ? 0 : found->second;
    results.emplace_back(position, std::move(*slot));
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < slots.size(); ++i) *slots[i] = std::move(results[i].second);
}

void sort_all_results(std::vector<message>& messages) {
  const std::vector<tool_call> no_calls;
  const std::vector<tool_call>* calls = &no_calls;
  for (auto at = messages.begin(); at != messages.end();) {
    if (at->from == role::assistant && !at->calls.empty()) calls = &at->calls;
    const auto end = std::find_if(at, messages.end(), [](const message& m) {
      return m.from != role::user && m.from != role::tool;
    });
    if (end != at) sort_results(at, end, *calls);
    at = end == at ? std::next(at) : end;
  }
}

/// One schema a line, as the tool prompt lists them.
std::string schema_lines(const std::vector<tool_definition>& tools) {
  std::string lines;
  for (const tool_definition& tool : tools) {
    if (!lines.empty()) lines += '\n';
    lines += "{\"name\": ";
    append_json_string(lines, tool.name);
    lines += ", \"description\": ";
    append_json_string(lines, tool.description);
    lines += ", \"parameters\": " + tool.parameters + '}';
  }
  return lines;
}

class renderer {
public:
  renderer(conversation talk, const render_options& options)
      : talk_(std::move(talk)), options_(options) {}

  rendered_prompt run() && {
    normalise();
    out_.special(token::bos);
    const bool starts_with_system =
        !talk_.messages.empty() && talk_.messages[0].from == role::system;
    if (talk_.thinking || starts_with_system) out_.special(token::system);
    if (talk_.thinking) {
      out_.plain(prompt_text::before_effort);
      out_.plain(std::to_string(talk_.effort));
      out_.plain(prompt_text::after_effort);
    }
    for (size_t i = 0; i < finished_; ++i) write(i);
    write_generation_header();
    return std::move(out_).take();
  }

private:
  void normalise() {
    auto& messages = talk_.messages;
    merge_users(messages);
    sort_all_results(messages);
    const bool json = talk_.format == response_format::json;
    if ((talk_.renders_tools() || json) && (messages.empty() || messages[0].from != role::system)) {
      messages.insert(messages.begin(), message{.from = role::system});
    }
    finished_ = messages.size() - (talk_.continues_last && !messages.empty() ? 1 : 0);
    if (options_.history == history_reasoning::drop_before_last_user && !talk_.renders_tools())
      for (size_t i = messages.size(); i-- > 1;)
        if (messages[i].from == role::user || messages[i].from == role::system) {
          silent_before_ = i;
          break;
        }
  }

  void write(size_t i) {
    message& now = talk_.messages[i];
    switch (now.from) {
      case role::system:
        return write_system(i);
      case role::user:
        write_user_prefix(i);
        return out_.content(now);
      case role::tool:
        write_user_prefix(i);
        out_.plain("<tool_result>");
        out_.content(now);
        return out_.plain("</tool_result>");
      case role::latest_reminder:
        out_.special(token::latest_reminder);
        return out_.plain(now.content);
      case role::assistant:
        return write_assistant(i);
    }
  }

  void write_system(size_t i) {
    if (i > 0) out_.special(token::system);
    out_.plain(talk_.messages[i].content);
    if (i > 0) return;
    if (talk_.renders_tools()) {
      // The mentions of <think> here are tokens in all recorded prompts.
      const auto tokens = {token::dsml, token::think, token::end_think};
      out_.plain("\n\n");
      out_.markup(prompt_text::before_schemas, tokens);
      out_.plain(schema_lines(talk_.tools));
      out_.plain(prompt_text::after_schemas);
    }
    if (talk_.format == response_format::json) out_.plain(prompt_text::json_object_format);
  }

  void write_user_prefix(size_t i) {
    const bool continues = i > 0 && (talk_.messages[i - 1].from == role::user ||
                                     talk_.messages[i - 1].from == role::tool);
    if (continues) {
      out_.plain("\n\n");
    } else {
      out_.special(token::user);
    }
  }

  void write_assistant(size_t i) {
    const message& now = talk_.messages[i];
    out_.special(token::assistant);
    if (talk_.thinking && i > 0 && i >= silent_before_) {
      out_.special(token::think);
      out_.plain(now.reasoning);
    }
    out_.special(token::end_think);
    out_.plain(now.content);
    if (!now.calls.empty()) write_calls(now.calls);
    out_.special(token::eos);
  }

  void write_calls(const std::vector<tool_call>& calls) {
    out_.dsml("\n\n<｜DSML｜ calls>\n");
    bool first = true;
    for (const tool_call& call : calls) {
      if (!std::exchange(first, false)) out_.plain("\n");
      out_.dsml("<｜DSML｜ invoke name=\"");
      out_.plain(call.name);
      out_.plain("\">\n");
      write_arguments(call.arguments);
      out_.dsml("\n</｜DSML｜ invoke>");
    }
    out_.dsml("\n</｜DSML｜ calls>");
  }

  void write_arguments(const std::string& arguments) {
    const auto parsed = parse_json(arguments);
    const json_object* members = parsed ? parsed->as<json_object>() : nullptr;
    if (members == nullptr) return write_parameter("arguments", "true", arguments);
    bool first = true;
    for (const member_view& member : distinct_members(*members)) {
      if (!std::exchange(first, false)) out_.plain("\n");
      if (const auto* text = member.value->as<std::string>()) {
        write_parameter(member.key, "true", *text);
      } else {
        std::string value;
        append_spaced_json(value, *member.value);
        write_parameter(member.key, "false", value);
      }
    }
  }

  void write_parameter(std::string_view key, std::string_view is_string, std::string_view value) {
    out_.dsml("<｜DSML｜ parameter name=\"");
    out_.plain(key);
    out_.plain("\" string=\"");
    out_.plain(is_string);
    out_.plain("\">");
    out_.plain(value);
    out_.dsml("</｜DSML｜ parameter>");
  }

  void write_generation_header() {
    out_.special(token::assistant);
    out_.special(talk_.thinking ? token::think : token::end_think);
    if (talk_.continues_last && !talk_.messages.empty()) {
      const message& prefix = talk_.messages.back();
      if (talk_.thinking) {
        out_.plain(prefix.reasoning);
        if (!prefix.content.empty()) out_.special(token::end_think);
      }
      out_.plain(prefix.content);
    } else if (talk_.choice == tool_choice::required && talk_.renders_tools()) {
      out_.dsml("\n\n<｜DSML｜ calls>\n");
    }
  }

  conversation talk_;
  const render_options& options_;
  prompt_builder out_;
  size_t finished_ = 0;       // messages that are complete turns
  size_t silent_before_ = 0;  // assistant turns before this one show no reasoning
};

}  // namespace

rendered_prompt render(conversation talk, const render_options& options) {
  return renderer(std::move(talk), options).run();
}

rendered_prompt render_raw(const raw_prompt& raw) {
  prompt_builder prompt;
  prompt.special(token::bos);
  if (raw.suffix) {
    prompt.special(token::fim_begin);
    prompt.plain(raw.text);
    prompt.special(token::fim_hole);
    prompt.plain(*raw.suffix);
    prompt.special(token::fim_end);
  } else {
    prompt.plain(raw.text);
  }
  return std::move(prompt).take();
}

}  // namespace deepinfer::recipe
