#!/usr/bin/env python3
"""Several answers to one request, and how likely their tokens were. choices_test.py BINARY"""

import json
import math
import time

import cluster
from cluster import MODEL, Connection, ask, chat_body, wait_until

PROMPT = 'Tell me a story about a cat.'
# Sampled, so that the choices differ, and long enough to be looked at on the way.
HOT = chat_body(PROMPT, temperature=1, seed=11, max_tokens=60, ignore_eos=True)
TOLD = {'logprobs': True, 'top_logprobs': 3}


class Streamed:
    """The events of a streamed answer, put together by choice."""

    def __init__(self, address, body):
        self.connection = Connection(address)
        self.connection.send('POST', '/v1/chat/completions', dict(body, stream=True))
        self.status, _ = self.connection.head()
        assert self.status == 200, self.status
        self.source = self.connection.events()
        self.text, self.finish, self.logprobs, self.events = {}, {}, {}, 0
        self.done, self.error = False, None

    def read(self, events=10 ** 9):
        while self.events < events:
            data = next(self.source, None)
            if data is None:
                break
            self.events += 1
            if data == '[DONE]':
                self.done = True
                continue
            event = json.loads(data)
            self.error = event.get('error') or self.error
            for choice in event.get('choices', ()):
                self.take(choice)
        if self.done:
            self.connection.close()
        return self

    def take(self, choice):
        index = choice['index']
        assert index not in self.finish, f'choice {index} goes on behind its end'
        self.text[index] = self.text.get(index, '') + (choice['delta'].get('content') or '')
        told = (choice.get('logprobs') or {}).get('content') or []
        self.logprobs.setdefault(index, []).extend(told)
        if choice['finish_reason']:
            self.finish[index] = choice['finish_reason']


def texts(answer):
    return {c['index']: c['message']['content'] for c in answer['choices']}


class Choices(cluster.ClusterTest):
    def whole(self, node, **fields):
        status, answer = ask(node.http, dict(HOT, **fields))
        self.assertEqual(status, 200, answer)
        return answer

    def wait_idle(self, *nodes):
        for node in nodes:
            for kind, name in (('gateway', 'places'), ('gateway', 'open'), ('prefill', 'sequences'),
                               ('decode', 'sequences'), ('prefill', 'staged'),
                               ('decode', 'receivers')):
                wait_until(f'{kind} {name} at zero',
                           lambda n=node, k=kind, c=name: n.counter(k, c) == 0)

    def test_one_process_and_three_give_the_same_choices(self):
        alone = self.cluster.start('--model', MODEL, '--roles', 'all', '--cluster', 'alone')
        alone.wait_ready()
        answer = self.whole(alone, n=4, **TOLD)
        self.check_choices(alone, answer)
        nodes = self.cluster.start_roles('gateway,controller', 'prefill', 'decode')
        nodes[0].wait_ready()
        again = self.whole(nodes[0], n=4, **TOLD)
        self.assertEqual([c['logprobs'] for c in again['choices']],
                         [c['logprobs'] for c in answer['choices']])
        self.assertEqual(again['usage'], answer['usage'])
        stream = Streamed(nodes[0].http, dict(HOT, n=4, **TOLD)).read()
        self.assertTrue(stream.done)
        self.assertEqual(stream.text, texts(answer))
        for choice in answer['choices']:
            self.assertEqual(stream.finish[choice['index']], choice['finish_reason'])
            self.assertEqual(stream.logprobs[choice['index']], choice['logprobs']['content'])
        self.wait_idle(alone, nodes[0])

    def check_choices(self, node, answer):
        self.assertEqual(sorted(texts(answer)), [0, 1, 2, 3])
        self.assertEqual(len(set(texts(answer).values())), 4)
        self.assertEqual(answer['usage']['completion_tokens'], 4 * 60)
        # The first is what a request for one gets, and nothing changes when nobody is told.
        self.assertEqual(texts(self.whole(node))[0], texts(answer)[0])
        self.assertEqual(texts(self.whole(node, n=4)), texts(answer))
        for choice in answer['choices']:
            rows = choice['logprobs']['content']
            self.assertEqual(b''.join(bytes(r['bytes']) for r in rows).decode(errors='replace'),
                             choice['message']['content'])
            for row in rows:
                best = [b['logprob'] for b in row['top_logprobs']]
                self.assertEqual(len(best), 3)
                self.assertEqual(best, sorted(best, reverse=True))
                self.assertLessEqual(sum(map(math.exp, best)), 1.00001)
                self.assertLessEqual(row['logprob'], best[0])

    def test_a_decode_engine_dies_and_every_choice_goes_on(self):
        nodes = self.cluster.start_roles('gateway,controller', 'prefill', 'decode', 'decode')
        gateway, _, *decodes = nodes
        wait_until('all see all', lambda: all(
            node.sees(*(set(nodes) - {node})) for node in nodes))
        gateway.wait_ready()
        body = dict(HOT, n=3, max_tokens=1000, **TOLD)
        reference = Streamed(gateway.http, body).read()
        stream = Streamed(gateway.http, body).read(events=30)
        busy, _ = wait_until('an engine at work', lambda: next(
            (n for n in decodes if gateway.counter('decode', 'sequences', n.id)), None))
        busy.kill()
        stream.read()
        self.assertTrue(stream.done, stream.error)
        self.assertEqual(stream.text, reference.text)
        self.assertEqual(stream.finish, reference.finish)
        self.assertEqual(stream.logprobs, reference.logprobs)
        self.wait_idle(gateway)

    def test_limits_and_a_client_that_leaves(self):
        node = self.cluster.start('--model', MODEL, '--set', 'gateway.max_open_requests=5',
                                  '--set', 'request.max_choices=6')
        node.wait_ready()
        status, answer = ask(node.http, dict(HOT, n=7))
        self.assertEqual(status, 400)
        self.assertIn('n', answer['error']['message'])
        status, answer = ask(node.http, dict(HOT, n=6))
        self.assertEqual(status, 503)
        self.assertIn('max_open_requests', answer['error']['message'])
        stream = Streamed(node.http, dict(HOT, n=4, max_tokens=7000)).read(events=12)
        self.assertEqual(node.counter('gateway', 'places'), 4)
        shown = [a['state'] for a in node.topology()['actors'] if a['kind'] == 'request']
        self.assertEqual(len(shown), 1)
        for number in range(4):
            self.assertIn(f'choice {number} ', shown[0])
        status, answer = ask(node.http, dict(HOT, n=2))
        self.assertEqual(status, 503)
        begun = time.monotonic()
        stream.connection.close()
        self.wait_idle(node)
        self.report('all choices of a client that left are gone', time.monotonic() - begun)
        self.assertEqual(len(self.whole(node, n=5)['choices']), 5)


if __name__ == '__main__':
    cluster.main()
