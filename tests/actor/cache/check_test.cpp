#include "tests/actor/cache/check_peers.hpp"

#include <doctest/doctest.h>

#include <optional>

namespace deepinfer {
namespace {

using namespace std::chrono_literals;
using namespace test;
using storage::block_key;

const cache_party acme{{storage::scope_kind::tenant, "acme"}, storage::traffic_class::chat};
constexpr uint64_t layout = 77;

block_key root_of(const cache_party& party, const cache_config& cache = {}) {
  return storage::root_key({"m", "", chain_layout(cache, layout), check_block_tokens, party.scope});
}

/// One kv_check and what it is told; stores and hosts live in the same process.
struct check_world {
  remote_world world;
  remote_node& node = world.start("a:1");
  kv_check_setup setup = make_setup();
  std::vector<told_service> services{{"prefill", {{5, 5}, 5, 5}, "m", layout}};
  std::map<uint64_t, std::shared_ptr<feed_script>> stores;
  known_prompt prompt = make_prompt(root_of(acme), 1, 6);
  std::optional<kv_check_self_actor> sut;

  kv_check_setup make_setup() {
    kv_check_setup made;
    made.model = "m";
    made.hub = &node.hub;
    made.config.feed.retry = 100ms;
    made.config.feed.wait = 0ms;
    made.config.feed.answer_within = 1s;
    made.config.forget_after = 10s;
    made.spawn_feed = [this](const feed_config& config,
                             const std::shared_ptr<storage::prefix_index>& index) {
      return node.world.system.spawn(index_feed, config, &node.hub, index);
    };
    return made;
  }

  void start() { sut = node.world.system.spawn(kv_check, setup); }

  actor_ref add_store(const std::shared_ptr<feed_script>& script) {
    const auto ref = node.hub.export_actor(node.world.system.spawn(scripted_feed, script));
    REQUIRE(ref);
    services.push_back({"kvstore", *ref, "", 0});
    return *ref;
  }

  void remove_service(const actor_ref& ref) {
    std::erase_if(services, [&](const auto& s) { return s.ref == ref; });
  }

  void tell_members() {
    node.world.self->send(*sut, members_of(services));
    world.run();
  }

  wire::msg<wire::CacheHint> ask(const known_prompt& what, const cache_party& party = acme) {
    const auto tokens = std::make_shared<const std::vector<int32_t>>(what.tokens);
    auto answer = world.ask<wire::msg<wire::CacheHint>>(node, *sut, match_prompt{tokens, party});
    REQUIRE(answer);  // at once, whatever stores do
    return *answer;
  }
  uint32_t hit(const known_prompt& what) { return ask(what).get().getHitBlocks(); }

  int64_t gauge(std::string_view name) {
    const auto info = world.ask<wire::msg<wire::ActorInfo>>(node, *sut, wire::msg<wire::Inspect>{});
    REQUIRE(info);
    for (const auto c : info->get().getCounters())
      if (c.getName() == name.data()) return c.getValue();
    return -1;
  }

  void send_rings(const actor_ref& host,
                  uint64_t number,
                  const std::vector<std::pair<block_key, uint64_t>>& added,
                  const std::vector<block_key>& removed = {}) {
    wire::draft<wire::RingChanges> out;
    write_ref(out->initHost(), host);
    out->setNumber(number);
    auto list = out->initAdded(static_cast<uint32_t>(added.size()));
    for (uint32_t i = 0; i < added.size(); ++i) {
      list[i].initKey().setHi(added[i].first.hi);
      list[i].getKey().setLo(added[i].first.lo);
      list[i].setBytes(added[i].second);
    }
    std::string keys;
    for (const auto& key : removed)
      for (const std::byte b : storage::to_bytes(key)) keys.push_back(static_cast<char>(b));
    out->setRemoved({reinterpret_cast<const capnp::byte*>(keys.data()), keys.size()});
    node.world.self->send(*sut, out.freeze());
    world.run();
  }
};

/// One store that has four blocks of the prompt, known.
struct one_store : check_world {
  std::shared_ptr<feed_script> store = std::make_shared<feed_script>();
  actor_ref ref;

  one_store() {
    start();
    store->put(prompt, 0, 4);
    ref = add_store(store);
    tell_members();
    world.advance(50ms);
    REQUIRE(hit(prompt) == 4);
  }
};

TEST_SUITE_BEGIN("actors/cache");

TEST_CASE_FIXTURE(one_store, "a hint names the chain, what is stored of it and where") {
  const auto msg = ask(prompt);
  const auto hint = msg.get();
  const block_key root = root_of(acme);
  CHECK(hint.getLine().getRoot().getHi() == root.hi);
  CHECK(hint.getLine().getRoot().getLo() == root.lo);
  CHECK(hint.getLine().getLayout() == layout);
  CHECK(hint.getLine().getScope() == static_cast<uint64_t>(storage::id_of(acme.scope)));
  CHECK(hint.getLine().getTraffic() == static_cast<uint8_t>(storage::traffic_class::chat));
  CHECK(hint.getLine().getGroupBlocks() == check_group_blocks);
  REQUIRE(hint.getGroups().size() == 2);
  for (const auto group : hint.getGroups()) {
    REQUIRE(group.getStores().size() == 1);
    CHECK(read_ref(group.getStores()[0]) == ref);
  }
  CHECK(gauge("stores") == 1);
  CHECK(gauge("blocks") == 4);
  CHECK(gauge("index_bytes") > 0);
  CHECK(gauge("matches_chat") == 2);
  CHECK(gauge("found_blocks_chat") == 8);
  CHECK(gauge("absent_blocks_chat") == 4);
  CHECK(gauge("found_tokens_chat") == 8 * check_block_tokens);
  CHECK(gauge("absent_tokens_chat") == 4 * check_block_tokens);
  CHECK(gauge("matches_agent") == 0);
}

TEST_CASE_FIXTURE(check_world, "without a known layout, and when it is off, there is no chain") {
  services.clear();
  start();
  tell_members();
  CHECK_FALSE(ask(prompt));
  services.push_back({"prefill", {{5, 5}, 5, 5}, "another", layout});
  tell_members();
  CHECK_FALSE(ask(prompt));
  services.push_back({"prefill", {{6, 5}, 5, 5}, "m", layout});
  tell_members();
  CHECK(ask(prompt).get().getLine().getLayout() == layout);
  setup.cache.enabled = false;
  start();
  tell_members();
  CHECK_FALSE(ask(prompt));
}

TEST_CASE_FIXTURE(check_world, "the layout of most prefill engines counts") {
  services.clear();
  for (uint64_t i = 0; i < 5; ++i)
    services.push_back({"prefill", {{i + 5, 5}, 5, 5}, "m", i < 3 ? layout : layout - 1});
  services.push_back({"decode", {{20, 5}, 5, 5}, "m", 1});
  start();
  tell_members();
  CHECK(ask(prompt).get().getLine().getLayout() == layout);
}

TEST_CASE_FIXTURE(check_world, "tenants, models, layouts and restore modes never share a root") {
  const auto root = [this](const cache_party& party) {
    const auto answer = ask(prompt, party);
    const auto key = answer.get().getLine().getRoot();
    return block_key{key.getHi(), key.getLo()};
  };
  std::vector<block_key> roots;
  const cache_party other{{storage::scope_kind::tenant, "acme2"}, acme.traffic};
  const cache_party group{{storage::scope_kind::organization, "acme"}, acme.traffic};
  start();
  tell_members();
  for (const auto& party : {acme, other, group}) roots.push_back(root(party));
  CHECK(root({acme.scope, storage::traffic_class::agent}) == roots[0]);  // a class is no owner
  setup.cache.restore = "bounded";
  start();
  tell_members();
  roots.push_back(root(acme));
  setup.cache.restore = "exact";
  services[0].layout = layout + 1;
  start();
  tell_members();
  roots.push_back(root(acme));
  services[0] = {"prefill", services[0].ref, "n", layout};
  setup.model = "n";
  start();
  tell_members();
  roots.push_back(root(acme));
  std::sort(roots.begin(), roots.end());
  CHECK(std::adjacent_find(roots.begin(), roots.end()) == roots.end());
  CHECK(roots.front());
}

TEST_CASE_FIXTURE(one_store, "another tenant hits nothing of the same prompt") {
  CHECK(ask(prompt, {{storage::scope_kind::tenant, "b"}, {}}).get().getHitBlocks() == 0);
}

TEST_CASE_FIXTURE(one_store, "changes are followed, blocks that go as well") {
  store->put(prompt, 4, 6);
  world.advance(20ms);
  CHECK(hit(prompt) == 6);
  store->remove(prompt.keys[5]);
  store->remove(prompt.keys[3]);
  world.advance(20ms);
  CHECK(hit(prompt) == 3);
  CHECK(store->pages == 1);
}

TEST_CASE_FIXTURE(check_world, "a snapshot comes in pieces, and its changes are not lost") {
  const auto store = std::make_shared<feed_script>();
  store->page_limit = 1;
  store->put(prompt, 0, 5);
  start();
  add_store(store);
  tell_members();
  world.run();
  store->put(prompt, 5, 6);
  world.advance(100ms);
  CHECK(hit(prompt) == 6);
  CHECK(store->pages >= 5);
  CHECK(gauge("snapshots") == 1);
}

TEST_CASE_FIXTURE(one_store, "after a gap the old content answers until the new one is there") {
  store->put(prompt, 4, 6);
  store->changes.clear();  // too far behind
  store->silent = true;
  world.advance(900ms);
  CHECK(gauge("gaps") == 0);
  CHECK(hit(prompt) == 4);
  store->silent = false;
  store->page_limit = 1;
  world.advance(300ms);  // the late question is asked again, sees the gap and takes it all
  CHECK(gauge("gaps") == 1);
  CHECK(gauge("snapshots") == 2);
  CHECK(hit(prompt) == 6);
}

TEST_CASE_FIXTURE(one_store,
                  "answers that come too late change nothing, lost ones are asked again") {
  store->silent = true;
  world.advance(500ms);
  const uint32_t polls = store->polls;
  world.advance(5s);
  CHECK(store->polls >= polls + 3);  // retried, one at a time
  CHECK(store->polls <= polls + 6);
  store->put(prompt, 4, 6);
  node.world.self->send(*node.hub.resolve<kv_store_actor>(ref), wire::msg<wire::KvReportBad>{});
  world.run();
  CHECK(hit(prompt) == 4);
  store->silent = false;
  world.advance(2s);
  CHECK(hit(prompt) == 6);
  CHECK(gauge("gaps") == 0);
}

TEST_CASE_FIXTURE(one_store,
                  "a store that is gone is not hit from that moment, and forgotten later") {
  services.back().state = wire::NodeState::SUSPECT;
  tell_members();
  CHECK(hit(prompt) == 0);
  CHECK(gauge("stores") == 0);
  const uint32_t polls = store->polls;
  world.advance(5s);
  CHECK(store->polls <= polls + 1);  // nobody asks it
  services.back().state = wire::NodeState::ALIVE;
  tell_members();
  world.advance(20ms);
  CHECK(hit(prompt) == 4);
  CHECK(store->pages == 1);  // the link broke, the life is the same

  remove_service(ref);
  tell_members();
  world.advance(9s);
  CHECK(gauge("stores_known") == 1);
  world.advance(3s);
  CHECK(gauge("stores_known") == 0);
  CHECK(gauge("blocks") == 0);
}

TEST_CASE_FIXTURE(one_store, "a restarted store is hit at once for what its folder had before") {
  const auto next = std::make_shared<feed_script>();
  next->epoch = 2;
  next->put(prompt, 0, 3);  // it lost one
  next->silent = true;
  remove_service(ref);
  const actor_ref reborn = add_store(next);
  tell_members();
  world.advance(20ms);
  const auto before = ask(prompt);
  CHECK(before.get().getHitBlocks() == 4);
  CHECK(read_ref(before.get().getGroups()[0].getStores()[0]) == reborn);
  next->silent = false;
  world.advance(5s);
  CHECK(hit(prompt) == 3);
  CHECK(gauge("snapshots") == 2);
}

TEST_CASE_FIXTURE(one_store, "pages of two lives are no snapshot to go on from") {
  store->changes.clear();
  store->put(prompt, 4, 6);
  store->changes.clear();
  store->page_limit = 2;
  world.advance(4ms);
  store->silent = true;  // in the middle of the snapshot
  world.advance(20ms);
  store->epoch = 2;
  store->blocks.resize(1);
  store->silent = false;
  world.advance(5s);
  CHECK(hit(prompt) == 1);
  CHECK(gauge("blocks") == 1);
}

TEST_CASE_FIXTURE(check_world, "one store over the limit is not hit until a place is free") {
  setup.config.max_stores = 1;
  setup.config.forget_after = 0ms;
  start();
  const auto one = std::make_shared<feed_script>(), two = std::make_shared<feed_script>();
  two->id = {2, 2};
  one->put(prompt, 0, 2);
  two->put(prompt, 0, 4);
  const actor_ref first = add_store(one);
  tell_members();
  world.advance(50ms);
  add_store(two);
  tell_members();
  world.advance(5s);
  CHECK(hit(prompt) == 2);
  CHECK(gauge("stores_over_limit") > 0);
  remove_service(first);
  tell_members();
  world.advance(5s);
  CHECK(hit(prompt) == 4);
}

TEST_CASE_FIXTURE(one_store, "a kv_check outlives a feed that it ends, and ends with its feeds") {
  auto& running = node.world.system.registry();
  const size_t with_feed = running.running();
  remove_service(ref);
  tell_members();
  world.advance(15s);  // longer than `forget_after`
  CHECK(running.running() == with_feed - 1);
  CHECK(hit(prompt) == 0);  // it still answers
  services.push_back({"kvstore", ref, "", 0});
  tell_members();
  world.advance(5s);
  REQUIRE(running.running() == with_feed);
  caf::anon_send_exit(*sut, caf::exit_reason::user_shutdown);
  world.run();
  CHECK(running.running() == with_feed - 2);
}

TEST_CASE_FIXTURE(check_world, "one block over the limit of an index is not hit") {
  setup.config.max_blocks = 3;
  start();
  const auto store = std::make_shared<feed_script>();
  store->put(prompt, 0, 4);
  add_store(store);
  tell_members();
  world.advance(50ms);
  CHECK(hit(prompt) == 3);
  CHECK(gauge("blocks_refused") == 1);
}

TEST_CASE_FIXTURE(one_store, "rings at the end of a hit are told, and lost news are asked for") {
  const auto subscribers = std::make_shared<std::vector<actor_ref>>();
  const auto host = node.hub.export_actor(node.world.system.spawn(scripted_ring_host, subscribers));
  REQUIRE(host);
  services.push_back({"ring_host", *host, "", 0});
  tell_members();
  REQUIRE(subscribers->size() == 1);
  send_rings(*host, 0, {{prompt.keys[3], 400}, {prompt.keys[5], 600}});
  {
    const auto hint = ask(prompt);
    REQUIRE(hint.get().getRings().size() == 1);  // the other is behind the hit
    const auto ring = hint.get().getRings()[0];
    CHECK(ring.getBlocks() == 4);
    CHECK(ring.getBytes() == 400);
    CHECK(read_ref(ring.getHost()) == *host);
  }
  send_rings(*host, 2, {}, {prompt.keys[3]});
  send_rings(*host, 3, {}, {prompt.keys[3]});
  CHECK(ask(prompt).get().getRings().size() == 1);
  world.advance(1s);
  CHECK(subscribers->size() == 2);  // once for both
  send_rings(*host, 0, {});
  CHECK(ask(prompt).get().getRings().size() == 0);

  send_rings(*host, 1, {{prompt.keys[1], 9}});
  CHECK(ask(prompt).get().getRings().size() == 1);
  remove_service(*host);
  tell_members();
  CHECK(ask(prompt).get().getRings().size() == 0);
  send_rings(*host, 0, {{prompt.keys[3], 400}});  // late, of one that is gone
  CHECK(gauge("rings") == 0);
}

/// Keys of a prompt of `party` whose first blocks are everybody's.
known_prompt shared_prompt(const std::vector<int32_t>& tokens,
                           const cache_party& party,
                           uint32_t shared_blocks) {
  known_prompt made;
  made.tokens = tokens;
  const cache_party everybody{storage::public_scope(), storage::traffic_class::chat};
  storage::chain_hasher hasher{root_of(everybody), check_block_tokens};
  const size_t at = size_t{shared_blocks} * check_block_tokens;
  REQUIRE(hasher.append(std::span{tokens}.first(at), {}, made.keys));
  hasher.continue_in(root_of(party));
  REQUIRE(hasher.append(std::span{tokens}.subspan(at), {}, made.keys));
  return made;
}

/// Tenants whose prompts begin with the same listed one of 3.5 blocks, and go on alike.
struct listed_prompt : check_world {
  const cache_party bolt{{storage::scope_kind::tenant, "bolt"}, storage::traffic_class::chat};
  std::vector<int32_t> tokens = prompt.tokens;  // of 6 blocks
  std::shared_ptr<feed_script> store = std::make_shared<feed_script>();

  listed_prompt() {
    const auto listed = std::span{tokens}.first(3 * check_block_tokens + check_block_tokens / 2);
    setup.shared = std::make_shared<const public_prompts>(
        std::vector<std::vector<int32_t>>{{listed.begin(), listed.end()}});
    start();
    // all of acme's: the public part as a chain of its own, and hers behind it
    known_prompt all = shared_prompt(tokens, acme, 3), own;
    store->put(all, 0, 3);
    own.tokens.assign(tokens.begin() + 3 * check_block_tokens, tokens.end());
    own.keys.assign(all.keys.begin() + 3, all.keys.end());
    store->put(own, 0, 3);
    add_store(store);
    tell_members();
    world.advance(50ms);
  }
  uint32_t hit_of(const std::vector<int32_t>& asked, const cache_party& party) {
    return ask({asked, {}}, party).get().getHitBlocks();
  }
};

TEST_CASE_FIXTURE(listed_prompt, "tenants share the whole blocks of a listed prompt, and no more") {
  {
    const auto msg = ask({tokens, {}}, acme);
    const auto line = msg.get().getLine();
    const block_key root = root_of(acme);
    const block_key shared = root_of({storage::public_scope(), storage::traffic_class::chat});
    CHECK(line.getRoot().getHi() == root.hi);
    CHECK(line.getRoot().getLo() == root.lo);
    CHECK(line.getSharedRoot().getHi() == shared.hi);
    CHECK(line.getSharedRoot().getLo() == shared.lo);
    CHECK(line.getSharedBlocks() == 3);
    CHECK(line.getScope() == static_cast<uint64_t>(storage::id_of(acme.scope)));
    CHECK(msg.get().getHitBlocks() == 6);
    CHECK(msg.get().getGroups().size() == 4);  // 2 + 1 shared, 2 + 1 own
  }
  // the very same tokens of another tenant: what is not listed is as if it were not there
  CHECK(hit_of(tokens, bolt) == 3);
  CHECK(hit_of(tokens, {{storage::scope_kind::organization, "acme"}, {}}) == 3);
  CHECK(gauge("shared_blocks") == 9);
}

TEST_CASE_FIXTURE(listed_prompt,
                  "one other token ends what is shared at the block in front of it") {
  for (uint32_t at = 0; at < tokens.size(); at += check_block_tokens / 4) {
    CAPTURE(at);
    auto other = tokens;
    other[at] += 1;
    const uint32_t same = std::min(at / check_block_tokens, 3u);
    CHECK(hit_of(other, bolt) == same);
    CHECK(ask({other, {}}, bolt).get().getLine().getSharedBlocks() == same);
  }
  // a prompt that ends early shares the blocks it has
  CHECK(hit_of({tokens.begin(), tokens.begin() + 2 * check_block_tokens + 5}, bolt) == 2);
  CHECK(hit_of({tokens.begin(), tokens.begin() + 5}, bolt) == 0);
}

TEST_CASE_FIXTURE(listed_prompt,
                  "blocks of a listed prompt that are gone hide what is behind them") {
  store->remove(shared_prompt(tokens, acme, 3).keys[2]);
  world.advance(1s);
  CHECK(hit_of(tokens, acme) == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer
