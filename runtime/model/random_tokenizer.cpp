#include "runtime/model/random_tokenizer.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer::model {
namespace {

constexpr std::string_view first_tokens[] = {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
                                             "<｜▁pad▁｜>"};
// The rest of the 32 are place holders.
constexpr std::string_view last_tokens[] = {
    "<｜System｜>",          "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>",   "<｜User｜>",
    "<｜Assistant｜>",       "<|EOT|>",        "<think>",         "</think>",        "｜DSML｜",
    "<｜latest_reminder｜>", "<｜action｜>",   "<｜query｜>",     "<｜authority｜>", "<｜domain｜>",
    "<｜title｜>",           "<｜read_url｜>", "<｜image｜>"};
constexpr uint32_t last_count = 32;
constexpr uint32_t byte_count = 256;
constexpr uint32_t least_vocabulary = std::size(first_tokens) + byte_count + last_count;

struct piece_list {
  std::vector<std::string> pieces;
  std::vector<std::pair<std::string, std::string>> merges;

  void merge(std::string left, std::string right) {
    pieces.push_back(left + right);
    merges.emplace_back(std::move(left), std::move(right));
  }
};

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Byte-level BPE files spell printable Latin-1 as itself and the other bytes as U+0100 and up.
std::vector<std::string> byte_pieces() {
  std::vector<std::string> out(byte_count);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < byte_count; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    append_utf8(out[byte], printable ? byte : next++);
  }
  return out;
}

// Bytes first, then pairs of letters (the first may be a space), then those with one more letter.
piece_list make_pieces(size_t count) {
  piece_list out;
  out.pieces = byte_pieces();
  const std::vector<std::string> bytes = out.pieces;
  const auto letter = [&bytes](uint32_t i) { return bytes['a' + i]; };
  for (uint32_t a = 0; a <= 26; ++a)
    for (uint32_t b = 0; b < 26 && out.pieces.size() < count; ++b)
      out.merge(a == 26 ? bytes[' '] : letter(a), letter(b));
  for (size_t left = byte_count; out.pieces.size() < count; ++left)
    for (uint32_t b = 0; b < 26 && out.pieces.size() < count; ++b)
      out.merge(std::string(out.pieces[left]), letter(b));
  return out;
}

class tokenizer_text {
public:
  std::string write(const piece_list& list, uint32_t vocabulary) {
    json_.StartObject();
    put("version", "1.0");
    put_control_tokens(vocabulary);
    key("normalizer");
    json_.Null();
    put_steps();
    put_model(list);
    json_.EndObject();
    return {text_.GetString(), text_.GetSize()};
  }

private:
  void key(std::string_view name) {
    json_.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()));
  }
  void text(std::string_view value) {
    json_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  void put(std::string_view name, std::string_view value) { key(name), text(value); }
  void flag(std::string_view name, bool value) { key(name), json_.Bool(value); }

  void put_control_token(uint32_t id, std::string_view content) {
    json_.StartObject();
    key("id");
    json_.Uint(id);
    put("content", content);
    for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) flag(name, false);
    flag("special", true);
    json_.EndObject();
  }
  void put_control_tokens(uint32_t vocabulary) {
    key("added_tokens");
    json_.StartArray();
    uint32_t id = 0;
    for (const std::string_view content : first_tokens) put_control_token(id++, content);
    id = vocabulary - last_count;
    for (const std::string_view content : last_tokens) put_control_token(id++, content);
    for (uint32_t number = 0; id < vocabulary; ++number)
      put_control_token(id++, "<｜place▁holder▁no▁" + std::to_string(number) + "｜>");
    json_.EndArray();
  }
  void put_steps() {
    key("pre_tokenizer");
    json_.StartObject();
    put("type", "Sequence");
    key("pretokenizers");
    json_.StartArray();
    json_.StartObject();
    put("type", "Split");
    key("pattern");
    json_.StartObject();
    put("Regex", " ?[^\\s]+|\\s+");
    json_.EndObject();
    put("behavior", "Isolated");
    flag("invert", false);
    json_.EndObject();
    put_byte_level();
    json_.EndArray();
    json_.EndObject();
    key("decoder");
    put_byte_level();
  }
  void put_byte_level() {
    json_.StartObject();
    put("type", "ByteLevel");
    for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) flag(name, false);
    json_.EndObject();
  }
  void put_model(const piece_list& list) {
    key("model");
    json_.StartObject();
    put("type", "BPE");
    key("vocab");
    json_.StartObject();
    uint32_t id = std::size(first_tokens);
    for (const std::string& piece : list.pieces) {
      key(piece);
      json_.Uint(id++);
    }
    json_.EndObject();
    key("merges");
    json_.StartArray();
    for (const auto& [left, right] : list.merges) text(left + " " + right);
    json_.EndArray();
    json_.EndObject();
  }

  rapidjson::StringBuffer text_;
  rapidjson::Writer<rapidjson::StringBuffer> json_{text_};
};

}  // namespace

std::string random_tokenizer_text(uint32_t vocabulary) {
  // Three letters and what is before them: more would need pieces of four.
  constexpr uint32_t most_pieces = byte_count + 27 * 26 + 27 * 26 * 26;
  if (vocabulary < least_vocabulary) return {};
  const uint32_t room = vocabulary - std::size(first_tokens) - last_count;
  if (room > most_pieces) return {};
  return tokenizer_text().write(make_pieces(room), vocabulary);
}

}  // namespace deepinfer::model
