#include "runtime/tokenizer/splitter.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace deepinfer::text {
namespace {

template <auto Free>
struct deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using code_ptr = std::unique_ptr<pcre2_code, deleter<pcre2_code_free>>;
using match_ptr = std::unique_ptr<pcre2_match_data, deleter<pcre2_match_data_free>>;
using context_ptr = std::unique_ptr<pcre2_match_context, deleter<pcre2_match_context_free>>;
using stack_ptr = std::unique_ptr<pcre2_jit_stack, deleter<pcre2_jit_stack_free>>;

constexpr size_t jit_stack_start = 32 * 1024;
constexpr size_t jit_stack_limit = 8u << 20;  ///< expressions that need more fail, by name
constexpr uint32_t match_limit = 10'000'000;  ///< backtracking steps of one match

std::string describe(int number) {
  PCRE2_UCHAR8 text[160] = {};
  pcre2_get_error_message(number, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

class regex_splitter final : public splitter {
public:
  explicit regex_splitter(std::vector<code_ptr> steps) : steps_(std::move(steps)) {}

  result<void> split(std::string_view text, std::vector<uint32_t>& ends) const override {
    if (text.empty()) return {};
    // PCRE2's mutable parts are made per call, so that calls may run side by side.
    const context_ptr context(pcre2_match_context_create(nullptr));
    const stack_ptr stack(pcre2_jit_stack_create(jit_stack_start, jit_stack_limit, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    pcre2_set_match_limit(context.get(), match_limit);
    std::vector<uint32_t> pieces{static_cast<uint32_t>(text.size())};
    for (const code_ptr& step : steps_) {
      const match_ptr match(pcre2_match_data_create_from_pattern(step.get(), nullptr));
      const scratch use{*context, *match};
      std::vector<uint32_t> finer;
      uint32_t begin = 0;
      for (const uint32_t end : pieces) {
        auto done = cut(*step, use, text.substr(begin, end - begin), begin, finer);
        if (!done) return done;
        begin = end;
      }
      pieces = std::move(finer);
    }
    ends.insert(ends.end(), pieces.begin(), pieces.end());
    return {};
  }

  size_t next_cut(std::string_view text, size_t /*from*/) const override { return text.size(); }

private:
  struct scratch {
    pcre2_match_context& context;
    pcre2_match_data& match;
  };

  static result<void> cut(const pcre2_code& code,
                          const scratch& use,
                          std::string_view piece,
                          uint32_t offset,
                          std::vector<uint32_t>& ends) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    size_t done = 0;
    size_t from = 0;
    while (from < piece.size()) {
      const int rc = pcre2_match(&code, subject, piece.size(), from, PCRE2_NO_UTF_CHECK, &use.match,
                                 &use.context);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0)
        return failure{error_code::too_large,
                       "the tokenizer's expression gave up on this text: " + describe(rc)};
      const size_t* found = pcre2_get_ovector_pointer(&use.match);
      if (found[0] == found[1]) {  // an empty match cuts nothing; go on behind the next character
        from = found[1] + 1;
        while (from < piece.size() && (static_cast<uint8_t>(piece[from]) & 0xC0) == 0x80) ++from;
        continue;
      }
      if (found[0] != done) ends.push_back(offset + static_cast<uint32_t>(found[0]));
      ends.push_back(offset + static_cast<uint32_t>(found[1]));
      done = from = found[1];
    }
    if (done != piece.size()) ends.push_back(offset + static_cast<uint32_t>(piece.size()));
    return {};
  }

  std::vector<code_ptr> steps_;
};

}  // namespace

result<std::unique_ptr<splitter>> make_regex_splitter(const std::vector<std::string>& expressions) {
  std::vector<code_ptr> steps;
  for (const std::string& expression : expressions) {
    int number = 0;
    size_t offset = 0;
    code_ptr code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                PCRE2_UTF | PCRE2_UCP, &number, &offset, nullptr));
    if (!code)
      return failure{error_code::invalid_argument,
                     "tokenizer.json: the split expression '" + expression + "' is wrong at byte " +
                         std::to_string(offset) + ": " + describe(number)};
    // Without JIT (not every platform has it) matching is slower and otherwise the same.
    static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
    steps.push_back(std::move(code));
  }
  return std::unique_ptr<splitter>(std::make_unique<regex_splitter>(std::move(steps)));
}

}  // namespace deepinfer::text
