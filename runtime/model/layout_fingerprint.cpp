#include "runtime/model/layout_fingerprint.hpp"

#include "runtime/base/digest.hpp"
#include "runtime/model/v41_sequence.hpp"

#include <string>

namespace deepinfer::model {

uint64_t layout_fingerprint(const checkpoint& files,
                            std::string_view engram_meta,
                            numeric_level level) {
  constexpr size_t sample = 4096;
  const bool whole = files.tensor_bytes() <= whole_content_bytes;
  std::string text = "deepinfer sequence state " + std::to_string(state_version) + " level " +
                     std::to_string(static_cast<int>(level)) + "\n";
  text += to_hex(digest_of(files.config_text())) + to_hex(digest_of(engram_meta)) + "\n";
  for (const tensor_view& t : files.tensors()) {
    text += t.name + " " + to_string(t) + " ";
    if (whole || t.bytes.size() <= 2 * sample) {
      text += to_hex(digest_of(t.bytes));
    } else {
      text += to_hex(digest_of(t.bytes.first(sample))) + to_hex(digest_of(t.bytes.last(sample)));
    }
    text += "\n";
  }
  return digest_of(text).lo;
}

}  // namespace deepinfer::model
