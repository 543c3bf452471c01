#include "actors/bench/recipe_sample.hpp"

#include "runtime/recipe/json_value.hpp"

#include <array>
#include <string_view>

namespace deepinfer::bench {
namespace {

constexpr std::array<std::string_view, 72> words = {
    "the",        "of",        "and",        "to",        "a",         "in",         "that",
    "it",         "was",       "for",        "with",      "as",        "on",         "this",
    "but",        "by",        "from",       "they",      "which",     "she",        "or",
    "house",      "river",     "morning",    "letter",    "remember",  "engine",     "history",
    "question",   "children",  "mountain",   "number",    "always",    "between",    "important",
    "different",  "however",   "because",    "through",   "without",   "another",    "something",
    "understood", "carefully", "themselves", "possible",  "measure",   "government", "ordinary",
    "throughput", "latency",   "tokenizer",  "scheduler", "precisely", "recognised", "unusually",
    "evening",    "window",    "candle",     "stranger",  "promised",  "whispered",  "distance",
    "machine",    "experts",   "attention",  "gradient",  "buffered",  "reversible", "considered",
    "twenty",     "thousand"};

constexpr std::array<std::string_view, 24> phrases = {
    "春天的早晨",   "我们一起",     "学习新的知识",   "在河边的小路上", "今天的天气很好",
    "他告诉我",     "这个问题",     "需要认真",       "研究和讨论",     "然后继续前进",
    "城市里的人们", "因为时间有限", "所以必须",       "提高效率",       "模型的输出",
    "计算机系统",   "语言处理技术", "可以更快地完成", "历史上的故事",   "并不复杂",
    "山上有一座庙", "夜里下了雨",   "朋友们都来了",   "慢慢地明白了"};

constexpr std::array<std::string_view, 12> lines = {
    "for (size_t i = 0; i < values.size(); ++i) total += values[i] * weights[i];",
    "def merge(left: list[int], right: list[int]) -> list[int]:",
    "    return [x for x in left if x not in right]",
    "if (!result) return failure{error_code::invalid_argument, \"no such block\"};",
    "const auto found = table.find(key);",
    "    while queue and queue[0].deadline < now:",
    "        heapq.heappop(queue)",
    "std::vector<uint32_t> offsets(rows + 1, 0);",
    "SELECT id, name, count(*) FROM events WHERE day >= '2024-01-31' GROUP BY 1, 2;",
    "    assert response.status_code == 200, response.text",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}",
    "x = (a + b) ** 2 / 3.14159  # not exact"};

constexpr std::string_view tools =
    R"("tools":[{"type":"function","function":{"name":"write_file","description":"Writes a file.",)"
    R"("parameters":{"type":"object","properties":{"path":{"type":"string"},"content":{"type":)"
    R"("string"},"mode":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}},)"
    R"("required":["path","content"]}}},{"type":"function","function":{"name":"search",)"
    R"("description":"Searches the notes.","parameters":{"type":"object","properties":{"query":)"
    R"({"type":"string"},"limit":{"type":"integer"}},"required":["query"]}}}])";

void add_message(std::string& body,
                 std::string_view role,
                 std::string_view content,
                 std::string_view reasoning) {
  body += body.ends_with('[') ? R"({"role":")" : R"(,{"role":")";
  body.append(role).append(R"(","content":)");
  recipe::append_json_string(body, content);
  if (!reasoning.empty()) {
    body += R"(,"reasoning_content":)";
    recipe::append_json_string(body, reasoning);
  }
  body += '}';
}

}  // namespace

uint32_t sample_writer::below(uint32_t bound) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>((state_ >> 33) % bound);
}

std::string sample_writer::english(size_t bytes) {
  std::string out;
  bool begins = true;
  while (out.size() < bytes) {
    // The first words of the list are the frequent ones.
    std::string word{words[below(2) == 0 ? below(21) : below(words.size())]};
    if (begins) word[0] = static_cast<char>(word[0] - 'a' + 'A');
    out += word;
    const uint32_t mark = below(12);
    begins = mark == 0;
    out += mark == 0 ? ". " : mark == 1 ? ", " : " ";
  }
  return out;
}

std::string sample_writer::chinese(size_t bytes) {
  std::string out;
  while (out.size() < bytes) {
    out += phrases[below(phrases.size())];
    const uint32_t mark = below(4);
    if (mark < 2) out += mark == 0 ? "。" : "，";
  }
  return out;
}

std::string sample_writer::code(size_t bytes) {
  std::string out;
  while (out.size() < bytes) out.append(lines[below(lines.size())]).append("\n");
  return out;
}

std::string sample_writer::mixed(size_t bytes) {
  constexpr uint32_t paragraph = 900;
  std::string out;
  while (out.size() < bytes) {
    const size_t size = 1 + below(paragraph);
    const uint32_t kind = turn_++ % 3;
    out += kind == 0 ? english(size) : kind == 1 ? chinese(size) : code(size);
    out += "\n\n";
  }
  return out;
}

std::string sample_body(const sample_conversation& shape) {
  sample_writer writer(11);
  std::string body = R"({"model":"bench","stream":true,)";
  body.append(tools).append(R"(,"messages":[)");
  add_message(body, "system", writer.english(400), {});
  for (size_t i = 1; i < shape.messages; ++i) {
    const bool is_answer = i % 2 == 0;
    const std::string content = writer.mixed(shape.message_bytes);
    const std::string reasoning = is_answer ? writer.english(shape.message_bytes / 4) : "";
    add_message(body, is_answer ? "assistant" : "user", content, reasoning);
  }
  return body + "]}";
}

std::string sample_output(uint64_t seed, size_t bytes) {
  sample_writer writer(seed);
  std::string out = writer.english(bytes / 4);
  out.append("</think>\n\n").append(writer.mixed(bytes / 2));
  out += "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"write_file\">\n";
  const auto add = [&out](std::string_view name, std::string_view is_text, std::string_view value) {
    out += "<｜DSML｜ parameter name=\"";
    out.append(name).append("\" string=\"").append(is_text).append("\">").append(value);
    out += "</｜DSML｜ parameter>\n";
  };
  add("path", "true", "src/notes/today.md");
  add("content", "true", writer.code(bytes / 4));
  add("mode", "false", "420");
  add("tags", "false", R"(["a", "b \"quoted\"", "c"])");
  return out + "</｜DSML｜ invoke>\n</｜DSML｜ calls>";
}

}  // namespace deepinfer::bench
