#pragma once

#include "runtime/recipe/answer_format.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::recipe::messages {

enum class block_kind : uint8_t { thinking, text, tool_use };

/// The rules by which an answer becomes content blocks, once for both formats: which block is open,
/// when one closes and the next begins. What is written at each step is the format's.
class block_format : public answer_format {
public:
  explicit block_format(answer_traits traits) : thinking_(traits.thinking) {}

  void begin(std::string& out, const token_usage& prompt) final;
  void chunk(std::string& out, const choice_chunk& piece) final;
  void end(std::string& out, const choice_end& how) final;

protected:
  struct block {
    block_kind what = block_kind::text;
    uint32_t index = 0;     ///< among all blocks
    uint32_t call = 0;      ///< among the calls
    std::string_view name;  ///< of the tool; only when it starts
  };

  virtual void start_message(std::string& out, const token_usage& prompt) = 0;
  virtual void start_block(std::string& out, const block& which) = 0;
  virtual void extend_block(std::string& out, const block& which, std::string_view text) = 0;
  virtual void stop_block(std::string& out, const block& which) = 0;
  virtual void stop_message(std::string& out, const choice_end& how) = 0;

private:
  void open(std::string& out, block_kind what, std::string_view name);
  void close(std::string& out);

  bool thinking_;
  bool is_open_ = false;
  block current_;        // the last one that was opened
  uint32_t opened_ = 0;  // blocks
  uint32_t called_ = 0;  // of them, calls
};

}  // namespace deepinfer::recipe::messages
