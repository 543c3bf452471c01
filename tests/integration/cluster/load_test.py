#!/usr/bin/env python3
"""Many requests over five processes: every answer equal, nothing grows. load_test.py BINARY"""

import concurrent.futures
import os
import random
import threading
import time

import cluster
from cluster import Connection, Stream, ask, chat_body, wait_until

REQUESTS = int(os.environ.get('LOAD_REQUESTS', '300'))
AT_A_TIME = 16
NAMES = ('hello', 'who', 'sum', 'repeat', 'reverse', 'opposite', 'two_turns', 'count', 'json')


def resident_kib(node):
    with open(f'/proc/{node.process.pid}/status', encoding='ascii') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('VmRSS'))


def descriptors(node):
    return len(os.listdir(f'/proc/{node.process.pid}/fd'))


def threads(node):
    return len(os.listdir(f'/proc/{node.process.pid}/task'))


class Load(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.nodes = self.cluster.start_roles('gateway,controller', 'prefill', 'prefill', 'decode',
                                              'decode')
        self.gateway = self.nodes[0]
        wait_until('all engines', lambda: all(
            n.sees(*(set(self.nodes) - {n})) for n in self.nodes))
        self.gateway.wait_ready()
        samples = cluster.samples()
        self.jobs = [(chat_body(samples[name]['messages']), samples[name]['content'])
                     for name in NAMES]
        # Sampled ones too: their texts do not repeat, so that a swapped token shows.
        for seed in range(6):
            body = chat_body('Tell me a bedtime story.', temperature=1, seed=seed, max_tokens=40)
            self.jobs.append((body, ask(self.gateway.http, body)[1]['choices'][0]['message']
                              ['content']))

    def one(self, number):
        """One request of a mixed kind; what is wrong with its answer, or nothing."""
        body, expected = self.jobs[number % len(self.jobs)]
        kind = number % 4
        if kind == 3:  # a client that leaves in the middle
            Stream(self.gateway.http, dict(body, max_tokens=200, ignore_eos=True)) \
                .read_events(1 + number % 5).close()
            return None
        if kind == 2:
            status, answer = ask(self.gateway.http, body)
            got = answer['choices'][0]['message']['content'] if status == 200 else answer
        else:
            stream = Stream(self.gateway.http, body).read_all()
            got = stream.content if stream.is_complete() else stream.error
        return None if got == expected else (number, got, expected)

    def run_all(self, numbers):
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            wrong = [w for w in pool.map(self.one, numbers) if w]
        self.assertEqual(wrong, [])

    def assert_idle(self):
        def probe():
            return not any(
                actor['counters'].get(name, 0)
                for actor in self.gateway.topology()['actors']
                if actor['kind'] in ('prefill', 'decode', 'gateway')
                for name in ('sequences', 'requests_known', 'transfers', 'open', 'staged'))
        wait_until('all idle', probe, 10)

    def measure(self):
        self.assert_idle()
        return {what.__name__: [what(node) for node in self.nodes]
                for what in (resident_kib, descriptors, threads)}

    def test_every_answer_is_right_and_nothing_grows(self):
        numbers = list(range(REQUESTS))
        random.Random(1).shuffle(numbers)
        third = REQUESTS // 3
        self.run_all(numbers[:third])  # buffers, arenas and thread pools reach their size
        before = self.measure()
        begun = time.monotonic()
        self.run_all(numbers[third:])
        self.report(f'{REQUESTS - third} requests', time.monotonic() - begun)
        after = self.measure()
        print('before', before, '\nafter ', after)
        for count, later in zip(before['descriptors'], after['descriptors']):
            self.assertLessEqual(later, count + 2)
        for count, later in zip(before['threads'], after['threads']):
            self.assertLessEqual(later, count + 1)
        # An arena more or less is the allocator's; a leak of one sequence's state is 1 MiB each.
        for kib, later in zip(before['resident_kib'], after['resident_kib']):
            self.assertLess(later, kib + 24 * 1024)
        for kind in ('prefill', 'decode'):
            shares = [self.gateway.counter(kind, 'accepted', n.id) for n in self.nodes]
            print(kind, shares, 'failed', self.gateway.counter(kind, 'failed'),
                  self.gateway.counter(kind, 'transfers_failed'),
                  'wasted', self.gateway.counter(kind, 'tokens_wasted'))
            self.assertEqual(self.gateway.counter(kind, 'failed'), 0)
            self.assertEqual(sorted(shares)[3:], sorted(s for s in shares if s))

    def many_short(self, count):
        def some(_):
            with Connection(self.gateway.http) as one:
                for _ in range(count // 8):
                    status, _, data = one.call('POST', '/v1/chat/completions',
                                               chat_body('Hello!', max_tokens=2))
                    self.assertEqual(status, 200, data)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(some, range(8)))
        self.assert_idle()

    def test_the_gateway_keeps_nothing_of_requests_that_ended(self):
        self.many_short(800)  # arenas and the ring of log lines fill
        before = resident_kib(self.gateway)
        self.many_short(1600)
        grown = resident_kib(self.gateway) - before
        print('gateway grew by', grown, 'KiB over 1600 requests')
        # An actor that somebody still points to would be 1.8 KiB each.
        self.assertLess(grown, 1400)

    def test_engines_killed_under_load_never_cut_or_bend_an_answer(self):
        stop = threading.Event()
        outcomes = []

        def client(number):
            chosen = random.Random(number)
            while not stop.is_set():
                body, expected = chosen.choice(self.jobs)
                stream = Stream(self.gateway.http, body).read_all()
                good = stream.is_complete() and stream.content == expected
                # an error may end an answer, but what came before it was right
                honest = stream.is_clean_error() and expected.startswith(stream.content)
                outcomes.append((good, honest, stream.error, stream.content, expected))

        clients = [threading.Thread(target=client, args=(n,)) for n in range(8)]
        for one in clients:
            one.start()
        engines, chosen = dict(enumerate(self.nodes[1:])), random.Random(1)
        for kill in range(6):
            place = chosen.randrange(4)
            time.sleep(chosen.uniform(0.3, 1.0))
            engines[place].kill()
            engines[place] = self.cluster.start_roles('prefill' if place < 2 else 'decode')[0]
            wait_until('the new engine is seen', lambda n=engines[place]: self.gateway.state_of(
                n) == 'alive')
        stop.set()
        for one in clients:
            one.join()
        lost = [o for o in outcomes if not o[0]]
        print(f'{len(outcomes)} answers, {len(lost)} ended with an error:',
              sorted({str(o[2]['code']) for o in lost if o[2]}))
        self.assertEqual([o for o in lost if not o[1]], [])
        # one engine of each role lived all the time: nearly everything was re-routed
        self.assertLess(len(lost), 1 + len(outcomes) // 20, lost)
        self.assert_idle()


if __name__ == '__main__':
    cluster.main()
