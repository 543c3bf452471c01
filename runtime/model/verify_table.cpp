#include "runtime/model/verify_parts.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace deepinfer::model::verify {
namespace {

// Missing with its shard is reported with the shard.
bool lost_with_shard(const contents& held, const std::string& tensor) {
  if (!held.index) return std::ranges::none_of(held.shards, &shard::usable);
  const index_entry* entry = held.index->find(tensor);
  if (entry == nullptr) return false;
  const auto at = std::ranges::find(held.shards, entry->shard, &shard::name);
  return at != held.shards.end() && !at->usable;
}

bool transposed(const table_entry& want, const tensor_claim& found) {
  return want.shape.size() == 2 && found.shape.size() == 2 && want.shape[0] == found.shape[1] &&
         want.shape[1] == found.shape[0];
}

void compare(const table_entry& want,
             const held_tensor& t,
             const std::string& file,
             notebook& notes) {
  const tensor_claim& found = t.claim;
  if (found.type == want.type && found.shape == want.shape) return;
  finding f{
      .file = file, .tensor = want.name, .expected = to_string(want), .found = to_string(found)};
  if (found.type != want.type) {
    f.what = "the tensor has another type";
    f.advice = "export the weights in the released formats";
  } else if (transposed(want, found)) {
    f.what = "the shape is transposed";
    f.advice = "export the tensor as [out, in], not [in, out]";
  } else {
    f.what = "the tensor has another shape";
    f.advice = "check that config.json and the weights are of the same model";
  }
  notes.problem(std::move(f));
}

void report_missing(const table_entry& want, notebook& notes) {
  notes.problem({.tensor = want.name,
                 .what = "the tensor is missing",
                 .expected = to_string(want),
                 .advice = "fetch the shard that holds it, or correct config.json"});
}

}  // namespace

void compare_with_table(const contents& held,
                        std::span<const table_entry> table,
                        const v41_config& config,
                        notebook& notes) {
  verify_report& report = notes.report();
  report.expected = totals_of(table);
  std::array<std::vector<const table_entry*>, tensor_groups> missing;
  for (const table_entry& want : table) {
    const held_tensor* t = held.find(want.name);
    const auto group = static_cast<size_t>(want.group);
    if (t == nullptr) {
      if (!lost_with_shard(held, want.name)) missing[group].push_back(&want);
      continue;
    }
    ++report.found[group].tensors;
    report.found[group].bytes += t->claim.begin <= t->claim.end ? t->claim.end - t->claim.begin : 0;
    compare(want, *t, held.shards[t->shard].name, notes);
  }
  for (size_t group = 0; group < tensor_groups; ++group) {
    const auto& list = missing[group];
    // A part that is missing as a whole, say the drafter, is one finding.
    if (list.size() > 1 && list.size() == report.expected[group].tensors) {
      notes.problem({.what = "all tensors of '" +
                             group_name(static_cast<tensor_group>(group), config) + "' are missing",
                     .expected = std::to_string(list.size()) + " tensors",
                     .found = "0 tensors",
                     .advice = "fetch the shards that hold them, or correct config.json"});
      continue;
    }
    for (const table_entry* want : list) report_missing(*want, notes);
  }
  for (const held_tensor& t : held.tensors) {
    if (find_entry(table, t.claim.name) != nullptr) continue;
    ++report.unexpected.tensors;
    report.unexpected.bytes += t.claim.begin <= t.claim.end ? t.claim.end - t.claim.begin : 0;
    notes.warning({.file = held.shards[t.shard].name,
                   .tensor = t.claim.name,
                   .what = "config.json does not call for this tensor; it is ignored",
                   .found = to_string(t.claim)});
  }
}

}  // namespace deepinfer::model::verify
