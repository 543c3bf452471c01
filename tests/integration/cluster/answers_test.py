#!/usr/bin/env python3
"""One process and three answer the same, and the console shows them. answers_test.py BINARY"""

import concurrent.futures
import json
import time

import cluster
from cluster import MODEL, Stream, ask, chat_body, wait_until

SAMPLES = cluster.samples()
PLAIN = {name: s for name, s in SAMPLES.items() if s['effort'] is None}
THOUGHT = {name: s for name, s in SAMPLES.items() if s['effort'] is not None}


class Answers(cluster.ClusterTest):
    def check_samples(self, address):
        for name, sample in PLAIN.items():
            with self.subTest(name):
                body = chat_body(sample['messages'])
                status, answer = ask(address, body)
                self.assertEqual(status, 200, answer)
                choice = answer['choices'][0]
                self.assertEqual(choice['message']['content'], sample['content'])
                self.assertEqual(choice['finish_reason'], 'stop')
                self.assertEqual(answer['usage']['prompt_tokens'], sample['prompt_tokens'])
                # the token that ends the answer is not part of it
                self.assertEqual(answer['usage']['completion_tokens'], sample['tokens'] - 1)
                stream = Stream(address, body).read_all()
                self.assertTrue(stream.is_complete(), stream.error)
                self.assertEqual(stream.content, sample['content'])
                self.assertEqual(stream.finish, 'stop')
                self.assertEqual(stream.usage, answer['usage'])

    def test_one_process_answers_as_the_model_does(self):
        node = self.cluster.start('--model', MODEL, '--roles', 'all')
        self.report('ready after node.started', node.wait_ready())
        self.check_samples(node.http)
        self.check_one_process_topology(node)

    def check_one_process_topology(self, node):
        # the process beside it, which fetches blocks, may just be joining: then it has no roles yet
        wait_until('one node', lambda: [n['id'] for n in node.topology()['nodes']] == [node.id])
        shown = node.topology()
        kinds = [actor['kind'] for actor in shown['actors'] if actor['node'] == node.id]
        for kind in ('node', 'membership', 'console', 'gateway', 'prefill', 'decode',
                     'prefill_balancer', 'decode_balancer'):
            self.assertEqual(kinds.count(kind), 1, kind)
        self.assertEqual(kinds.count('codec'), 2)
        self.assertEqual(kinds.count('batch'), 4)
        time.sleep(1)
        grown = node.topology()['nodes'][0]['uptime_s'] - shown['nodes'][0]['uptime_s']
        self.assertGreater(grown, 0.9)

    def test_thinking_answers_are_those_of_the_model(self):
        node = self.cluster.start('--model', MODEL, '--set',
                                  'recipe.thinking_forces_temperature=false')
        node.wait_ready()
        for name, sample in THOUGHT.items():
            with self.subTest(name):
                body = chat_body(sample['messages'], thinking={'type': 'enabled'},
                                 reasoning_effort=sample['effort'])
                stream = Stream(node.http, body).read_all()
                self.assertTrue(stream.is_complete(), stream.error)
                self.assertEqual(stream.reasoning, sample['reasoning'])
                self.assertEqual(stream.content, sample['content'])
                _, answer = ask(node.http, body)
                message = answer['choices'][0]['message']
                self.assertEqual(message['reasoning_content'], sample['reasoning'])
                self.assertEqual(message['content'], sample['content'])
                self.assertEqual(answer['usage']['prompt_tokens'], sample['prompt_tokens'])

    def test_three_processes_find_each_other_and_answer_the_same(self):
        nodes = self.cluster.start_roles('gateway,controller', 'prefill', 'decode')
        self.report('three processes ready', nodes[0].wait_ready())
        self.check_samples(nodes[0].http)
        for node in nodes:
            wait_until('all nodes seen', lambda n=node: n.sees(*(set(nodes) - {n})))
            self.check_command(node, nodes)

    def check_command(self, node, nodes):
        """`console topology --json` says the same from every node."""
        got = self.cluster.command('console', 'topology', '--json', '--url',
                                   'http://' + node.console)
        self.assertEqual(got.returncode, 0, got.stderr)
        shown = json.loads(got.stdout)
        self.assertEqual(shown['cluster'], self.cluster.name)
        self.assertEqual({n['id']: set(n['roles']) for n in shown['nodes']},
                         {nodes[0].id: {'gateway', 'controller'}, nodes[1].id: {'prefill'},
                          nodes[2].id: {'decode'}})
        self.assertEqual({n['address'] for n in shown['nodes']}, {n.fabric for n in nodes})
        self.assertTrue(all(n['epoch'] > 0 and n['state'] == 'alive' and n['uptime_s'] > 0
                            for n in shown['nodes']), shown['nodes'])
        self.assertEqual(shown['unreachable'], [])
        where = {(actor['kind'], actor['node']) for actor in shown['actors']}
        self.assertLessEqual({
            ('gateway', nodes[0].id), ('prefill_balancer', nodes[0].id),
            ('decode_balancer', nodes[0].id), ('prefill', nodes[1].id), ('decode', nodes[2].id),
            *(('membership', n.id) for n in nodes), *(('console', n.id) for n in nodes),
            *(('node', n.id) for n in nodes)}, where)
        for actor in shown['actors']:
            self.assertLessEqual({'kind', 'id', 'node', 'state', 'mailbox', 'counters'},
                                 set(actor))
        by_place = {f"{actor['id']}@{actor['node']}": actor['kind'] for actor in shown['actors']}
        self.assertEqual(len(by_place), len(shown['actors']), 'an actor is shown twice')
        edges = {}
        for edge in shown['edges']:
            pair = by_place.get(edge['from']), by_place.get(edge['to'])
            edges[pair] = edges.get(pair, 0) + edge['messages']
        for pair in (('prefill_balancer', 'prefill'), ('decode_balancer', 'decode'),
                     ('prefill', 'prefill_balancer'), ('decode', 'decode_balancer'),
                     ('prefill', 'batch'), ('batch', 'decode'), ('membership', 'membership')):
            self.assertGreater(edges.get(pair, 0), 0, pair)

    def test_engines_of_a_role_share_the_load(self):
        nodes = self.cluster.start_roles('gateway,controller', 'prefill', 'prefill', 'decode',
                                         'decode')
        gateway = nodes[0]
        wait_until('all engines', lambda: engines(gateway) == (2, 2))
        wanted = [PLAIN[name] for name in ('story_cat', 'story_boat', 'story_lily', 'who')] * 3
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            streams = list(pool.map(
                lambda s: Stream(gateway.http, chat_body(s['messages'])).read_all(), wanted))
        for stream, sample in zip(streams, wanted):
            self.assertTrue(stream.is_complete(), stream.error)
            self.assertEqual(stream.content, sample['content'])
        accepted = {kind: [gateway.counter(kind, 'accepted', n.id) for n in nodes[a:a + 2]]
                    for kind, a in (('prefill', 1), ('decode', 3))}
        print('accepted', accepted)
        for kind, counts in accepted.items():
            self.assertEqual(sum(counts), 12, kind)
            self.assertGreater(min(counts), 0, accepted)


def engines(gateway):
    """(prefill, decode) engines that accept, as the gateway knows them."""
    health = json.loads(cluster.call(gateway.http, 'GET', '/health')[2])
    return health.get('prefill_engines', 0), health.get('decode_engines', 0)


if __name__ == '__main__':
    cluster.main()
