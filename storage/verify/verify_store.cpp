#include "storage/verify/verify_store.hpp"

#include "storage/block/block_checksum.hpp"
#include "storage/catalog/catalogue.hpp"
#include "storage/folder/store_folder.hpp"
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
    check_names();
    auto files =
        disk_files::in(options_.segments_folder, {.submit = disk_options::submission::calls});
    if (!files) return files.error();
    auto journal = open_index();
    if (!journal) return journal.error();
    if (*journal == nullptr) return std::move(report_);
    count();
    check_chains();
    // in the order in which they lie in the files
    std::sort(records_.begin(), records_.end(), [](const block_record& a, const block_record& b) {
      return std::pair(a.location.segment, a.location.offset) <
             std::pair(b.location.segment, b.location.offset);
    });
    check_places();
    if (auto checked = check_headers(**files); !checked) return checked.error();
    for (size_t at = 0; at < records_.size(); at += at_once) {
      const auto some = std::span{records_}.subspan(at, std::min(at_once, records_.size() - at));
      if (auto checked = check_contents(**journal, some); !checked) return checked.error();
      check_bytes(**files, some);
      if (options_.progress) options_.progress(at + some.size(), records_.size());
    }
    return std::move(report_);
  }

private:
  void name(const std::string& what, const block_key& key = {}) {
    if (report_.first_problems.size() >= most_named) return;
    report_.first_problems.push_back(key ? what + ": block " + to_string(key) : what);
  }

  // ---- whose it is

  void wrong_name(const std::string& what) {
    ++report_.wrong_names;
    name(what);
  }

  void check_names() {
    if (options_.home.empty()) return;
    const auto id = read_store_id(options_.home), copy = read_store_id_copy(options_.home);
    const auto said = [](const result<store_id>& read) {
      return read.error().code == error_code::not_found ? "missing" : "damaged";
    };
    if (!id)
      wrong_name(std::string{"the file id is "} + said(id) +
                 (copy ? "; the next opening writes it again from id.copy"
                       : "; the next opening gives the store a new one"));
    if (!copy)
      wrong_name(std::string{"the file id.copy is "} + said(copy) +
                 "; the next opening writes it again");
    if (id && copy && *id != *copy) wrong_name("id and id.copy differ; id counts");
    const auto mark = read_mark(options_.segments_folder), near = read_mark(options_.home);
    if (!mark) wrong_name(std::string{"the file mark in the folder of blocks is "} + said(mark));
    if (!near) wrong_name(std::string{"the file mark beside the index is "} + said(near));
    if (mark && near && *mark != *near)
      wrong_name(
          "the file mark in the folder of blocks is not that beside the index: these are the "
          "blocks of another store");
  }

  // ---- the index

  void damaged(const failure& why) {
    ++report_.damaged_index;
    name(why.detail);
  }

  /// Null: it cannot be read at all, which is in the report.
  result<std::unique_ptr<metadata_journal>> open_index() {
    if (const auto whole = verify_rocks_files(options_.index_folder); !whole) {
      if (whole.error().code != error_code::corrupt) return whole.error();
      damaged(whole.error());
    }
    const auto unreadable =
        [this](const failure& why) -> result<std::unique_ptr<metadata_journal>> {
      if (why.code != error_code::corrupt) return why;
      if (report_.damaged_index == 0) damaged(why);
      name("the index cannot be read: the next opening sets it aside, and the store begins empty");
      return std::unique_ptr<metadata_journal>{};
    };
    auto journal =
        open_rocks_journal(options_.index_folder, {.access = rocks_options::access_mode::read});
    if (!journal) return unreadable(journal.error());
    auto loaded = (*journal)->load([this](const block_record& r) { records_.push_back(r); });
    if (!loaded) return unreadable(loaded.error());
    report_.unreadable_records = loaded->unreadable;
    if (loaded->unreadable > 0) name("records that fail their checksum");
    if (!loaded->has_identity) damaged({error_code::corrupt, "the store's own record is missing"});
    return journal;
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

  // ---- where blocks lie

  void check_places() {
    uint32_t segment = 0;
    uint64_t end = 0;
    for (const block_record& r : records_) {
      if (r.location.segment != segment) end = segment_header_bytes;
      segment = r.location.segment;
      if (r.location.offset % location_unit != 0 || r.location.offset < end) {
        ++report_.misplaced;
        name("its place is that of another block, or of none", r.key);
      }
      end = std::max(end, r.location.offset + stride_of(r.length));
    }
  }

  result<void> check_headers(disk_files& files) {
    auto listed = files.list();
    if (!listed) return listed.error();
    std::set<uint32_t> named;
    for (const block_record& r : records_) named.insert(r.location.segment);
    for (const listed_file& one : *listed) {
      const uint32_t number = segment_of_name(one.name);
      if (number == 0) continue;
      if (!named.contains(number)) {
        ++report_.unnamed_files;
        continue;
      }
      std::vector<std::byte> bytes(segment_header_bytes);
      const auto file = file_of(files, number);
      file_operation read{
          .what = file_operation::kind::read, .file = file.get(), .offset = 0, .head = bytes};
      if (file) files.run({&read, 1});
      const auto header = decode_segment_header(bytes);
      if (header && header->segment == number) continue;
      ++report_.wrong_frames;
      name("the header of " + one.name + " is damaged or of another file");
    }
    return {};
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
      std::vector<std::byte> bytes(r.length), tail(stride_of(r.length) - r.length);
      const auto file = file_of(files, r.location.segment);
      file_operation read{.what = file_operation::kind::read,
                          .file = file.get(),
                          .offset = r.location.offset,
                          .head = bytes,
                          .tail = tail};
      if (file) files.run({&read, 1});
      const bool answered = file && read.result == file_operation::outcome::done;
      if (!answered || read.transferred < r.length || block_checksum(r.key, bytes) != r.checksum) {
        ++report_.wrong_bytes;
        name(file ? "bytes that fail its checksum"
                  : "its file " + segment_name(r.location.segment) + " cannot be opened",
             r.key);
        continue;
      }
      const auto footer = decode_footer(std::span{tail}.last(footer_bytes));
      if (footer && *footer == block_footer{r.key, r.length, r.checksum}) continue;
      ++report_.wrong_frames;
      name("its footer is damaged", r.key);
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
