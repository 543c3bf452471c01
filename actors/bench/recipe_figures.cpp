#include "actors/bench/recipe_figures.hpp"

#include "actors/bench/machine_limits.hpp"
#include "actors/bench/recipe_sample.hpp"
#include "actors/edge/encode_pool.hpp"
#include "proto/types/check.hpp"
#include "runtime/recipe/answer_stream.hpp"
#include "runtime/recipe/prepare.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace deepinfer::bench {
namespace {

using recipe::api_protocol;

/// Rounds of one piece of work, in seconds.
struct timed {
  std::vector<double> rounds;

  template <class Work>
  void add(uint32_t clock_threads, Work&& work) {
    const double begin = bench_seconds(clock_threads);
    work();
    rounds.push_back(bench_seconds(clock_threads) - begin);
  }
  /// Every round as `amount` a second, or as seconds times `amount`.
  [[nodiscard]] std::vector<double> rate(double amount) const {
    std::vector<double> out;
    for (const double s : rounds) out.push_back(amount / s);
    return out;
  }
  [[nodiscard]] std::vector<double> times(double amount) const {
    std::vector<double> out;
    for (const double s : rounds) out.push_back(s * amount);
    return out;
  }
};

/// What one prompt costs, by part.
struct turn_times {
  timed parse, convert, render, encode, whole;
  double known_share = 0;  // of the prompt's bytes, to the encoder
};

class recipe_bench {
public:
  explicit recipe_bench(const recipe_plan& plan) : plan_(plan) {}

  result<void> open() {
    auto loaded = text::load_tokenizer(plan_.tokenizer);
    if (!loaded) return loaded.error();
    tokenizer_ = *std::move(loaded);
    if (auto fits = recipe::check_tokenizer(*tokenizer_); !fits) return fits;
    model_ = {"bench", {}, 1u << 20};
    if (auto read = read_text(); !read) return read;
    auto pool = encode_pool::make(1);
    if (!pool) return pool.error();
    pool_ = *std::move(pool);
    if (auto made = make_conversation(); !made) return made;
    return make_outputs();
  }

  result<void> run() {
    for (size_t round = 0; round < plan_.rounds; ++round) {
      measure_encode();
      if (auto done = measure_turns(); !done) return done;
      measure_outputs();
    }
    return {};
  }

  [[nodiscard]] std::vector<figure> figures() const {
    std::vector<figure> out;
    add_encode(out);
    add_turns(out);
    add_outputs(out);
    return out;
  }

private:
  result<void> read_text() {
    if (plan_.text.empty()) {
      text_ = sample_writer(7).mixed(plan_.text_bytes);
      return {};
    }
    std::ifstream in(plan_.text, std::ios::binary);
    if (!in) return failure{error_code::not_found, "cannot read " + plan_.text.string()};
    text_.assign(std::istreambuf_iterator<char>(in), {});
    if (auto fine = tokenizer_->check(text_, {}); !fine)
      return failure{fine.error().code, plan_.text.string() + ": " + fine.error().detail};
    if (text_.empty())
      return failure{error_code::invalid_argument, plan_.text.string() + " is empty"};
    return {};
  }

  /// Sized by trial, as tokenizers differ.
  result<void> make_conversation() {
    sample_conversation shape{plan_.messages, 600};
    for (int trial = 0; trial < 3; ++trial) {
      const auto prepared =
          recipe::prepare(api_protocol::chat, sample_body(shape), *tokenizer_, model_);
      if (!prepared) return failure{error_code::internal, prepared.error().message};
      turn_tokens_ = prepared->tokens.size();
      if (trial < 2)
        shape.message_bytes = shape.message_bytes * plan_.conversation_tokens / turn_tokens_ + 1;
    }
    body_ = sample_body(shape);
    shape.messages += 2;  // an answer, and the next question
    next_body_ = sample_body(shape);
    return {};
  }

  result<void> make_outputs() {
    for (size_t i = 0; i < plan_.outputs; ++i) {
      const std::string said = sample_output(i + 1, plan_.output_bytes);
      auto ids = tokenizer_->encode(said, tokenizer_->find_specials(said));
      if (!ids) return ids.error();
      output_tokens_ += ids->size();
      outputs_.push_back(*std::move(ids));
      text::stream_decoder decoder(tokenizer_);
      auto& pieces = pieces_.emplace_back();
      for (const int32_t id : outputs_.back()) pieces.emplace_back(decoder.push(id).text);
    }
    const auto request =
        recipe::prepare(api_protocol::chat, sample_body({2, 100}), *tokenizer_, model_);
    if (!request) return failure{error_code::internal, request.error().message};
    answered_ = *request;
    return {};
  }

  void measure_encode() {
    const auto plain = text::make_plain_encoder(tokenizer_);
    text::part_encoder_options options;
    options.runner = pool_;
    const auto both = text::make_part_encoder(tokenizer_, options);
    const auto encode = [this](text::prompt_encoder& with) {
      DEEPINFER_CHECK(with.encode({}, text_, {}).has_value());
    };
    encode_.add(1, [&] { encode(*plain); });
    encode_wall_.add(2, [&] { encode(*plain); });
    encode_two_.add(2, [&] { encode(*both); });
  }

  /// Both turns with the encoder that a gateway has: the first has never been seen, of the next
  /// one all but the last two messages have.
  result<void> measure_turns() {
    if (auto done = measure_turn(body_, std::nullopt, turn_); !done) return done;
    return measure_turn(next_body_, body_, next_);
  }

  struct reusing_encoder {
    std::shared_ptr<text::part_cache> cache = std::make_shared<text::part_cache>();
    std::unique_ptr<text::prompt_encoder> encoder;
  };

  /// One that has seen `before`.
  [[nodiscard]] reusing_encoder make_encoder(const std::optional<std::string>& before) const {
    reusing_encoder made;
    text::part_encoder_options options;
    options.reuse = made.cache;
    made.encoder = text::make_part_encoder(tokenizer_, options);
    if (before) DEEPINFER_CHECK(prepare(*before, made));
    return made;
  }

  [[nodiscard]] bool prepare(const std::string& body, const reusing_encoder& with) const {
    const recipe::prompt_reader reader(*tokenizer_, *with.encoder, "bench");
    return static_cast<bool>(recipe::prepare(api_protocol::chat, body, reader, model_));
  }

  result<void> measure_turn(const std::string& body,
                            const std::optional<std::string>& before,
                            turn_times& out) {
    auto request = recipe::parse_request(api_protocol::chat, body);  // warms up what both use
    if (!request) return failure{error_code::internal, request.error().message};
    out.parse.add(1, [&] { DEEPINFER_CHECK(recipe::parse_json(body).has_value()); });
    timed both;
    both.add(1, [&] { request = recipe::parse_request(api_protocol::chat, body); });
    out.convert.rounds.push_back(std::max(0.0, both.rounds.back() - out.parse.rounds.back()));
    recipe::rendered_prompt prompt;
    out.render.add(1, [&] { prompt = recipe::render_request(*request); });
    const reusing_encoder first = make_encoder(before);
    const auto asked = first.cache->counters();
    out.encode.add(1, [&] {
      DEEPINFER_CHECK(first.encoder->encode("bench", prompt.text, prompt.specials).has_value());
    });
    const auto answered = first.cache->counters();
    out.known_share = static_cast<double>(answered.bytes_found - asked.bytes_found) /
                      static_cast<double>(answered.bytes_asked - asked.bytes_asked);
    const reusing_encoder second = make_encoder(before);
    out.whole.add(1, [&] { DEEPINFER_CHECK(prepare(body, second)); });
    return {};
  }

  void measure_outputs() {
    decode_.add(1, [this] {
      for (const auto& ids : outputs_) {
        text::stream_decoder decoder(tokenizer_);
        for (const int32_t id : ids) shown_bytes_ += decoder.push(id).text.size();
      }
    });
    parse_.add(1, [this] {
      std::vector<recipe::output_chunk> chunks;
      for (const auto& pieces : pieces_) {
        recipe::output_parser parser(answered_.parsing);
        for (const std::string& piece : pieces) {
          parser.push(piece, chunks);
          chunks.clear();
        }
        parser.finish(chunks);
        chunks.clear();
      }
    });
    answer_.add(1, [this] {
      for (const auto& ids : outputs_) {
        recipe::answer_stream stream(tokenizer_, answered_, {"chatcmpl-bench", 1, "bench", {}});
        shown_bytes_ += stream.start({}).size();
        for (const int32_t& id : ids)
          shown_bytes_ += stream.push({0, std::span{&id, 1}, {}}).size();
        shown_bytes_ += stream.finish({0, recipe::engine_finish::stop, 2}).size();
      }
    });
  }

  void add_encode(std::vector<figure>& out) const {
    const auto megabytes = static_cast<double>(text_.size()) * 1e-6;
    const std::vector<double> alone = encode_wall_.rate(megabytes);
    out.push_back(make_figure("recipe.encode_t1", "MB/s", encode_.rate(megabytes)));
    out.push_back(make_figure("recipe.encode_wall_t1", "MB/s", alone));
    out.push_back(make_figure("recipe.encode_wall_t2", "MB/s", encode_two_.rate(megabytes),
                              {"recipe.encode_wall_t1", alone}));
  }

  void add_turns(std::vector<figure>& out) const {
    out.push_back(make_figure("recipe.turn.tokens", "tokens", {static_cast<double>(turn_tokens_)}));
    const yardstick first{"recipe.turn.whole", turn_.whole.times(1e3)};
    const yardstick next{"recipe.next_turn.whole", next_.whole.times(1e3)};
    out.push_back(make_figure(first.name, "ms", first.rounds));
    add_shares("recipe.turn.", turn_, first, out);
    out.push_back(make_figure(next.name, "ms", next.rounds, first));
    add_shares("recipe.next_turn.", next_, next, out);
    out.push_back(make_figure("recipe.next_turn.known", "of bytes", {next_.known_share}));
  }

  static void add_shares(const std::string& prefix,
                         const turn_times& of,
                         const yardstick& whole,
                         std::vector<figure>& out) {
    out.push_back(make_figure(prefix + "parse", "ms", of.parse.times(1e3), whole));
    out.push_back(make_figure(prefix + "convert", "ms", of.convert.times(1e3), whole));
    out.push_back(make_figure(prefix + "render", "ms", of.render.times(1e3), whole));
    out.push_back(make_figure(prefix + "encode", "ms", of.encode.times(1e3), whole));
  }

  void add_outputs(std::vector<figure>& out) const {
    const auto tokens = static_cast<double>(output_tokens_);
    out.push_back(make_figure("recipe.output.tokens", "tokens", {tokens}));
    out.push_back(make_figure("recipe.output.parser", "Mtokens/s", parse_.rate(tokens * 1e-6)));
    const yardstick whole{"recipe.output.whole_token", answer_.times(1e9 / tokens)};
    out.push_back(make_figure("recipe.output.whole_token", "ns", whole.rounds));
    out.push_back(
        make_figure("recipe.output.decode_token", "ns", decode_.times(1e9 / tokens), whole));
    out.push_back(
        make_figure("recipe.output.parse_token", "ns", parse_.times(1e9 / tokens), whole));
  }

  const recipe_plan& plan_;
  std::shared_ptr<const text::tokenizer> tokenizer_;
  recipe::served_model model_;
  std::shared_ptr<encode_pool> pool_;
  std::string text_, body_, next_body_;
  size_t turn_tokens_ = 0;
  std::vector<std::vector<int32_t>> outputs_;
  std::vector<std::vector<std::string>> pieces_;  // the same, decoded
  size_t output_tokens_ = 0;
  recipe::prepared_request answered_;
  size_t shown_bytes_ = 0;  // so that nothing is optimised away

  timed encode_, encode_wall_, encode_two_;
  turn_times turn_, next_;
  timed decode_, parse_, answer_;
};

}  // namespace

result<std::vector<figure>> measure_recipe_figures(const recipe_plan& plan) {
  recipe_bench bench{plan};
  if (auto opened = bench.open(); !opened) return opened.error();
  if (auto done = bench.run(); !done) return done.error();
  return bench.figures();
}

}  // namespace deepinfer::bench
