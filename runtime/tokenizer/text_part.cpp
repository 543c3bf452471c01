#include "runtime/tokenizer/text_part.hpp"

#include <algorithm>

namespace deepinfer::text {
namespace {

class part_cutter {
public:
  part_cutter(const tokenizer& source,
              std::string_view text,
              std::span<const special_range> specials,
              size_t part_bytes)
      : source_(source), text_(text), specials_(specials), part_bytes_(part_bytes) {}

  std::vector<text_part> run() {
    size_t plain = 0;
    for (const special_range& range : specials_) {
      cut_plain(plain, range.begin);
      ++next_special_;
      if (range.end - begin_ >= part_bytes_) close(range.end);
      plain = range.end;
    }
    cut_plain(plain, text_.size());
    if (begin_ != text_.size()) close(text_.size());
    return std::move(parts_);
  }

private:
  /// Cuts a run by its own bytes, not by what is open before it: so a long message has the same
  /// parts wherever it stands, and so has what follows it.
  void cut_plain(size_t from, size_t to) {
    const std::string_view run = text_.substr(from, to - from);
    size_t at = 0;
    while (run.size() - at > part_bytes_) {
      const size_t cut = source_.next_cut(run, at + part_bytes_);
      if (cut >= run.size()) break;
      close(from + cut);
      at = cut;
    }
  }

  void close(size_t end) {
    parts_.push_back({text_.substr(begin_, end - begin_),
                      specials_.subspan(first_special_, next_special_ - first_special_), begin_});
    begin_ = end;
    first_special_ = next_special_;
  }

  const tokenizer& source_;
  std::string_view text_;
  std::span<const special_range> specials_;
  size_t part_bytes_;
  std::vector<text_part> parts_;
  size_t begin_ = 0;  // of the open part
  size_t first_special_ = 0, next_special_ = 0;
};

}  // namespace

std::vector<text_part> cut_parts(const tokenizer& source,
                                 std::string_view text,
                                 std::span<const special_range> specials,
                                 size_t part_bytes) {
  return part_cutter(source, text, specials, std::max<size_t>(part_bytes, 1)).run();
}

std::vector<special_range> own_specials(const text_part& part) {
  std::vector<special_range> own;
  own.reserve(part.specials.size());
  for (const special_range& range : part.specials)
    own.push_back({range.begin - part.offset, range.end - part.offset});
  return own;
}

}  // namespace deepinfer::text
