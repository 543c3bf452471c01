#include "actors/cache/kv_store_config.hpp"

#include "runtime/base/config_text.hpp"

#include <string>

namespace deepinfer {

namespace {

failure wrong(std::string why) {
  return {error_code::invalid_argument, std::move(why)};
}

std::string size(uint64_t bytes) {
  return config_text::print_size(bytes);
}

}  // namespace

result<void> check_settings(const kv_store_config& config) {
  const bool shared = config.engine == "shared";
  if (config.store.low_mark > config.store.high_mark)
    return wrong("kvstore.low_mark (" + config_text::print_real(config.store.low_mark) +
                 ") is above kvstore.high_mark (" +
                 config_text::print_real(config.store.high_mark) + "): lower kvstore.low_mark");
  if (shared && config.path.empty())
    return wrong(
        "kvstore.engine = \"shared\" needs kvstore.path, a folder that all machines mount");
  if (!shared && !config.index_path.empty())
    return wrong(
        "kvstore.index_path is for kvstore.engine = \"shared\" alone; name the folder of a \"" +
        config.engine + "\" store with kvstore.path");
  if (config.engine == "memory" && !config.path.empty())
    return wrong(
        "kvstore.engine = \"memory\" keeps nothing in kvstore.path: leave it empty, or set "
        "kvstore.engine to \"rocks\"");
  if (shared && config.replicas > 1)
    return wrong("kvstore.replicas = " + std::to_string(config.replicas) +
                 " does not go with kvstore.engine = \"shared\", where copies belong to the file "
                 "system: set kvstore.replicas to 1");
  if (config.capacity_bytes != 0 && config.capacity_bytes < least_capacity)
    return wrong("kvstore.capacity of " + size(config.capacity_bytes) +
                 " keeps next to nothing: give " + size(least_capacity) +
                 " or more, 0 for half of what is free, or leave out the role kvstore");
  if (config.quota_bytes != 0 && config.quota_bytes < least_quota)
    return wrong("kvstore.quota of " + size(config.quota_bytes) +
                 " lets no tenant keep anything: give " + size(least_quota) +
                 " or more, or 0 for no limit");
  return {};
}

}  // namespace deepinfer
