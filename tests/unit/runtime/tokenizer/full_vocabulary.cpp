/// A whole tokenizer.json of the family against recorded ids. DEEPINFER_TOKENIZER names the file;
/// without it this is skipped (the reduced vocabulary covers the same texts in every run).
/// DEEPINFER_TOKENIZER_VECTORS may name a further file of lines with `text` and `ids`, in whose
/// texts spelled added tokens count as such.

#include "runtime/recipe/json_value.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;

namespace {

constexpr int skipped = 77;

struct prompt {
  std::string text;
  std::vector<text::special_range> specials;
  std::vector<int32_t> ids;
  bool known = true;  // every token of `pieces` is one of this file
};

enum class spelled_tokens { plain, meant };

prompt read_line(const text::tokenizer& source, const std::string& line, spelled_tokens tokens) {
  prompt made;
  const auto parsed = recipe::parse_json(line);
  if (!parsed) return made;
  for (const auto& member : *parsed->as<recipe::json_object>()) {
    if (member.key == "text") made.text = *member.value.as<std::string>();
    if (member.key == "ids")
      for (const auto& id : *member.value.as<recipe::json_array>())
        made.ids.push_back(static_cast<int32_t>(*id.as<int64_t>()));
    if (member.key != "pieces") continue;
    bool plain = true;
    for (const auto& piece : *member.value.as<recipe::json_array>()) {
      const size_t begin = made.text.size();
      made.text += *piece.as<std::string>();
      if (!plain) {
        made.specials.push_back({begin, made.text.size()});
        made.known = made.known && source.special_id(*piece.as<std::string>()).has_value();
      }
      plain = !plain;
    }
  }
  if (tokens == spelled_tokens::meant) made.specials = source.find_specials(made.text);
  return made;
}

struct tally {
  size_t checked = 0, unknown = 0, wrong = 0;
};

/// False when the file cannot be read.
bool check_file(const text::tokenizer& source,
                const std::string& path,
                spelled_tokens tokens,
                tally& out) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const prompt p = read_line(source, line, tokens);
    if (!p.known) {
      ++out.unknown;
      continue;
    }
    ++out.checked;
    const auto ids = source.encode(p.text, p.specials);
    if (ids && *ids == p.ids && source.decode(*ids, text::decode_mode::keep_special) == p.text)
      continue;
    if (++out.wrong <= 10) std::fprintf(stderr, "wrong ids: %.300s\n", line.c_str());
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  const char* file = std::getenv("DEEPINFER_TOKENIZER");
  if (file == nullptr || *file == '\0') {
    std::puts("skipped: DEEPINFER_TOKENIZER names no tokenizer.json");
    return skipped;
  }
  const auto source = text::load_tokenizer(file);
  if (!source) {
    std::fprintf(stderr, "%s\n", source.error().detail.c_str());
    return 1;
  }
  tally found;
  bool read = true;
  for (int i = 1; i < count; ++i)
    read = check_file(**source, arguments[i], spelled_tokens::plain, found) && read;
  if (const char* more = std::getenv("DEEPINFER_TOKENIZER_VECTORS"); more != nullptr)
    read = check_file(**source, more, spelled_tokens::meant, found) && read;
  std::printf("%zu texts checked, %zu wrong, %zu with tokens that this file lacks\n", found.checked,
              found.wrong, found.unknown);
  return read && found.wrong == 0 && found.checked > 0 ? 0 : 1;
}
