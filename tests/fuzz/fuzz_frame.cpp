// What a peer may send: a frame, and a message of any type inside it. The first byte chooses: odd
// inputs are opened as they are; even ones are sealed first, so that the search is not stopped by
// the checksum and reaches the message decoder behind it.
#include "proto/codec/frame.hpp"
#include "proto/codec/logprobs.hpp"
#include "proto/codec/msg.hpp"
#include "proto/codec/registry.hpp"
#include "proto/types/check.hpp"
#include "proto/types/limits.hpp"
#include "tests/fuzz/fuzz_target.hpp"

#include <algorithm>
#include <cstring>
#include <string>

using namespace deepinfer;
using namespace deepinfer::wire;

namespace {

constexpr size_t described_bytes = 403;  // `describe` cuts there and adds "..."

// What is believed of log probabilities has the shape asked for, and survives another journey.
void check_logprobs(TokenLogprobs::Reader in, size_t tokens) {
  for (const uint32_t asked : {0u, 1u, 3u, 1 + limits::max_alternatives}) {
    const auto rows = read_logprobs(in, {tokens, asked});
    if (!rows) {
      DEEPINFER_CHECK(rows.error().code == error_code::corrupt);
      continue;
    }
    DEEPINFER_CHECK(rows->size() == (asked == 0 ? 0 : tokens));
    for (const token_logprobs& row : *rows) {
      DEEPINFER_CHECK(row.chosen <= 0 && row.best.size() < asked);
      for (const scored_token& one : row.best) DEEPINFER_CHECK(one.id >= 0 && one.logprob <= 0);
    }
    if (asked == 0) continue;
    draft<TokenLogprobs> again;
    write_logprobs(*again, *rows, asked);
    DEEPINFER_CHECK(*read_logprobs(*again, {tokens, asked}) == *rows);
  }
}

void look_inside(Tokens::Reader in) {
  check_logprobs(in.getLogprobs(), in.getIds().size() / 4);
}
void look_inside(SequenceReady::Reader in) {
  check_logprobs(in.getLogprobs(), 1);
}
template <class Reader>
void look_inside(const Reader&) {}

template <class T>
void open_message(std::span<const std::byte> body) {
  const auto opened = msg<T>::open(body);
  if (!opened) {
    DEEPINFER_CHECK(opened.error().code == error_code::corrupt ||
                    opened.error().code == error_code::too_large);
    return;
  }
  DEEPINFER_CHECK(std::ranges::equal(opened->bytes(), body));
  look_inside(opened->get());
  // Prints every field: what was opened must be readable without an exception, any number of times.
  const std::string first = to_string(*opened);
  DEEPINFER_CHECK(first.size() <= described_bytes);
  DEEPINFER_CHECK(first == to_string(*opened));
}

template <class... Types>
void open_any(type_list<Types...>, uint64_t type, std::span<const std::byte> body) {
  static_cast<void>(((type == type_id<Types>() && (open_message<Types>(body), true)) || ...));
}

// The number of the type in the list instead of its id: a search would never guess 64 bits.
template <class... Types>
uint64_t nth_type(type_list<Types...>, uint64_t n) {
  constexpr uint64_t ids[] = {type_id<Types>()...};
  return ids[n % std::size(ids)];
}

template <class... Types>
uint8_t place_of(type_list<Types...>, uint64_t type) {
  constexpr uint64_t ids[] = {type_id<Types>()...};
  return static_cast<uint8_t>(std::ranges::find(ids, type) - std::begin(ids));
}

template <class T>
fuzz::bytes seed(bool as_is, draft<T>& content) {
  const auto message = content.freeze();
  fuzz::bytes input(1 + sizeof(frame_header) + message.bytes().size());
  input[0] = as_is ? 1 : static_cast<uint8_t>(2 * place_of(crossing_types{}, type_id<T>()));
  frame_header header;
  header.epoch = 3;
  header.sequence = 1;
  header.type_id = type_id<T>();
  seal(header, message.bytes());
  std::memcpy(input.data() + 1, &header, sizeof header);
  std::memcpy(input.data() + 1 + sizeof header, message.bytes().data(), message.bytes().size());
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 + sizeof(frame_header)) {
    const auto all = std::as_bytes(std::span{data, size});
    DEEPINFER_CHECK(size == sizeof(frame_header) || !open_frame(all));
    return 0;
  }
  const bool as_is = (data[0] & 1) != 0;
  std::vector<std::byte> frame(size - 1);
  std::memcpy(frame.data(), data + 1, frame.size());
  const auto body = std::span{frame}.subspan(sizeof(frame_header));
  if (!as_is) {
    frame_header header;
    std::memcpy(&header, frame.data(), sizeof header);
    header.magic = frame_header::magic_value;
    header.version = frame_header::version_value;
    header.kind = frame_kind::message;
    header.type_id = nth_type(crossing_types{}, data[0] / 2);
    seal(header, body);
    std::memcpy(frame.data(), &header, sizeof header);
  }
  const auto header = open_frame(frame);
  DEEPINFER_CHECK(as_is || header);
  if (!header) return 0;
  DEEPINFER_CHECK(header->body_bytes == body.size());
  open_any(crossing_types{}, header->type_id, body);
  return 0;
}

std::vector<fuzz::bytes> fuzz::seeds() {
  draft<PrefillSubmit> submit;
  submit->initKey().setLeg(3);
  submit->setModel("tiny");
  const uint8_t tokens[16] = {1, 0, 0, 0, 2, 0, 0, 0};
  submit->setTokens(kj::arrayPtr(tokens, sizeof tokens));
  submit->initSampling().setTopP(0.5f);
  draft<Gossip> gossip;
  gossip->initRecords(3);
  draft<LocalTopology> topology;
  draft<Ping> ping;
  ping->setNumber(7);
  const token_logprobs row{-0.5f, {{7, -0.5f}, {2, -1.5f}}};
  draft<Tokens> outputs;
  outputs->setIds(kj::arrayPtr(tokens, 8));
  write_logprobs(outputs->initLogprobs(), std::vector{row, row}, 3);
  draft<SequenceReady> ready;
  write_logprobs(ready->initLogprobs(), {&row, 1}, 3);
  std::vector<bytes> all;
  all.push_back(seed(true, ping));
  all.push_back(seed(false, submit));
  all.push_back(seed(false, gossip));
  all.push_back(seed(false, topology));
  all.push_back(seed(false, outputs));
  all.push_back(seed(false, ready));
  return all;
}
