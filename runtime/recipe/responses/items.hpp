#pragma once

#include "runtime/recipe/answer_format.hpp"
#include "runtime/recipe/custom_input_decoder.hpp"
#include "runtime/recipe/json_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// The objects that the events and the body of a response are made of. The order of their members
/// is protocol data.
namespace deepinfer::recipe::responses {

/// One entry of a response's `output`.
struct output_item {
  enum class kind : uint8_t { reasoning, message, function_call, custom_call };
  enum class state : uint8_t { in_progress, completed, incomplete };

  kind what = kind::message;
  state status = state::in_progress;
  size_t index = 0;  ///< in `output`
  std::string id;
  bool is_commentary = false;  ///< message: a call follows it
  std::string call_id;         ///< calls
  std::string name_space;      ///< calls: may be empty
  std::string name;            ///< calls
  std::string text;            ///< reasoning, text, arguments, or input
  custom_input_decoder input;  ///< custom call: turns arguments into `text`

  [[nodiscard]] bool is_call() const {
    return what == kind::function_call || what == kind::custom_call;
  }
};

[[nodiscard]] output_item make_item(output_item::kind what,
                                    size_t index,
                                    std::string_view response);
/// `called` is the name as the model wrote it: `namespace::name`, or a name alone. `call` counts
/// the calls of a response.
[[nodiscard]] output_item make_call(output_item::kind what,
                                    size_t index,
                                    std::string_view response,
                                    std::string_view called,
                                    std::string_view call);

/// The members of an item; a new one (`in_progress`) has no content parts yet.
void write_item(json_writer& json, const output_item& item);
/// The members of the content part of reasoning or of a message.
void write_part(json_writer& json, const output_item& item);
/// The member `usage`.
void write_usage(json_writer& json, const token_usage& usage);

}  // namespace deepinfer::recipe::responses
