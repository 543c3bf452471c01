#!/usr/bin/env python3
"""The shared KV cache across real processes: what is stored is used, by everybody who may, and
changes no token. cache_test.py BINARY"""

import json
import os
import re
import shutil
import time

import cluster
from cluster import MODEL, ask, chat_body, wait_until

ROLES = ('gateway,controller', 'prefill', 'decode')

# About 60 tokens each, so that a talk crosses several blocks of 128.
LINES = [f'Line {i}: the quick brown fox number {i} jumps over the lazy dog, then sits down and '
         f'thinks about {i * 7} apples, {i * 11} pears and the colour of the evening sky.'
         for i in range(40)]


# An exact restore without rings computes 635 tokens again: the beginning is longer than that.
def system(first=0, lines=28):
    return {'role': 'system', 'content': '\n'.join(LINES[first:first + lines])}


def is_engine(role):
    return any(part in role for part in ('prefill', 'decode')) or role == 'all'


class Site:
    """Nodes of one cluster, one process for each role, and a store of its own."""

    def __init__(self, test, **settings):
        self.test = test
        self.cluster = test.cluster
        self.settings = settings
        self.nodes = {}

    def set_of(self, role):
        out = []
        for name, value in self.settings.items():
            out += ['--set', f'{name.replace("__", ".")}={value}']
        if role.startswith('kvstore'):
            out += ['--set', f'kvstore.path={self.cluster.folder}/{role}']
        return out

    def start(self, *roles, model=MODEL):
        launched = {}
        for role in roles:
            kind = 'kvstore' if role.startswith('kvstore') else role
            launched[role] = self.cluster.launch('--roles', kind, '--model', model, *self.set_of(role))
        for role, node in launched.items():
            self.nodes[role] = node.wait_started()
        return self

    def kill(self, *roles):
        for role in roles:
            self.nodes.pop(role).kill()

    @property
    def gateway(self):
        return self.nodes['gateway,controller']

    def ready(self, stores=1):
        """Until every part of the cache knows all stores: what is computed from now on is stored
        where it belongs, and what is stored is read."""
        self.known(stores)
        if stores > 0:  # a fetch process starts once there is a store
            wait_until('fetch processes', lambda: self.fetches_from(stores))
        return self

    def known(self, stores=1):
        """Until those who look prompts up and those who write know all stores."""
        self.gateway.wait_ready()
        wait_until('stores known', lambda: self.sum('kv_check', 'stores') == stores)
        writers = {node.id for role, node in self.nodes.items() if is_engine(role)}
        # a node's own table may be older than the gateway's
        wait_until('stores known to writers', lambda: self.counts('kv_writer', 'stores', writers) ==
                   {writer: stores for writer in writers})
        return self

    def counts(self, kind, name, nodes):
        """{node id: counter} of the actors of a kind on these nodes."""
        return {actor['node']: actor['counters'].get(name, 0)
                for actor in self.gateway.topology()['actors']
                if actor['kind'] == kind and actor['node'] in nodes}

    def fetches_from(self, stores):
        """Whether each prefill engine knows a fetch process that reaches all stores."""
        prefills = {node.id for role, node in self.nodes.items()
                    if 'prefill' in role or role == 'all'}
        fetchers = [actor['counters'] for actor in self.gateway.topology()['actors']
                    if actor['kind'] == 'kv_fetch']
        return (self.counts('prefill', 'fetchers', prefills) == {one: 1 for one in prefills} and
                fetchers != [] and all(one.get('stores') == stores for one in fetchers))

    def sum(self, kind, name):
        return self.gateway.counter(kind, name)

    def settle(self):
        """Until everything that was to be written is stored, and known to the gateway."""
        if not any(role.startswith('kvstore') for role in self.nodes):
            return

        def quiet():
            return (self.sum('kv_writer', 'queue_bytes') == 0 and
                    self.sum('kv_store', 'blocks') <= self.sum('kv_check', 'blocks'))
        wait_until('blocks written', lambda: quiet() and (time.sleep(0.3) or quiet()))

    def ask(self, messages, key='alice', **fields):
        body = chat_body(messages, **dict({'max_tokens': 24}, **fields))
        status, _, data = cluster.call(self.gateway.http, 'POST', '/v1/chat/completions', body,
                                       headers=[f'Authorization: Bearer {key}'], timeout=60)
        answer = json.loads(data)
        self.test.assertEqual(status, 200, answer)
        return answer

    def cached(self, answer):
        return answer['usage']['prompt_tokens_details']['cached_tokens']

    def talk(self, turns, first=0, key='alice', **fields):
        """Contents and cached tokens of a talk that goes on."""
        messages = [system(first)]
        said, hits = [], []
        for turn in range(turns):
            messages.append({'role': 'user', 'content': LINES[30 + turn]})
            answer = self.ask(messages, key, **fields)
            message = answer['choices'][0]['message']
            said.append((message['content'], answer['usage']['completion_tokens']))
            hits.append(self.cached(answer))
            messages.append({'role': 'assistant', 'content': message['content']})
            self.settle()
        return said, hits


class Cache(cluster.ClusterTest):
    def reference(self, turns=3, first=0, **settings):
        """What a cluster without any cache says."""
        with cluster.Cluster() as bare:
            self.cluster, mine = bare, self.cluster
            try:
                site = Site(self, kvcache__enabled='false', **settings).start(*ROLES)
                site.gateway.wait_ready()
                messages, said = [system(first)], []
                for turn in range(turns):
                    messages.append({'role': 'user', 'content': LINES[30 + turn]})
                    answer = site.ask(messages)
                    self.assertEqual(site.cached(answer), 0)
                    content = answer['choices'][0]['message']['content']
                    said.append((content, answer['usage']['completion_tokens']))
                    messages.append({'role': 'assistant', 'content': content})
                return said
            finally:
                self.cluster = mine

    def test_a_talk_is_the_same_with_and_without_cache_and_hits_survive_all_compute(self):
        cold = self.reference()
        site = Site(self).start(*ROLES, 'kvstore').ready()
        said, hits = site.talk(3)
        self.assertEqual(said, cold)
        self.assertEqual(hits[0], 0)
        self.assertGreater(hits[1], 256)
        self.assertGreaterEqual(hits[2], hits[1])
        # another talk over the same beginning, from the start: all of it is there
        again, warm = site.talk(3)
        self.assertEqual(again, cold)
        self.assertGreater(warm[0], 256)

        # rings and everything in memory are gone, blocks are not
        site.kill(*ROLES)
        site.start(*ROLES).ready()
        wait_until('a replica of the index', lambda: site.sum('kv_check', 'blocks') > 0)
        after, found = site.talk(3)
        self.assertEqual(after, cold)
        self.assertGreater(found[0], 256)

        # without the store: only time
        site.kill('kvstore')
        lost, _ = site.talk(2)
        self.assertEqual(lost, cold[:2])
        site.start('kvstore').ready()
        wait_until('a replica of the index', lambda: site.sum('kv_check', 'blocks') > 0)
        back, found = site.talk(3)
        self.assertEqual(back, cold)
        self.assertGreater(found[0], 256)

    def test_tenants_weights_and_settings_share_nothing(self):
        site = Site(self).start(*ROLES, 'kvstore').ready()
        said, _ = site.talk(2)
        same, hits = site.talk(2, key='alice')
        self.assertGreater(hits[0], 0)
        other, foreign = site.talk(2, key='bob')
        self.assertEqual((same, other), (said, said))
        self.assertEqual(foreign[0], 0)
        # another arithmetic, the same store
        site.kill(*ROLES)
        site.settings['node__level'] = 'L1'
        site.start(*ROLES).ready()
        _, hits = site.talk(1)
        self.assertEqual(hits[0], 0)
        # other weights under the same name
        site.kill(*ROLES)
        del site.settings['node__level']
        model = os.path.join(self.cluster.folder, 'other', os.path.basename(MODEL))
        shutil.copytree(MODEL, model)
        with open(os.path.join(model, 'model.safetensors'), 'r+b') as weights:
            weights.seek(-3, os.SEEK_END)
            last = weights.read(1)
            weights.seek(-3, os.SEEK_END)
            weights.write(bytes([last[0] ^ 1]))
        site.start(*ROLES, model=model).ready()
        _, hits = site.talk(1)
        self.assertEqual(hits[0], 0)

    def test_the_fetch_process_comes_back_and_nobody_waits_for_it(self):
        site = Site(self).start(*ROLES, 'kvstore').ready()
        said, _ = site.talk(2)
        process, _ = wait_until('a fetch process', lambda: site.sum('kv_fetch', 'process'))
        self.assertGreater(process, 1)
        os.kill(process, 9)
        lost, _ = site.talk(2)
        self.assertEqual(lost, said)
        wait_until('another fetch process', lambda: site.sum('kv_fetch', 'process') not in (0, process))
        wait_until('engines know it', lambda: site.cached(site.ask([system(), {
            'role': 'user', 'content': LINES[30]}])) > 0)
        again, _ = site.talk(2)
        self.assertEqual(again, said)

    def test_two_stores_are_one_and_either_may_die_with_two_replicas(self):
        cold = self.reference()
        site = Site(self, kvstore__replicas=2, kvstore__group_blocks=2)
        site.start(*ROLES, 'kvstore-a', 'kvstore-b').ready(stores=2)
        said, _ = site.talk(3)
        self.assertEqual(said, cold)
        site.kill('kvstore-a')
        site.ready(stores=1)
        again, hits = site.talk(3)
        self.assertEqual(again, cold)
        self.assertGreater(hits[0], 256)

    def test_a_store_that_joins_takes_its_share_and_hits_stay(self):
        site = Site(self, kvstore__group_blocks=1, kvmove__settle='1s', kvmove__gone_after='2s',
                    kvmove__linger='1s', kvmove__strays_every='1s')
        site.start(*ROLES, 'kvstore-a').ready()
        said, _ = site.talk(2)
        blocks = site.sum('kv_store', 'blocks')
        site.start('kvstore-b').ready(stores=2)

        def placed():
            return (site.sum('kv_mover', 'groups_moved') > 0 and
                    site.sum('kv_mover', 'groups_leaving') == 0 and
                    site.sum('kv_store', 'blocks') == blocks)
        wait_until('blocks moved', lambda: placed() and (time.sleep(1.5) or placed()))
        self.assertEqual(site.sum('kv_mover', 'failures'), 0)
        again, hits = site.talk(2)
        self.assertEqual(again, said)
        self.assertGreater(hits[0], 256)
        # it really lies there: without the new store a part of the beginning is gone
        site.kill('kvstore-a')
        site.ready(stores=1)
        self.assertGreater(site.sum('kv_store', 'blocks'), 0)
        lost, _ = site.talk(1)
        self.assertEqual(lost, said[:1])

    def test_bounded_restore_answers_and_reads_only_its_own(self):
        site = Site(self).start(*ROLES, 'kvstore').ready()
        site.talk(2)
        site.kill(*ROLES)
        site.settings['kvcache__restore'] = 'bounded'
        site.start(*ROLES).ready()
        _, hits = site.talk(2)
        self.assertEqual(hits[0], 0)
        self.assertGreater(hits[1], 0)

    def test_tenants_share_listed_prompts_to_the_token_and_purges_know_whose_is_what(self):
        path = os.path.join(self.cluster.folder, 'clerk.txt')
        with open(path, 'w') as file:
            file.write(system()['content'] + '\n')
        site = Site(self, kvcache__public_prompts=path).start(*ROLES, 'kvstore').ready()

        def tokens(*messages):
            status, _, data = cluster.call(site.gateway.http, 'POST', '/tokenize',
                                           chat_body(list(messages)))
            self.assertEqual(status, 200, data)
            return json.loads(data)['tokens']

        def common(a, b):
            return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))

        def user(number):
            return {'role': 'user', 'content': LINES[number]}

        # behind the listed text: here the header of an answer, there a question
        listed = common(tokens(system()), tokens(system(), user(31))) // 128 * 128
        self.assertGreater(listed, 1024)
        alike = [system(), user(31), {'role': 'assistant', 'content': LINES[32]}, user(33)]
        self.assertGreater(len(tokens(*alike)), listed + 128)
        self.assertEqual(site.cached(site.ask(alike, 'alice')), 0)
        site.settle()
        self.assertGreater(site.cached(site.ask(alike, 'alice')), listed)
        # all of it is stored, and of another tenant only what is listed counts
        self.assertEqual(site.cached(site.ask(alike, 'bob')), listed)
        site.settle()
        self.assertGreater(site.cached(site.ask(alike, 'bob')), listed)
        # one word in the listed text is another
        differs = [dict(system(), content=system()['content'].replace('number 24', 'No. 24')), user(31)]
        same = common(tokens(system()), tokens(*differs)) // 128 * 128
        self.assertLess(same, listed)
        self.assertEqual(site.cached(site.ask(differs, 'carol')), same)
        site.settle()

        code, answer, why = self.purge('--key-from-stdin', text='alice')
        self.assertEqual(code, 0, why)
        self.assertGreater(answer['orders'][0]['blocks'], 0)
        self.assertEqual(site.cached(site.ask(alike, 'alice')), listed)
        self.assertGreater(site.cached(site.ask(alike, 'bob')), listed)
        site.settle()
        code, answer, why = self.purge('--public')
        self.assertEqual(code, 0, why)
        self.assertEqual(answer['orders'][0]['blocks'], listed // 128)
        self.assertEqual(site.cached(site.ask(alike, 'bob')), 0)
        site.settle()
        self.assertGreater(site.cached(site.ask(alike, 'bob')), listed)
        site.nodes.pop('kvstore').terminate()
        got = self.cluster.command('kv', 'verify', os.path.join(self.cluster.folder, 'kvstore', '0'), '--json')
        self.assertEqual(got.returncode, 0, got.stdout)

    def test_a_list_of_prompts_that_cannot_be_shared_ends_the_start(self):
        short = os.path.join(self.cluster.folder, 'short.txt')
        with open(short, 'w') as file:
            file.write('Be kind.')
        for path, why in ((short, 'too short to be shared'), ('/no/such/file', 'cannot read /no/such/file')):
            got = self.cluster.command('node', '--roles', 'gateway,controller', '--model', MODEL, '--set',
                                       f'kvcache.public_prompts={path}')
            self.assertEqual(got.returncode, 2, got.stderr)
            self.assertIn(b'kvcache.public_prompts', got.stderr)
            self.assertIn(why.encode(), got.stderr)

    def test_with_best_effort_prompts_wait_for_nothing_and_say_the_same(self):
        cold = self.reference(2)
        site = Site(self, kvcache__fetch_policy='best_effort').start(*ROLES, 'kvstore').ready()
        for _ in range(3):
            said, _ = site.talk(2)
            self.assertEqual(said, cold)
        self.assertGreater(site.sum('prefill', 'hits_hurried'), 0)
        self.assertEqual(site.sum('prefill', 'hits_hurried'), site.sum('kv_fetch', 'fetches_hurried'))
        self.assertEqual(site.sum('prefill', 'blocks_bad'), 0)

    def purge(self, *args, **how):
        got = self.cluster.command('kv', 'purge', '--cluster', self.cluster.name, '--json', *args, **how)
        return got.returncode, json.loads(got.stdout) if got.stdout else {}, got.stderr

    def first_turn(self, site, key):
        return site.cached(site.ask([system(), {'role': 'user', 'content': LINES[30]}], key))

    def test_a_purged_tenant_is_cold_and_another_stays_warm(self):
        site = Site(self, kvstore__group_blocks=2).start(*ROLES, 'kvstore-a', 'kvstore-b').ready(stores=2)
        said, _ = site.talk(2, key='alice')
        site.talk(2, key='bob')
        self.assertGreater(self.first_turn(site, 'alice'), 256)
        site.settle()
        stored = site.sum('kv_store', 'blocks')
        code, answer, why = self.purge('--key-from-stdin', text='alice\n')
        self.assertEqual(code, 0, why)
        self.assertTrue(answer['complete'])
        bearer, api_key = answer['orders']
        self.assertGreater(bearer['blocks'], 0)
        self.assertGreater(bearer['bytes'], 0)
        self.assertEqual(api_key['blocks'], 0)  # that tenant never came
        self.assertEqual(bearer['stores'], 2)
        self.assertEqual(site.sum('kv_store', 'blocks'), stored - bearer['blocks'])
        self.assertEqual(self.first_turn(site, 'alice'), 0)
        self.assertGreater(self.first_turn(site, 'bob'), 256)
        # what she sends again is stored again, at once, and changes no token
        site.settle()
        again, hits = site.talk(2, key='alice')
        self.assertEqual(again, said)
        self.assertGreater(hits[0], 256)
        # a tenant that nobody knows is no mistake; a name that nobody can have is
        code, answer, _ = self.purge('--tenant', 'nobody')
        self.assertEqual((code, answer['orders'][0]['blocks']), (0, 0))
        self.assertEqual(self.purge('--tenant', 'a b')[0], 2)
        self.assertEqual(self.purge()[0], 2)
        got = self.cluster.command('kv', 'purge', '--cluster', self.cluster.name, '--tenant', 'anonymous')
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout.decode().splitlines()[0], 'tenant anonymous: nothing of it was stored')

    def test_a_purge_names_the_store_that_is_down_and_is_done_when_it_is_back(self):
        site = Site(self, kvstore__group_blocks=2).start(*ROLES, 'kvstore-a', 'kvstore-b').ready(stores=2)
        site.talk(2, key='alice')
        site.settle()
        kept = site.gateway.counter('kv_store', 'blocks', site.nodes['kvstore-b'].id)
        site.kill('kvstore-b')
        wait_until('one store left', lambda: site.sum('kv_check', 'stores') == 1)
        code, answer, _ = self.purge('--key-from-stdin', text='alice')
        self.assertEqual(code, 1)
        self.assertFalse(answer['complete'])
        problems = [o for o in answer['orders'][0]['outcomes'] if o['problem']]
        self.assertEqual([(o['kind'], 'down' in o['problem']) for o in problems], [('kvstore', True)])
        got = self.cluster.command('kv', 'purge', '--cluster', self.cluster.name, '--key-from-stdin', text='alice')
        self.assertEqual(got.returncode, 1)
        self.assertIn('NOT DONE: kvstore', got.stdout.decode())
        site.start('kvstore-b').ready(stores=2)
        code, answer, why = self.purge('--key-from-stdin', text='alice')
        self.assertEqual((code, answer.get('complete')), (0, True), (why, answer))
        self.assertEqual(answer['orders'][0]['blocks'], kept)
        self.assertEqual(self.first_turn(site, 'alice'), 0)
        # clocks: nothing to do, and said so
        got = self.cluster.command('kv', 'acknowledge-clock', '--cluster', self.cluster.name)
        self.assertEqual((got.returncode, got.stdout), (0, b'none of 2 stores waited for it\n'))
        # without any store nothing is done, and that is no success
        site.kill('kvstore-a', 'kvstore-b')
        wait_until('no store left', lambda: site.sum('kv_check', 'stores') == 0)
        self.assertEqual(self.purge('--tenant', 'bob')[0], 1)
        self.assertEqual(self.cluster.command('kv', 'purge', '--cluster', 'no-such', '--tenant', 'bob').returncode, 3)

    def check_metrics(self, site, hits):
        """Where the time of hits went, by the node that spent it, and nothing of whose they were."""
        def series(role):
            text = cluster.call(site.nodes[role].console, 'GET', '/metrics')[2].decode()
            self.assertNotRegex(text, r'alice|[0-9a-f]{32}')
            return {name: float(value) for name, value in
                    re.findall(r'^(deepinfer_cache_\S+) (\S+)$', text, re.M)}
        checked, computed = series('gateway,controller'), series('prefill')
        self.assertEqual(checked['deepinfer_cache_match_seconds_count'], 4)
        self.assertEqual(checked['deepinfer_cache_fetch_seconds_count'], 0)
        for way in ('fetch', 'swap'):
            name = f'deepinfer_cache_{way}'
            self.assertEqual(computed[f'{name}_seconds_count'], hits)
            self.assertGreater(computed[f'{name}_seconds_sum'], 0)
            self.assertGreater(computed[f'{name}_bytes_total'], 0)
            buckets = [v for n, v in computed.items() if n.startswith(f'{name}_seconds_bucket')]
            self.assertEqual((len(buckets), max(buckets)), (19, hits))
        self.assertEqual(computed['deepinfer_cache_ring_pull_seconds_count'],
                         site.sum('prefill', 'rings_pulled'))
        self.assertEqual(computed['deepinfer_cache_match_seconds_count'], 0)
        stored = series('kvstore')
        self.assertGreater(stored['deepinfer_cache_store_write_seconds_count'], 0)
        self.assertGreater(stored['deepinfer_cache_store_write_bytes_total'], 0)

    def test_an_operator_sees_purges_and_verifies(self):
        site = Site(self).start(*ROLES, 'kvstore').ready()
        _, hits = site.talk(2)
        _, again = site.talk(2)
        got = self.cluster.command('console', 'kv', '--json', '--cluster', self.cluster.name)
        self.assertEqual(got.returncode, 0, got.stderr)
        view = json.loads(got.stdout)
        self.assertGreater(view['stores'][0]['blocks'], 0)
        totals = view['totals']
        # what clients were told: three of four prompts found their beginning
        self.assertEqual(totals['hit_tokens_chat'], sum(hits) + sum(again))
        self.assertEqual(totals['hit_blocks_chat'] * 128, totals['hit_tokens_chat'])
        self.assertGreater(totals['asked_tokens_chat'], totals['hit_tokens_chat'])
        self.assertGreaterEqual(totals['found_tokens_chat'], totals['hit_tokens_chat'])
        self.assertEqual(totals['asked_tokens_agent'], 0)
        self.assertGreaterEqual(totals['store_read_bytes_per_s'], 0)
        self.assertGreater(view['engines'][0]['hits_used'], 0)
        self.check_metrics(site, view['engines'][0]['hits_used'])
        table = self.cluster.command('console', 'kv', '--cluster', self.cluster.name)
        self.assertEqual(table.returncode, 0, table.stderr)
        site.nodes.pop('kvstore').terminate()
        got = self.cluster.command('kv', 'verify', os.path.join(self.cluster.folder, 'kvstore', '0'), '--json')
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertGreater(json.loads(got.stdout)['blocks'], 0)


if __name__ == '__main__':
    cluster.main()
