#include "storage/rocks/rocks_journal.hpp"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

namespace deepinfer::storage {

namespace {

using rocksdb::Slice;

constexpr char records_family[] = "records";
constexpr char contents_family[] = "contents";
constexpr char writers_family[] = "writers";
constexpr char store_family[] = "store";
constexpr char identity_key[] = "identity";
constexpr char rewrite_prefix[] = "rewrite-";
constexpr size_t rewrite_prefix_bytes = sizeof rewrite_prefix - 1;
constexpr char purge_prefix[] = "purge-";
constexpr size_t purge_prefix_bytes = sizeof purge_prefix - 1;

failure translated(const rocksdb::Status& status) {
  // a file that the database names and that is not there is damage, too
  const auto code = status.IsCorruption() || status.IsPathNotFound() ? error_code::corrupt
                    : status.IsNoSpace()                             ? error_code::no_capacity
                                                                     : error_code::unreachable;
  return {code, "the store's database: " + status.ToString()};
}

Slice slice(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> bytes_of(const Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.data()), slice.size()};
}

template <class Number>
std::array<std::byte, sizeof(Number)> raw(Number value) {
  std::array<std::byte, sizeof(Number)> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
template <class Number>
bool take(const Slice& from, Number& value) {
  if (from.size() != sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  return true;
}

std::string purge_name(scope_id scope) {
  const auto number = static_cast<uint64_t>(scope);
  return std::string{purge_prefix}.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// The first key whose leading 64 bits are this number, as keys are ordered.
std::string key_at(uint64_t leading) {
  const auto name = to_bytes(block_key{leading, 0});
  return {reinterpret_cast<const char*>(name.data()), name.size()};
}

/// The database's own log file fills up with its disk, and then ends the process from a thread of
/// its own; what it would say comes with each status.
class no_log final : public rocksdb::Logger {
public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

struct stored_identity {
  uint32_t version = 1;
  uint32_t next_segment = 1;
  uint64_t epoch = 0;
  int64_t last_time_ms = 0;
};

class rocks_journal final : public metadata_journal {
public:
  ~rocks_journal() override {
    for (auto* column : families_)
      if (column != nullptr) static_cast<void>(db_->DestroyColumnFamilyHandle(column));
    if (db_) static_cast<void>(db_->Close());
  }

  result<void> open(const std::string& folder, const rocks_options& options);
  [[nodiscard]] result<void> verify() const {
    const auto status = db_->VerifyChecksum();
    if (!status.ok()) return translated(status);
    return {};
  }
  result<journal_contents> load(const std::function<void(const block_record&)>& each) override;
  result<void> apply(const journal_batch& batch, journal_wait wait) override;
  result<std::vector<block_content>> contents(std::span<const block_key> keys) override;
  result<void> sync() override {
    const auto status = db_->SyncWAL();
    if (!status.ok()) return translated(status);
    return {};
  }

  result<uint64_t> drop_erased(uint64_t cursor) override;

private:
  enum family : size_t { fallback, records, contents_of, writers, store, family_count };

  result<void> load_records(journal_contents& found,
                            const std::function<void(const block_record&)>& each);
  result<void> load_rest(journal_contents& found);
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> walk(family which) const {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = 4 << 20;
    return std::unique_ptr<rocksdb::Iterator>{db_->NewIterator(options, families_[which])};
  }

  bool read_only_ = false;
  uint64_t part_bytes_ = 0;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  bool stopped_ = false;  // by a failed write
};

result<void> rocks_journal::open(const std::string& folder, const rocks_options& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.max_background_jobs = options.background_threads;
  db.atomic_flush = false;  // the log orders the families among each other
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  db.info_log = std::make_shared<no_log>();
  db.max_total_wal_size = 2 * options.write_buffer_bytes;  // what a restart after a crash replays
  db.avoid_flush_during_recovery = true;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::ColumnFamilyOptions columns;
  columns.write_buffer_size = options.write_buffer_bytes;
  columns.compression = rocksdb::kNoCompression;  // digests and ids: nothing to gain
  columns.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

  std::vector<rocksdb::ColumnFamilyDescriptor> wanted;
  for (const char* name :
       {"default", records_family, contents_family, writers_family, store_family})
    wanted.emplace_back(name, columns);
  rocksdb::DB* made = nullptr;
  part_bytes_ = std::max<uint64_t>(1, options.erase_part_bytes);
  read_only_ = options.access == rocks_options::access_mode::read;
  const auto attempt = [&] {
    return read_only_ ? rocksdb::DB::OpenForReadOnly(db, folder, wanted, &families_, &made)
                      : rocksdb::DB::Open(db, folder, wanted, &families_, &made);
  };
  auto status = attempt();
  if (status.IsCorruption() && options.damaged_log == rocks_options::log_damage::cut) {
    // What is behind the damage is lost; what is in front is written anew, so that the damaged log
    // goes.
    db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    db.avoid_flush_during_recovery = false;
    families_.clear();
    status = attempt();
  }
  if (!status.ok()) return translated(status);
  db_.reset(made);
  return {};
}

result<void> rocks_journal::load_records(journal_contents& found,
                                         const std::function<void(const block_record&)>& each) {
  const auto at = walk(records);
  rocksdb::WriteBatch unreadable;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const Slice name = at->key();
    if (name.size() == key_bytes) {
      const auto record =
          decode_record(key_from_bytes(bytes_of(name).data()), bytes_of(at->value()));
      if (record) {
        each(*record);
        continue;
      }
    }
    ++found.unreadable;
    unreadable.Delete(families_[records], name);
  }
  if (!at->status().ok()) return translated(at->status());
  if (read_only_) return {};
  const auto status = db_->Write({}, &unreadable);
  if (!status.ok()) return translated(status);
  return {};
}

result<void> rocks_journal::load_rest(journal_contents& found) {
  const auto lives = walk(writers);
  for (lives->SeekToFirst(); lives->Valid(); lives->Next()) {
    writer_ref writer;
    if (take(lives->key(), writer.id) && take(lives->value(), writer.epoch))
      found.writers.push_back(writer);
  }
  const auto rest = walk(store);
  for (rest->SeekToFirst(); rest->Valid(); rest->Next()) {
    stored_identity identity;
    uint32_t segment = 0;
    uint64_t scope = 0;
    Slice name = rest->key();
    if (name == identity_key) {
      if (!take(rest->value(), identity))
        return failure{error_code::corrupt, "the store's own record has another size"};
      found.has_identity = true;
      if (identity.version != 1)
        return failure{error_code::unsupported, "it was written by another version (" +
                                                    std::to_string(identity.version) +
                                                    "; this one reads 1)"};
      found.identity = {identity.epoch, cluster_time{identity.last_time_ms}, identity.next_segment};
    } else if (name.starts_with(rewrite_prefix)) {
      name.remove_prefix(rewrite_prefix_bytes);
      if (take(name, segment)) found.rewrite_due.push_back(segment);
    } else if (name.starts_with(purge_prefix)) {
      name.remove_prefix(purge_prefix_bytes);
      if (take(name, scope)) found.purge_due.push_back(scope_id{scope});
    }
  }
  for (const auto* walked : {&lives, &rest})
    if (!(*walked)->status().ok()) return translated((*walked)->status());
  return {};
}

result<journal_contents> rocks_journal::load(const std::function<void(const block_record&)>& each) {
  journal_contents found;
  if (auto done = load_records(found, each); !done) return done.error();
  if (auto done = load_rest(found); !done) return done.error();
  return found;
}

result<void> rocks_journal::apply(const journal_batch& batch, journal_wait wait) {
  rocksdb::WriteBatch steps;
  for (const block_key& key : batch.erase) {
    const auto name = to_bytes(key);
    steps.Delete(families_[records], slice(name));
    steps.Delete(families_[contents_of], slice(name));
  }
  for (const block_record& record : batch.put) {
    const auto name = to_bytes(record.key);
    const auto value = encode_record(record);
    steps.Put(families_[records], slice(name), slice(value));
  }
  for (const auto& [key, content] : batch.contents) {
    const auto name = to_bytes(key);
    const auto value = encode_content(key, content);
    steps.Put(families_[contents_of], slice(name), slice(value));
  }
  for (const writer_ref& writer : batch.writers)
    steps.Put(families_[writers], slice(raw(writer.id)), slice(raw(writer.epoch)));
  const auto rewrite_name = [](uint32_t segment) {
    return std::string{rewrite_prefix}.append(reinterpret_cast<const char*>(&segment),
                                              sizeof segment);
  };
  for (const uint32_t segment : batch.rewrite_due)
    steps.Put(families_[store], rewrite_name(segment), "");
  for (const uint32_t segment : batch.rewrite_done)
    steps.Delete(families_[store], rewrite_name(segment));
  for (const scope_id scope : batch.purge_due) steps.Put(families_[store], purge_name(scope), "");
  for (const scope_id scope : batch.purge_done) steps.Delete(families_[store], purge_name(scope));
  if (batch.identity) {
    const stored_identity identity{1, batch.identity->next_segment, batch.identity->epoch,
                                   batch.identity->last_time.count()};
    steps.Put(families_[store], identity_key, slice(raw(identity)));
  }
  if (stopped_) static_cast<void>(db_->Resume());  // after an error it takes nothing by itself
  rocksdb::WriteOptions options;
  options.sync = wait == journal_wait::device;
  const auto status = db_->Write(options, &steps);
  stopped_ = !status.ok();
  if (stopped_) return translated(status);
  return {};
}

/// Erasing writes that a key is gone; the value stays in the log and in older files until they are
/// merged. All families are written out first, since any of them may hold the log back. A part is a
/// range of keys, which are digests: equal ranges hold about equal bytes.
result<uint64_t> rocks_journal::drop_erased(uint64_t cursor) {
  rocksdb::Status status;
  if (cursor == 0) status = db_->Flush({}, families_);
  uint64_t bytes = 0;
  for (const family which : {records, contents_of}) {
    uint64_t live = 0;
    if (db_->GetIntProperty(families_[which], rocksdb::DB::Properties::kLiveSstFilesSize, &live))
      bytes += live;
  }
  const uint64_t parts = bytes / part_bytes_ + 1;
  const uint64_t step = UINT64_MAX / parts;
  const bool last = parts == 1 || cursor >= UINT64_MAX - step;
  const std::string from = key_at(cursor), to = key_at(cursor + step);
  const Slice begin{from}, end{to};
  rocksdb::CompactRangeOptions range;
  range.exclusive_manual_compaction = false;
  range.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (const family which : {records, contents_of})
    if (status.ok())
      status = db_->CompactRange(range, families_[which], cursor == 0 ? nullptr : &begin,
                                 last ? nullptr : &end);
  if (!status.ok()) return translated(status);
  return last ? 0 : cursor + step;
}

result<std::vector<block_content>> rocks_journal::contents(std::span<const block_key> keys) {
  std::vector<block_content> found(keys.size());
  std::string value;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto name = to_bytes(keys[i]);
    const auto status = db_->Get({}, families_[contents_of], slice(name), &value);
    if (status.IsNotFound()) continue;
    if (!status.ok()) return translated(status);
    if (auto content = decode_content(keys[i], bytes_of(value))) found[i] = std::move(*content);
  }
  return found;
}

}  // namespace

result<std::unique_ptr<metadata_journal>> open_rocks_journal(const std::string& folder,
                                                             const rocks_options& options) {
  std::error_code error;
  if (options.access == rocks_options::access_mode::own)
    std::filesystem::create_directories(folder, error);
  if (error)
    return failure{error_code::unreachable,
                   "cannot make the folder " + folder + ": " + error.message()};
  auto made = std::make_unique<rocks_journal>();
  if (auto opened = made->open(folder, options); !opened) return opened.error();
  return std::unique_ptr<metadata_journal>{std::move(made)};
}

result<void> verify_rocks_files(const std::string& folder) {
  rocks_journal journal;
  if (auto opened = journal.open(folder, {.access = rocks_options::access_mode::read,
                                          .damaged_log = rocks_options::log_damage::refused});
      !opened)
    return opened;
  return journal.verify();
}

}  // namespace deepinfer::storage
