#!/usr/bin/env python3
"""A prompt of a million tokens, and larger ones, beside a health check and somebody else's stream.
Checks the answers and prints how long the others waited. huge_prompt_test.py BINARY"""

import json
import multiprocessing
import os
import random
import sys
import time

import cluster
from cluster import MODEL, Connection, Stream, call, chat_body

CHAT = '/v1/chat/completions'
MEBIBYTE = 1 << 20


def watch_live(address, stop, out):
    """When each of many health checks was answered, and the seconds it took."""
    waits = []
    with Connection(address) as one:
        while not stop.is_set():
            begun = time.monotonic()
            status, _, _ = one.call('GET', '/live')
            now = time.monotonic()
            waits.append((now, now - begun))
            assert status == 200, status
            time.sleep(0.002)
    out.put(('/live', waits))


def watch_stream(address, stop, out):
    """When the events of streams came that go on meanwhile, and the seconds since the last one."""
    waits = []
    while not stop.is_set():
        stream = Stream(address, chat_body('Tell me a story about a cat.', max_tokens=4000,
                                           ignore_eos=True))
        stream.read_events(3)
        last = time.monotonic()
        while not stop.is_set() and stream.next():
            now = time.monotonic()
            waits.append((now, now - last))
            last = now
        stream.close()
    out.put(('stream', waits))


def watch_newcomers(address, stop, out):
    """When each of many short requests was answered, and the seconds it took."""
    waits = []
    with Connection(address) as one:
        while not stop.is_set():
            begun = time.monotonic()
            status, _, data = one.call('POST', CHAT, chat_body('Hello!', max_tokens=1))
            now = time.monotonic()
            waits.append((now, now - begun))
            assert status == 200, data
            time.sleep(0.01)
    out.put(('new request', waits))


class Watch:
    """Measures in processes of its own, so that this one's work does not count."""

    def __init__(self, address):
        self.stop, self.out = multiprocessing.Event(), multiprocessing.Queue()
        self.children = [multiprocessing.Process(target=what, args=(address, self.stop, self.out))
                         for what in (watch_live, watch_stream, watch_newcomers)]
        for child in self.children:
            child.start()

    def end(self, name, since=0.0):
        """Prints what came after `since`."""
        self.stop.set()
        for what, all_waits in sorted(self.out.get(timeout=30) for _ in self.children):
            waits = sorted(wait for when, wait in all_waits if when >= since)
            if not waits:
                raise AssertionError(f'{name}: {what} stood still')
            shown = [f'p{int(share * 100)} {waits[int(share * (len(waits) - 1))] * 1e3:.1f}'
                     for share in (0.5, 0.99)]
            print(f'{name}: {what} {", ".join(shown)}, most {waits[-1] * 1e3:.1f} ms of '
                  f'{len(waits)}', file=sys.stderr)
        for child in self.children:
            child.join(10)


def prose(size, seed):
    """Text of which no part comes twice, so that nothing is remembered."""
    with open(os.path.join(MODEL, 'samples.jsonl'), encoding='utf-8') as lines:
        words = ' '.join(json.loads(line)['output'].replace('<', '(') for line in lines).split(' ')
    chosen = random.Random(seed)
    out, length = [], 0
    while length < size:
        out.append(chosen.choice(words))
        length += len(out[-1]) + 1
    return ' '.join(out)[:size]


class HugePrompts(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.node = self.cluster.start('--model', MODEL)
        self.node.wait_ready()
        status, _, data = call(self.node.http, 'POST', '/tokenize', {'prompt': prose(100_000, 0)})
        self.assertEqual(status, 200, data[:200])
        self.size = round(1_000_000 * 100_000 / json.loads(data)['count'])

    def beside(self, name, path, body, status, check):
        """One huge request while others go on."""
        data = json.dumps(body, ensure_ascii=False).encode()
        watch = Watch(self.node.http)
        time.sleep(0.5)  # both watchers are at work
        begun = time.monotonic()
        got, _, answer = call(self.node.http, 'POST', path, data, timeout=120)
        took = time.monotonic() - begun
        time.sleep(0.2)  # what is freed is freed under their eyes
        watch.end(f'{name} ({len(data) / 1e6:.1f} MB, {took:.2f} s)', begun)
        self.assertEqual(got, status, answer[:300])
        check(json.loads(answer))

    def chat(self, text):
        return {'model': 'default', 'messages': [{'role': 'user', 'content': text}]}

    def test_others_go_on_while_huge_prompts_are_read(self):
        watch = Watch(self.node.http)
        time.sleep(1)
        watch.end('nothing else')

        def counted(answer):
            self.assertAlmostEqual(answer['count'], 1_000_000, delta=20_000)
            self.assertEqual(len(answer['tokens']), answer['count'])

        def too_long(answer):
            self.assertIn('8192', answer['error']['message'])
        million = prose(self.size, 1)
        self.beside('a million tokens, counted', '/tokenize', {'prompt': million}, 200, counted)
        million = prose(self.size, 2)
        self.beside('a million tokens, refused', CHAT, self.chat(million), 400, too_long)
        self.beside('the same again', CHAT, self.chat(million), 400, too_long)
        self.beside('10 MB of one letter', CHAT, self.chat('a' * 10_000_000), 400, too_long)
        self.beside('30 MB of prose', CHAT,
                    self.chat(prose(30_000_000, 3)), 400, too_long)
        self.beside('a hundred thousand messages', CHAT, {
            'model': 'default', 'messages': [{'role': 'user', 'content': 'Hello there!'}] * 100_000},
            400, too_long)
        self.beside('more than the body limit', CHAT, self.chat('a' * (32 * MEBIBYTE)), 413,
                    lambda answer: self.assertIn('http.body_bytes', answer['error']['message']))
        self.assertEqual(self.node.counter('gateway', 'open'), 0)


if __name__ == '__main__':
    cluster.main()
