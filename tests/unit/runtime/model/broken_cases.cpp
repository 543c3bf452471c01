#include "tests/unit/runtime/model/broken_cases.hpp"

#include "tests/unit/runtime/model/broken_checkpoint.hpp"

#include <cstdint>

namespace deepinfer {
namespace {

using test::broken;
using test::path;

// An FP8 weight, its scale, a BF16 norm and an F32 vector of mini8; the first two lie side by side.
const std::string weight = "layers.3.attn.wq_b.weight";
const std::string scale = "layers.3.attn.wq_b.scale";
const std::string norm = "layers.5.attn_norm.weight";
const std::string sink = "layers.1.attn.attn_sink";

uint64_t bytes_of(const path& file) {
  return std::filesystem::file_size(file);
}

void cut(const path& file, uint64_t bytes) {
  std::filesystem::resize_file(file, bytes);
}

// Gives an entry offsets that are `by` bytes further ahead.
void shift_offsets(const path& folder, const std::string& tensor, uint64_t by) {
  const auto c = test::claim_of(folder, tensor);
  test::edit_entry(folder, tensor, test::offsets_text(c.begin, c.end),
                   test::offsets_text(c.begin - by, c.end - by));
}

const std::vector<broken> cases{
    {"a shard cut in half",
     "mini8",
     [](const path& f) { cut(f / test::second_shard, bytes_of(f / test::second_shard) / 2); },
     {test::second_shard, "cut short", "expected", "fetch"},
     test::second_shard},
    {"a shard without its last byte",
     "mini8",
     [](const path& f) { cut(f / test::first_shard, bytes_of(f / test::first_shard) - 1); },
     {test::first_shard, "1 tensor ends outside of the file"},
     test::first_shard},
    {"a shard cut inside its header",
     "mini8",
     [](const path& f) { cut(f / test::first_shard, 1000); },
     {test::first_shard, "header is longer than the file"},
     test::first_shard},
    {"an empty shard",
     "mini8",
     [](const path& f) { cut(f / test::first_shard, 0); },
     {test::first_shard, "no header"},
     test::first_shard},
    {"a header of 4 GiB",
     "mini8",
     [](const path& f) { test::set_header_length(f / test::first_shard, uint64_t{1} << 32); },
     {test::first_shard, "claims 4294967296 bytes"},
     test::first_shard},
    {"a header of 2^64 bytes",
     "mini8",
     [](const path& f) { test::set_header_length(f / test::first_shard, ~uint64_t{0}); },
     {test::first_shard, "claims 18446744073709551615 bytes"},
     test::first_shard},
    {"a header one byte longer than the file",
     "mini8",
     [](const path& f) {
       test::set_header_length(f / test::first_shard, bytes_of(f / test::first_shard) - 7);
     },
     {test::first_shard, "header is longer than the file"},
     test::first_shard},
    {"a header that is no JSON",
     "mini8",
     [](const path& f) {
       test::edit_header(f / test::first_shard, [](std::string& json) { json[0] = 'x'; });
     },
     {test::first_shard, "not valid JSON"},
     test::first_shard},
    {"a header that is an array",
     "mini8",
     [](const path& f) {
       test::edit_header(f / test::first_shard, [](std::string& json) { json = "[1, 2]"; });
     },
     {test::first_shard, "not an object"},
     test::first_shard},
    {"a shard that is a folder",
     "mini8",
     [](const path& f) {
       std::filesystem::remove(f / test::first_shard);
       std::filesystem::create_directory(f / test::first_shard);
     },
     {test::first_shard, "cannot be opened", "not a regular file"},
     test::first_shard},
    {"overlapping offsets",
     "mini8",
     [](const path& f) { shift_offsets(f, weight, 4); },
     {weight, "overlap those of '" + scale + "'"},
     weight.c_str()},
    {"offsets that run backwards",
     "mini8",
     [](const path& f) {
       const auto c = test::claim_of(f, norm);
       test::edit_entry(f, norm, test::offsets_text(c.begin, c.end),
                        test::offsets_text(c.end, c.begin));
     },
     {norm, "end before they begin"},
     norm.c_str()},
    {"offsets behind the end of the file",
     "mini8",
     [](const path& f) {
       const auto c = test::claim_of(f, norm);
       test::edit_entry(f, norm, test::offsets_text(c.begin, c.end),
                        test::offsets_text(c.begin + 9999999, c.end + 9999999));
     },
     {norm, "1 tensor ends outside of the file"},
     norm.c_str()},
    {"offsets near 2^64",
     "mini8",
     [](const path& f) {
       const auto c = test::claim_of(f, norm);
       test::edit_entry(f, norm, test::offsets_text(c.begin, c.end),
                        "[18446744073709551487,18446744073709551615]");
     },
     {norm, "its header lies"},
     norm.c_str()},
    {"bytes that do not fit the shape",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "[64]", "[65]"); },
     {norm, "do not fit", "expected 130 bytes, found 128 bytes"},
     norm.c_str()},
    {"a shape of more than 2^64 elements",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "[64]", "[18446744073709551615,64]"); },
     {norm, "do not fit", "2^64"},
     norm.c_str()},
    {"an unknown type",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "\"BF16\"", "\"F12\""); },
     {norm, "unknown dtype F12"},
     norm.c_str()},
    {"a negative dimension",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "[64]", "[-64]"); },
     {norm, "no whole number"},
     norm.c_str()},
    {"an entry without offsets",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "data_offsets", "data_ofsets"); },
     {norm, "data_offsets"},
     norm.c_str()},
    {"another type of the same size",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "\"BF16\"", "\"F16\""); },
     {norm, "another type", "expected BF16 [64], found F16 [64]"},
     norm.c_str()},
    {"a transposed matrix",
     "mini8",
     [](const path& f) { test::edit_entry(f, weight, "[256,32]", "[32,256]"); },
     {weight, "transposed", "expected F8_E4M3 [256, 32], found F8_E4M3 [32, 256]", "[out, in]"},
     weight.c_str()},
    {"another shape",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, "[64]", "[8,8]"); },
     {norm, "another shape", "expected BF16 [64], found BF16 [8, 8]"},
     norm.c_str()},
    {"a tensor under another name",
     "mini8",
     [](const path& f) {
       test::edit_entry(f, norm, norm, "layers.5.attn_morn.weight");
       test::replace_text(f / test::index_json, norm, "layers.5.attn_morn.weight");
     },
     {norm, "the tensor is missing", "expected BF16 [64]"},
     norm.c_str()},
    {"a missing shard",
     "mini8",
     [](const path& f) { std::filesystem::remove(f / test::second_shard); },
     {test::second_shard, "cannot be opened", "expected 426 tensors", "no file"},
     test::second_shard},
    {"neither an index nor a single file",
     "mini8",
     [](const path& f) { std::filesystem::remove(f / test::index_json); },
     {"model.safetensors: ", "cannot be opened"},
     "model.safetensors"},
    {"an index that names an absent tensor",
     "mini8",
     [](const path& f) {
       test::replace_text(f / test::index_json, "\"norm.weight\"", "\"morn.weight\"");
     },
     {"morn.weight", "no shard holds"},
     "morn.weight"},
    {"an index that names the wrong shard",
     "mini8",
     [](const path& f) {
       test::replace_text(f / test::index_json,
                          "\"norm.weight\": \"" + std::string(test::second_shard),
                          "\"norm.weight\": \"" + std::string(test::first_shard));
     },
     {"norm.weight", "wrong shard", test::first_shard},
     nullptr},
    {"an index that leaves the folder",
     "mini8",
     [](const path& f) { test::replace_text(f / test::index_json, test::first_shard, "../x"); },
     {test::index_json, "plain file name"},
     "plain file name"},
    {"an index that is no JSON",
     "mini8",
     [](const path& f) { test::write_file(f / test::index_json, "{\"weight_map\": {"); },
     {test::index_json, "not valid JSON"},
     test::index_json},
    {"an index without a map",
     "mini8",
     [](const path& f) { test::replace_text(f / test::index_json, "weight_map", "weight_mop"); },
     {test::index_json, "no weight_map"},
     "weight_map"},
    {"an index that lists a tensor twice",
     "mini8",
     [](const path& f) {
       test::replace_text(f / test::index_json, "\"head.weight\"", "\"embed.weight\"");
     },
     {test::index_json, "'embed.weight' twice"},
     "embed.weight"},
    {"an index with another total",
     "mini8",
     [](const path& f) {
       test::replace_text(f / test::index_json, "\"total_size\": ", "\"total_size\": 9");
     },
     {test::index_json, "not the sum of the tensors"},
     nullptr},
    {"the same shard twice",
     "mini8",
     [](const path& f) {
       std::filesystem::copy_file(f / test::first_shard, f / test::second_shard,
                                  std::filesystem::copy_options::overwrite_existing);
     },
     {"embed.weight", "in two shards"},
     "two shards"},
    {"a tensor twice in one file",
     "mini8",
     [](const path& f) { test::edit_entry(f, norm, norm, "layers.5.ffn_norm.weight"); },
     {"layers.5.ffn_norm.weight", "twice in one file"},
     "layers.5.ffn_norm.weight"},
    {"a NaN among FP8 scales",
     "mini8",
     [](const path& f) { test::poke(f, scale, 3, "\xFF"); },
     {scale, "1 value is not finite, the first is element 3 (row 3, column 0)", "F8_E8M0"},
     nullptr},
    {"a NaN among FP4 scales",
     "mini8",
     [](const path& f) { test::poke(f, "layers.3.ffn.experts.5.w2.scale", 1, "\xFF\xFF"); },
     {"layers.3.ffn.experts.5.w2.scale", "2 values are not finite", "(row 0, column 1)"},
     nullptr},
    {"NaNs among FP8 weights",
     "mini8",
     [](const path& f) { test::poke(f, weight, 8190, "\x7F\xFF"); },
     {weight, "2 values are not finite", "element 8190 (row 255, column 30)"},
     nullptr},
    {"an infinite BF16 value",
     "mini8",
     [](const path& f) { test::poke(f, norm, 126, std::string("\x80\x7F", 2)); },
     {norm, "1 value is not finite, the first is element 63", "BF16"},
     nullptr},
    {"a NaN among F32 values",
     "mini8",
     [](const path& f) { test::poke(f, sink, 4, std::string("\0\0\xC0\xFF", 4)); },
     {sink, "the first is element 1", "F32"},
     nullptr},
    {"no config.json",
     "mini8",
     [](const path& f) { std::filesystem::remove(f / "config.json"); },
     {"config.json", "cannot open"},
     "config.json"},
    {"a config.json of another model",
     "mini8",
     [](const path& f) { test::replace_text(f / "config.json", "deepseek_v41", "llama"); },
     {"config.json", "model_type is 'llama'"},
     "model_type"},
    {"a vocabulary that the weights do not have",
     "mini8",
     [](const path& f) {
       test::replace_text(f / "config.json", "\"vocab_size\": 160", "\"vocab_size\": 161");
     },
     {"embed.weight", "another shape", "expected BF16 [161, 64], found BF16 [160, 64]"},
     ""},
    {"a drafter field out of range",
     "mini8",
     [](const path& f) {
       test::replace_text(f / "config.json", "\"dspark_block_size\": 5",
                          "\"dspark_block_size\": 500");
     },
     {"config.json", "dspark_block_size must be a whole number"},
     "dspark_block_size"},
    {"a vision field out of range",
     "mini8",
     [](const path& f) {
       test::replace_text(f / "config.json", "\"patch_size\": 4", "\"patch_size\": 0");
     },
     {"config.json", "vision_config.patch_size"},
     nullptr},
    {"a drafter that is promised and not there",
     "mini8",
     [](const path& f) {
       for (const char* file : {test::first_shard, test::second_shard})
         test::edit_header(f / file, [](std::string& json) {
           for (size_t at = 0; (at = json.find("\"mtp.", at)) != std::string::npos; ++at)
             json[at + 1] = 'x';
         });
     },
     {"all tensors of 'mtp.*' are missing", "169 tensors"},
     nullptr},
    {"no engram_meta.json",
     "mini8",
     [](const path& f) { std::filesystem::remove(f / "engram_meta.json"); },
     {"engram_meta.json", "cannot open"},
     "engram_meta.json"},
    {"a token map that is too short",
     "mini8",
     [](const path& f) {
       test::replace_text(f / "engram_meta.json", "\"token_map\": [",
                          "\"token_map\": [1], \"x\": [");
     },
     {"engram_meta.json", "token_map has 1 entries"},
     "token_map"},
    {"another compressed vocabulary",
     "mini8",
     [](const path& f) { test::replace_text(f / "engram_meta.json", ": 96", ": 95"); },
     {"engram_meta.json", "compressed_vocab_size differs"},
     "compressed_vocab_size"},
    {"Engram tables of another size",
     "mini8",
     [](const path& f) {
       test::replace_text(f / "config.json", "\"engram_num_embeddings\": [",
                          "\"engram_num_embeddings\": [1");
     },
     {"engram.embed.weight", "another shape"},
     "engram"},
    {"a sampling default out of range",
     "mini8",
     [](const path& f) { test::replace_text(f / "generation_config.json", "0.95", "1.95"); },
     {"generation_config.json", "top_p must be a number"},
     nullptr},
    {"a generation_config.json that is no JSON",
     "mini8",
     [](const path& f) { test::write_file(f / "generation_config.json", "temperature: 1"); },
     {"generation_config.json", "not valid JSON"},
     nullptr},
    {"no tokenizer",
     "tiny",
     [](const path& f) { std::filesystem::remove(f / "tokenizer.json"); },
     {"tokenizer.json", "the tokenizer is missing"},
     nullptr},
    {"a tokenizer that is no JSON",
     "tiny",
     [](const path& f) { test::replace_text(f / "tokenizer.json", "{", "["); },
     {"tokenizer.json", "improper structure"},
     nullptr},
    {"a tokenizer of a larger vocabulary",
     "tiny",
     [](const path& f) {
       test::replace_text(f / "tokenizer.json", "{\"id\":4095,", "{\"id\":4096,");
     },
     {"tokenizer.json", "ids that the model's vocabulary does not have", "4096 ids",
      "ids up to 4096"},
     nullptr},
};

}  // namespace

const std::vector<broken>& test::broken_checkpoints() {
  return cases;
}

}  // namespace deepinfer
