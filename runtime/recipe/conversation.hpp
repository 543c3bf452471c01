#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The one internal form of a request: Chat Completions, Responses and Messages convert into it,
/// and only it is rendered.
namespace deepinfer::recipe {

/// Spelling of the token that stands for one image in a text.
inline constexpr std::string_view image_placeholder = "<｜image｜>";

enum class role : uint8_t { system, user, assistant, tool, latest_reminder };

enum class image_detail : uint8_t { low, high, original, automatic };

/// An image as the client named it: an http(s) URL or a data URL.
struct image_source {
  std::string url;
  image_detail detail = image_detail::high;
};

struct tool_call {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON text as the model or the client wrote it, perhaps not valid
};

/// `content` holds one `image_placeholder` for each entry of `images`, in order; converters refuse
/// client text that spells the placeholder.
struct message {
  role from = role::user;
  std::string content;
  std::vector<image_source> images;  ///< user and tool only
  std::string reasoning;             ///< assistant only
  std::vector<tool_call> calls;      ///< assistant only
  std::string call_id;               ///< tool only: which call it answers
};

struct tool_definition {
  std::string name;
  std::string description;
  std::string parameters = "{}";  ///< JSON Schema, already in prompt style
  bool strict = false;
};

enum class tool_choice : uint8_t { automatic, none, required };
enum class response_format : uint8_t { text, json };  ///< json: any value

/// The number that the prompt states for each word.
namespace effort {
inline constexpr uint8_t low = 50;
inline constexpr uint8_t high = 75;
inline constexpr uint8_t max = 100;
}  // namespace effort

struct conversation {
  std::vector<message> messages;
  bool thinking = true;
  uint8_t effort = effort::high;  ///< 1 to 100; without meaning when not thinking
  std::vector<tool_definition> tools;
  tool_choice choice = tool_choice::automatic;
  response_format format = response_format::text;
  /// The last message is an assistant's unfinished one, which the output continues.
  bool continues_last = false;

  [[nodiscard]] bool renders_tools() const { return !tools.empty() && choice != tool_choice::none; }
};

}  // namespace deepinfer::recipe
