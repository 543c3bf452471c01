#!/usr/bin/env python3
"""Each role is killed in the middle of a stream, and comes back. faults_test.py BINARY"""

import concurrent.futures
import signal
import time

import cluster
from cluster import MODEL, SEEN_WITHIN, Stream, ask, chat_body, wait_until

# Sampled, not greedy: the text does not repeat itself, so that a lost or doubled token shows.
LONG = chat_body('Tell me a story about a cat.', temperature=1, seed=7, ignore_eos=True,
                 max_tokens=2000)
SHORT = chat_body('Hello!')
SERVES_AGAIN_WITHIN = 5 + 5  # the promise is 5 s; the rest is for a loaded two-core machine


class Faults(cluster.ClusterTest):
    def start(self, *roles):
        nodes = self.cluster.start_roles(*roles)
        wait_until('all see all', lambda: all(
            node.sees(*(set(nodes) - {node})) for node in nodes))
        nodes[0].wait_ready()
        return nodes

    def start_again(self, roles, old, gateway=None):
        """A new process takes the place of `old`: an answer within seconds, under a new epoch."""
        epoch = int(old.epoch)
        begun = time.monotonic()
        new = self.cluster.start_roles(roles)[0]
        gateway = gateway or new
        answer, _ = wait_until('an answer after the return', lambda: answer_of(gateway),
                               SERVES_AGAIN_WITHIN)
        took = time.monotonic() - begun
        self.report(f'{roles} back and serving', took)
        self.assertEqual(answer, 'Hello! How can I help you?')
        self.assertLess(took, SERVES_AGAIN_WITHIN)
        self.assertNotEqual(new.id, old.id)
        self.assertGreater(gateway.epoch_of(new), epoch)
        return new

    def kill(self, node, observer):
        node.epoch = observer.epoch_of(node)
        node.kill()

    def test_prefill_killed_the_stream_goes_on(self):
        gateway, prefill, _ = self.start('gateway,controller', 'prefill', 'decode')
        reference = Stream(gateway.http, LONG).read_all()
        stream = Stream(gateway.http, LONG).read_events(20)
        self.kill(prefill, gateway)
        self.assert_complete(stream.read_all(), reference)
        status, answer = ask(gateway.http, SHORT)
        self.assertEqual(status, 503, answer)
        self.assertIn('message', answer['error'])
        self.start_again('prefill', prefill, gateway)

    def test_prefill_killed_while_it_reads_prompts_another_takes_them(self):
        gateway, *engines = self.start('gateway,controller', 'prefill', 'prefill', 'decode')
        body = chat_body('Tell me a story about a cat. ' * 120, max_tokens=20, ignore_eos=True)
        reference = Stream(gateway.http, body).read_all()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            streams = [pool.submit(lambda: Stream(gateway.http, body).read_all())
                       for _ in range(4)]
            busy, _ = wait_until('a prefill at work', lambda: next(
                (n for n in engines[:2] if gateway.counter('prefill', 'sequences', n.id)), None),
                every=0.01)
            busy.kill()
            for stream in streams:
                self.assert_complete(stream.result(), reference)

    def test_decode_killed_another_goes_on_token_for_token(self):
        gateway, _, *decodes = self.start('gateway,controller', 'prefill', 'decode', 'decode')
        bodies = [dict(LONG, seed=seed) for seed in range(4)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            references = list(pool.map(lambda b: Stream(gateway.http, b).read_all(), bodies))
            streams = list(pool.map(
                lambda b: Stream(gateway.http, b).read_events(10), bodies))
            # least work puts two on each, unless the last reports of the references' end were late
            busy, _ = wait_until('an engine at work', lambda: next(
                (n for n in decodes if gateway.counter('decode', 'sequences', n.id)), None),
                every=0.01)
            self.kill(busy, gateway)
            for stream, reference in zip(pool.map(Stream.read_all, streams), references):
                self.assert_complete(stream, reference)
        self.report('longest pause in a stream', max(s.longest_pause for s in streams))
        self.assertGreater(gateway.counter('prefill', 'accepted'), 8, 'nothing was re-routed')
        self.start_again('decode', busy, gateway)

    def test_decode_frozen_another_goes_on_and_its_return_does_no_harm(self):
        gateway, _, *decodes = self.start('gateway,controller', 'prefill', 'decode', 'decode')
        reference = Stream(gateway.http, LONG).read_all()
        stream = Stream(gateway.http, LONG).read_events(20)
        frozen, _ = wait_until('an engine at work', lambda: next(
            (n for n in decodes if gateway.counter('decode', 'sequences', n.id)), None))
        frozen.signal(signal.SIGSTOP)
        stream.read_events(stream.events + 40)
        frozen.signal(signal.SIGCONT)
        self.assert_complete(stream.read_all(), reference)
        self.report('longest pause in a stream', stream.longest_pause)
        _, took = wait_until('the frozen one is back', lambda: gateway.sees(
            *(set(self.cluster.nodes) - {gateway})))
        self.report('back after SIGCONT', took)
        self.assertEqual(answer_of(gateway), 'Hello! How can I help you?')
        wait_until('nothing is left of the old leg', lambda: frozen.counter(
            'decode', 'sequences') == 0, SEEN_WITHIN)

    def test_the_only_decode_killed_is_a_clean_error(self):
        gateway, _, decode = self.start('gateway,controller', 'prefill', 'decode')
        stream = Stream(gateway.http, LONG).read_events(20)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            whole = pool.submit(ask, gateway.http, dict(LONG, max_tokens=2000))
            wait_until('both decode', lambda: gateway.counter('decode', 'sequences') == 2)
            self.kill(decode, gateway)
            begun = time.monotonic()
            stream.read_all()
            took = time.monotonic() - begun
            self.report('error after the kill', took)
            self.assertTrue(stream.is_clean_error(), stream.error)
            self.assertLess(took, 3 + SEEN_WITHIN)  # request.route_wait is 3 s
            status, answer = whole.result()
        self.assertEqual(status, 503, answer)
        self.assertLessEqual({'message', 'type', 'param', 'code'}, set(answer['error']))
        self.start_again('decode', decode, gateway)

    def test_gateway_killed_the_engines_drop_its_sequences(self):
        gateway, prefill, decode = self.start('gateway,controller', 'prefill', 'decode')
        streams = [Stream(gateway.http, dict(LONG, max_tokens=4000)).read_events(5)
                   for _ in range(3)]
        wait_until('decoding', lambda: prefill.counter('decode', 'sequences') == 3)
        self.kill(gateway, prefill)
        _, took = wait_until('sequences dropped', lambda: not any(
            prefill.counter(kind, name) for kind in ('prefill', 'decode')
            for name in ('sequences', 'requests_known', 'staged', 'transfers')), SEEN_WITHIN)
        self.report('sequences dropped', took)
        for stream in streams:
            with self.assertRaises((cluster.Broken, ConnectionError)):
                stream.read_all()
            stream.close()
        self.start_again('gateway,controller', gateway)
        self.assertTrue(decode.process.poll() is None and prefill.process.poll() is None)


def answer_of(gateway):
    """The text of a short answer, or nothing when there is none yet."""
    try:
        status, answer = ask(gateway.http, SHORT, timeout=10)
    except OSError:
        return None
    return answer['choices'][0]['message']['content'] if status == 200 else None


if __name__ == '__main__':
    cluster.main()
