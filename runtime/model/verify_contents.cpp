#include "runtime/model/checkpoint.hpp"
#include "runtime/model/json_fields.hpp"
#include "runtime/model/verify_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace deepinfer::model::verify {
namespace {

constexpr const char* fetch_again = "fetch this file again and compare its size with the source's";
constexpr const char* index_again = "take the index from where the shards came from";

// "1 tensor", "2 tensors"
std::string count_of(uint64_t n, const char* what) {
  std::string out = std::to_string(n);
  out.append(" ").append(what);
  return n == 1 ? out : out.append("s");
}

void open_shard(const contents& held, shard& s, notebook& notes) {
  auto file = mapped_file::open(held.folder / s.name);
  if (!file) {
    const auto lost = std::ranges::count(
        held.index ? held.index->entries : std::vector<index_entry>{}, s.name, &index_entry::shard);
    notes.problem({.file = s.name,
                   .what = "the shard cannot be opened: " + file.error().detail,
                   .expected = lost == 0 ? "" : count_of(static_cast<uint64_t>(lost), "tensor"),
                   .found = "no file",
                   .advice = "fetch the missing shard"});
    return;
  }
  s.file = *std::move(file);
}

// Bytes of the data that no tensor owns: harmless, but a writer that leaves them is suspect.
void check_layout(const shard& s, std::vector<const tensor_claim*> claims, notebook& notes) {
  std::erase_if(claims, [](const tensor_claim* c) { return c->begin >= c->end; });
  std::ranges::sort(claims, {}, [](const tensor_claim* c) { return std::pair(c->begin, c->end); });
  uint64_t gaps = 0, gap_bytes = 0, end = 0;
  const tensor_claim* last = nullptr;
  for (const tensor_claim* c : claims) {
    if (last != nullptr && c->begin < end) {
      notes.problem({.file = s.name,
                     .tensor = c->name,
                     .what = "its bytes overlap those of '" + last->name + "'",
                     .expected = "data_offsets from " + std::to_string(end) + " on",
                     .found = "data_offsets from " + std::to_string(c->begin) + " on",
                     .advice = fetch_again});
    } else if (c->begin > end) {
      ++gaps;
      gap_bytes += c->begin - end;
    }
    if (c->end > end) {
      end = c->end;
      last = c;
    }
  }
  if (gaps > 0)
    notes.warning({.file = s.name,
                   .what = count_of(gap_bytes, "byte") + " in " + count_of(gaps, "gap") +
                           " between tensors belong to none of them",
                   .advice = "some readers refuse gaps; write the file again"});
  if (end < s.data_bytes)
    notes.warning(
        {.file = s.name,
         .what = count_of(s.data_bytes - end, "byte") + " after the last tensor belong to none",
         .advice = fetch_again});
}

// A file cut short makes many tensors end outside of it: one finding, not hundreds.
void check_length(const shard& s, const std::vector<held_tensor>& tensors, notebook& notes) {
  uint64_t end = 0, outside = 0;
  const held_tensor* first = nullptr;
  for (const held_tensor& t : tensors) {
    if (t.claim.begin > t.claim.end || t.claim.end <= s.data_bytes) continue;
    end = std::max(end, t.claim.end);
    if (outside++ == 0) first = &t;
  }
  if (outside == 0) return;
  const bool believable = end <= (uint64_t{1} << 50);
  notes.problem({.file = s.name,
                 .tensor = outside == 1 ? first->claim.name : "",
                 .what = count_of(outside, "tensor") + (outside == 1 ? " ends" : " end") +
                         " outside of the file: it is cut short" +
                         (believable ? "" : " or its header lies"),
                 .expected = believable ? count_of(s.data_start + end, "byte") : "",
                 .found = count_of(s.data_start + s.data_bytes, "byte"),
                 .advice = fetch_again});
}

void check_claim(const shard& s, held_tensor& t, notebook& notes) {
  const tensor_claim& c = t.claim;
  if (c.begin > c.end) {
    notes.problem({.file = s.name,
                   .tensor = c.name,
                   .what = "data_offsets end before they begin",
                   .found = std::to_string(c.begin) + " to " + std::to_string(c.end),
                   .advice = fetch_again});
    return;
  }
  const auto needed = c.needed_bytes();
  if (needed != c.end - c.begin) {
    notes.problem({.file = s.name,
                   .tensor = c.name,
                   .what = "its bytes do not fit its type and shape, " + to_string(c),
                   .expected = needed ? count_of(*needed, "byte") : "at most 2^64 bytes",
                   .found = count_of(c.end - c.begin, "byte"),
                   .advice = fetch_again});
    return;
  }
  t.whole = c.end <= s.data_bytes;
}

void read_shard(contents& held, size_t number, notebook& notes) {
  shard& s = held.shards[number];
  open_shard(held, s, notes);
  if (!s.file) return;
  auto header = read_safetensors_header(s.file->bytes());
  if (!header) {
    notes.problem({.file = s.name,
                   .what = "the header cannot be read: " + header.error().detail,
                   .found = count_of(s.file->bytes().size(), "byte"),
                   .advice = fetch_again});
    return;
  }
  s.usable = true;
  s.data_start = header->data_start;
  s.data_bytes = s.file->bytes().size() - header->data_start;
  for (const failure& why : header->malformed)
    notes.problem({.file = s.name, .what = why.detail, .advice = fetch_again});
  std::vector<held_tensor> mine;
  std::vector<const tensor_claim*> claims;
  for (tensor_claim& claim : header->claims) mine.push_back({std::move(claim), number, false});
  for (held_tensor& t : mine) {
    check_claim(s, t, notes);
    claims.push_back(&t.claim);
  }
  check_length(s, mine, notes);
  check_layout(s, std::move(claims), notes);
  std::ranges::move(mine, std::back_inserter(held.tensors));
}

void check_twice(const contents& held, notebook& notes) {
  for (size_t i = 1; i < held.tensors.size(); ++i) {
    const held_tensor &a = held.tensors[i - 1], &b = held.tensors[i];
    if (a.claim.name != b.claim.name) continue;
    const std::string& first = held.shards[a.shard].name;
    notes.problem({.file = held.shards[b.shard].name,
                   .tensor = b.claim.name,
                   .what = a.shard == b.shard ? "the tensor occurs twice in one file"
                                              : "the tensor occurs in two shards, also in " + first,
                   .advice = "keep the shards of one export only"});
  }
}

void check_index(const contents& held, notebook& notes) {
  if (!held.index) return;
  const std::string file(index_file_name);
  uint64_t unlisted = 0, total = 0;
  for (const held_tensor& t : held.tensors) {
    if (t.claim.begin <= t.claim.end) total += t.claim.end - t.claim.begin;
    unlisted += held.index->find(t.claim.name) == nullptr ? 1 : 0;
  }
  const bool complete = std::ranges::all_of(held.shards, &shard::usable);
  for (const index_entry& entry : held.index->entries) {
    const auto at = std::ranges::find(held.shards, entry.shard, &shard::name);
    if (!at->usable) continue;  // reported as a whole
    const held_tensor* t = held.find(entry.tensor);
    if (t == nullptr && complete)
      notes.problem({.file = file,
                     .tensor = entry.tensor,
                     .what = "the index lists a tensor that no shard holds",
                     .expected = "in " + entry.shard,
                     .advice = index_again});
    else if (t != nullptr && held.shards[t->shard].name != entry.shard)
      notes.problem({.file = file,
                     .tensor = entry.tensor,
                     .what = "the index names the wrong shard",
                     .expected = held.shards[t->shard].name,
                     .found = entry.shard,
                     .advice = index_again});
  }
  if (unlisted > 0)
    notes.warning(
        {.file = file,
         .what = "the index does not list " + count_of(unlisted, "tensor") + " of the shards",
         .advice = index_again});
  if (complete && held.index->total_bytes && *held.index->total_bytes != total)
    notes.problem({.file = file,
                   .what = "metadata.total_size is not the sum of the tensors",
                   .expected = count_of(total, "byte"),
                   .found = count_of(*held.index->total_bytes, "byte"),
                   .advice = index_again});
}

void check_strays(const contents& held, notebook& notes) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(held.folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors") || std::ranges::count(held.shards, name, &shard::name) > 0)
      continue;
    notes.warning({.file = name,
                   .what = held.index ? "the index does not name this file"
                                      : "without an index only model.safetensors is read",
                   .advice = "remove it, or fetch the index that belongs to it"});
  }
}

}  // namespace

const held_tensor* contents::find(std::string_view tensor) const {
  const auto name = [](const held_tensor& t) -> std::string_view { return t.claim.name; };
  const auto at = std::ranges::lower_bound(tensors, tensor, {}, name);
  return at != tensors.end() && at->claim.name == tensor ? &*at : nullptr;
}

contents read_contents(const std::filesystem::path& folder, notebook& notes) {
  contents held;
  held.folder = folder;
  std::vector<std::string> names{std::string(single_file_name)};
  std::error_code error;
  if (std::filesystem::exists(folder / index_file_name, error)) {
    const auto text = read_text(folder / index_file_name, checkpoint_limits::index_bytes);
    auto index = text ? parse_checkpoint_index(*text) : result<checkpoint_index>(text.error());
    if (!index) {
      notes.problem({.file = std::string(index_file_name),
                     .what = index.error().detail,
                     .advice = index_again});
      return held;
    }
    held.index = *std::move(index);
    names = held.index->shards();
  }
  for (std::string& name : names) held.shards.push_back({.name = std::move(name)});
  for (size_t i = 0; i < held.shards.size(); ++i) read_shard(held, i, notes);
  std::ranges::stable_sort(held.tensors, {},
                           [](const held_tensor& t) -> std::string_view { return t.claim.name; });
  check_twice(held, notes);
  check_index(held, notes);
  check_strays(held, notes);
  return held;
}

}  // namespace deepinfer::model::verify
