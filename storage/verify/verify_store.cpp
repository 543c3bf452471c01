#include "storage/verify/verify_store.hpp"

#include "storage/block/block_checksum.hpp"
#include "storage/rocks/rocks_journal.hpp"
#include "storage/segment/disk_files.hpp"
#include "storage/segment/segment_format.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

namespace deepinfer::storage {

namespace {

constexpr size_t most_named = 20;
constexpr size_t at_once = 32;  // blocks in memory

class verifier {
public:
  explicit verifier(const verify_options& options) : options_(options) {}

  result<verify_report> run() {
    auto journal =
        open_rocks_journal(options_.index_folder, {.access = rocks_options::access_mode::read});
    if (!journal) return journal.error();
    auto files =
        disk_files::in(options_.segments_folder, {.submit = disk_options::submission::calls});
    if (!files) return files.error();
    auto loaded = (*journal)->load([this](const block_record& r) { records_.push_back(r); });
    if (!loaded) return loaded.error();
    report_.unreadable_records = loaded->unreadable;
    if (loaded->unreadable > 0) name("records that fail their checksum", {});
    count();
    check_chains();
    // in the order in which they lie in the files
    std::sort(records_.begin(), records_.end(), [](const block_record& a, const block_record& b) {
      return std::pair(a.location.segment, a.location.offset) <
             std::pair(b.location.segment, b.location.offset);
    });
    for (size_t at = 0; at < records_.size(); at += at_once) {
      const auto some = std::span{records_}.subspan(at, std::min(at_once, records_.size() - at));
      if (auto checked = check_contents(**journal, some); !checked) return checked.error();
      check_bytes(**files, some);
      if (options_.progress) options_.progress(at + some.size(), records_.size());
    }
    return std::move(report_);
  }

private:
  void name(const std::string& what, const block_key& key) {
    if (report_.first_problems.size() >= most_named) return;
    report_.first_problems.push_back(key ? what + ": block " + to_string(key) : what);
  }

  void count() {
    std::set<uint64_t> scopes;
    std::set<uint32_t> segments;
    for (const block_record& r : records_) {
      scopes.insert(static_cast<uint64_t>(r.scope));
      segments.insert(r.location.segment);
      report_.bytes += r.length;
    }
    report_.blocks = records_.size();
    report_.scopes = scopes.size();
    report_.segments = segments.size();
  }

  [[nodiscard]] bool is_head(uint32_t depth) const {
    return depth == 0 || (options_.group_blocks != 0 && depth % options_.group_blocks == 0);
  }

  void check_chains() {
    std::unordered_map<block_key, const block_record*> by_key;
    by_key.reserve(records_.size());
    for (const block_record& r : records_) by_key.emplace(r.key, &r);
    for (const block_record& r : records_) {
      if (r.state != block_state::committed) {
        ++report_.broken_chains;
        name("a record that is not committed", r.key);
      }
      if (is_head(r.depth)) continue;
      const auto parent = by_key.find(r.parent);
      // a refresh may reach a parent's record and not yet its own parent's: only the link counts
      if (parent != by_key.end() && parent->second->depth + 1 == r.depth &&
          parent->second->scope == r.scope)
        continue;
      ++report_.broken_chains;
      name("no parent", r.key);
    }
  }

  result<void> check_contents(metadata_journal& journal, std::span<const block_record> some) {
    std::vector<block_key> keys;
    for (const block_record& r : some) keys.push_back(r.key);
    const auto contents = journal.contents(keys);
    if (!contents) return contents.error();
    for (size_t i = 0; i < some.size(); ++i) {
      const block_content& content = (*contents)[i];
      if (!content.empty() && content_digest(content) == some[i].content_digest &&
          key_of(some[i].parent, content) == some[i].key)
        continue;
      ++report_.wrong_contents;
      name("its tokens are missing or not those of its key", some[i].key);
    }
    return {};
  }

  std::shared_ptr<stored_file> file_of(disk_files& files, uint32_t segment) {
    if (segment != open_segment_) {
      auto opened = files.open(segment_name(segment));
      open_file_ = opened ? *opened : nullptr;
      open_segment_ = segment;
    }
    return open_file_;
  }

  void check_bytes(disk_files& files, std::span<const block_record> some) {
    for (const block_record& r : some) {
      std::vector<std::byte> bytes(r.length);
      const auto file = file_of(files, r.location.segment);
      file_operation read{.what = file_operation::kind::read,
                          .file = file.get(),
                          .offset = r.location.offset,
                          .head = bytes};
      if (file) files.run({&read, 1});
      if (file && read.result == file_operation::outcome::done && read.transferred == r.length &&
          block_checksum(r.key, bytes) == r.checksum)
        continue;
      ++report_.wrong_bytes;
      name(file ? "bytes that fail its checksum"
                : "its file " + segment_name(r.location.segment) + " cannot be opened",
           r.key);
    }
  }

  const verify_options& options_;
  verify_report report_;
  std::vector<block_record> records_;
  uint32_t open_segment_ = 0;
  std::shared_ptr<stored_file> open_file_;
};

}  // namespace

result<verify_report> verify_store(const verify_options& options) {
  return verifier{options}.run();
}

}  // namespace deepinfer::storage
