#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/field_reader.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

/// The pieces that `responses::parse` is put together from.
namespace deepinfer::recipe::responses {

/// The model knows one flat list of tools: member `current` of the namespace `weather` is
/// `weather::current` to it. A name that is taken gets `_1`, `_2`, ... at its end.
class flat_names {
public:
  /// Takes a name that stands for itself; false when it is taken.
  bool take(std::string_view name) { return taken_.emplace(name).second; }

  /// The name of a member, always the same one for the same pair.
  [[nodiscard]] const std::string& of(std::string_view space, std::string_view member);

private:
  std::set<std::string> taken_;
  std::map<std::string, uint64_t> suffixes_;  // last one tried, so that none is twice
  std::map<std::pair<std::string, std::string>, std::string> members_;
};

/// `tools`: fills the conversation's list and the names of custom tools.
void read_tools(field_reader& body,
                client_request& request,
                const conversion_options& options,
                flat_names& names,
                first_error& error);

/// `tool_choice`. Needs `talk.thinking` and the tools.
void read_tool_choice(field_reader& body,
                      conversation& talk,
                      const conversion_options& options,
                      first_error& error);

/// Complains when a string of `instructions` or `input` spells the placeholder of an image. No
/// other code need look for it there.
void refuse_placeholders(field_reader& body);

/// `instructions` and `input` -> conversation messages.
void read_input(field_reader& body, conversation& talk, flat_names& names, first_error& error);

}  // namespace deepinfer::recipe::responses
