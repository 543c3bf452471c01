#!/usr/bin/env python3
"""The gateway under good, bad and vanishing clients. gateway_test.py BINARY"""

import concurrent.futures
import json
import resource
import socket
import time

import cluster
from cluster import MODEL, Connection, Stream, ask, call, chat_body, wait_until

CHAT = '/v1/chat/completions'
COUNTING = chat_body('Count from 3 to 9.')
COUNTED = '3, 4, 5, 6, 7, 8, 9, 10, 11, 12'
ENDLESS = chat_body('Tell me a story about a cat.', ignore_eos=True, max_tokens=6000)


class WithGateway(cluster.ClusterTest):
    settings = ()

    def setUp(self):
        super().setUp()
        more = [part for setting in self.settings for part in ('--set', setting)]
        self.node = self.cluster.start('--model', MODEL, *more)
        self.node.wait_ready()

    def assert_problem(self, answer, status, said=''):
        """An error in the shape that OpenAI's clients parse."""
        got, headers, data = answer
        self.assertEqual(got, status, data)
        self.assertEqual(headers['content-type'], 'application/json')
        error = json.loads(data)['error']
        self.assertEqual(set(error), {'message', 'type', 'param', 'code'})
        self.assertTrue(error['message'] and error['type'] and error['code'], error)
        self.assertIn(said, error['message'] + str(error['code']))

    def assert_nothing_left(self, within):
        """All memory of requests is back: counted by the engines and the gateway themselves."""
        left = []

        def probe():
            left[:] = [
                (actor['kind'], name, actor['counters'][name], actor['state'])
                for actor in self.node.topology()['actors']
                if actor['kind'] in ('prefill', 'decode', 'gateway')
                for name in ('sequences', 'requests_known', 'staged', 'transfers', 'open')
                if actor['counters'].get(name, 0)]
            return not left
        try:
            self.report('nothing left', wait_until('all memory back', probe, within, 0.02)[1])
        except AssertionError as late:
            self.fail(f'{late}: {left}')


class Refusals(WithGateway):
    settings = ('http.body_bytes=100000',)

    def test_wrong_requests_are_refused_and_the_connection_lives_on(self):
        wrong = {
            'n': 9, 'model': 5, 'messages': 'x', 'temperature': 'hot', 'max_tokens': -1,
            'stream': 'yes', 'stop': 5, 'seed': 'x', 'top_p': 3, 'ignore_eos': 1,
            'reasoning_effort': 'much', 'thinking': {'type': 'perhaps'}}
        with Connection(self.node.http) as one:
            for name, value in wrong.items():
                with self.subTest(name):
                    self.assert_problem(one.call('POST', CHAT, dict(chat_body(), **{name: value})),
                                        400, name)
            for body in (b'{"model":', b'[]', b'', b'[' * 5000, b'{"model":"\xff"}'):
                with self.subTest(body[:20]):
                    self.assert_problem(one.call('POST', CHAT, body), 400)
            self.assert_problem(one.call('POST', CHAT, chat_body([])), 400, 'messages')
            self.assert_problem(one.call('POST', CHAT, chat_body(
                [{'role': 'king', 'content': 'x'}])), 400, 'role')
            self.assert_problem(one.call('POST', CHAT, dict(chat_body(), model='gpt')), 404,
                                'model_not_found')
            self.assert_problem(one.call('POST', CHAT, chat_body('word ' * 9000)), 400, '8192')
            self.assert_problem(one.call('POST', CHAT, chat_body(max_tokens=9000)), 400, '8192')
            self.assert_problem(one.call('GET', '/v1/nothing'), 404)
            self.assert_problem(one.call('GET', CHAT), 405)
            self.assertEqual(one.call('GET', CHAT)[1]['allow'], 'POST')
            self.assert_problem(one.call('POST', '/v1/models', b'{}'), 405)
            # after all of that, on the same connection
            for path in ('/v1/models', '/live', '/ready', '/health'):
                status, whole, data = one.call('GET', path)
                self.assertEqual(status, 200, path)
                status, headers, body = one.call('HEAD', path)
                self.assertEqual((status, body), (200, b''), path)
                self.assertEqual(headers['content-length'], whole['content-length'], path)
                self.assertEqual(int(whole['content-length']), len(data))
            status, _, data = one.call('POST', CHAT, COUNTING)
            self.assertEqual(status, 200, data)
            one.send('POST', CHAT, dict(COUNTING, stream=True))
            self.assertEqual(one.head()[0], 200)
            self.assertEqual(list(one.events())[-1], '[DONE]')
            self.assertEqual(one.call('GET', '/live')[0], 200)
        self.assert_nothing_left(5)

    def test_a_body_that_is_too_large_is_refused_before_it_is_read(self):
        self.assert_problem(call(self.node.http, 'POST', CHAT, b' ' * 200000), 413)
        with Connection(self.node.http) as one:
            one.socket.sendall(f'POST {CHAT} HTTP/1.1\r\nHost: x\r\n'
                               'Content-Length: 200000\r\n\r\n'.encode())
            status, _ = one.head()
            self.assertEqual(status, 413)


class FewConnections(WithGateway):
    settings = ('http.max_connections=8',)

    def test_one_connection_too_many_is_told_so(self):
        held = [Connection(self.node.http) for _ in range(8)]
        for one in held:
            self.assertEqual(one.call('GET', '/live')[0], 200)
        self.assert_problem(call(self.node.http, 'GET', '/live'), 503)
        held.pop().close()
        wait_until('a place is free', lambda: call(self.node.http, 'GET', '/live')[0] == 200)
        for one in held:
            self.assertEqual(one.call('GET', '/live')[0], 200)
            one.close()


class Options(WithGateway):
    def answer(self, body):
        status, answer = ask(self.node.http, body)
        self.assertEqual(status, 200, answer)
        choice = answer['choices'][0]
        return choice['message']['content'], choice['finish_reason'], answer['usage']

    def both(self, body):
        """(content, finish) of the answer, the same streamed and whole."""
        content, finish, usage = self.answer(body)
        stream = Stream(self.node.http, body).read_all()
        self.assertTrue(stream.is_complete(), stream.error)
        self.assertEqual((stream.content, stream.finish), (content, finish))
        self.assertEqual(stream.usage, usage)
        return content, finish, usage['completion_tokens']

    def test_stop_strings_and_lengths(self):
        self.assertEqual(self.both(COUNTING)[:2], (COUNTED, 'stop'))
        self.assertEqual(self.both(dict(COUNTING, stop=', 7'))[:2], ('3, 4, 5, 6', 'stop'))
        self.assertEqual(self.both(dict(COUNTING, stop=['10', '5, 6']))[:2], ('3, 4, ', 'stop'))
        self.assertEqual(self.both(dict(COUNTING, stop='none of it'))[:2], (COUNTED, 'stop'))
        self.assertEqual(self.both(dict(COUNTING, max_tokens=1)), ('3', 'length', 1))
        self.assertEqual(self.both(dict(COUNTING, max_tokens=5))[1:], ('length', 5))
        content, finish, tokens = self.both(dict(COUNTING, ignore_eos=True, max_tokens=60))
        self.assertTrue(content.startswith(COUNTED), content)
        self.assertEqual((finish, tokens), ('length', 60))
        self.assert_nothing_left(5)

    def test_a_seed_is_reproducible_and_another_differs(self):
        body = chat_body('Tell me a story about a cat.', temperature=1, seed=5, max_tokens=60)
        first = self.both(body)
        self.assertEqual(self.both(body), first)
        self.assertNotEqual(self.both(dict(body, seed=6)), first)

    def test_thinking_is_told_apart_and_usage_is_on_demand(self):
        body = chat_body('What is the capital of France?', thinking={'type': 'enabled'},
                         reasoning_effort='high', seed=1, max_tokens=200)
        stream = Stream(self.node.http, body).read_all()
        self.assertTrue(stream.is_complete(), stream.error)
        self.assertTrue(stream.reasoning and stream.content, stream.__dict__)
        self.assertNotIn('think>', stream.reasoning + stream.content)
        self.assertGreater(stream.usage['prompt_tokens'], 15)  # the effort is part of the prompt
        with Connection(self.node.http) as one:
            one.send('POST', CHAT, dict(COUNTING, stream=True))
            one.head()
            events = [json.loads(e) for e in one.events() if e != '[DONE]']
        self.assertTrue(all(event['choices'] for event in events))
        self.assertEqual({e['object'] for e in events}, {'chat.completion.chunk'})
        self.assertEqual(len({e['id'] for e in events}), 1)


class Crowd(WithGateway):
    def test_clients_that_leave_leave_nothing_behind(self):
        streams = [Stream(self.node.http, ENDLESS).read_events(3) for _ in range(6)]
        whole = [Connection(self.node.http) for _ in range(3)]
        for one in whole:
            one.send('POST', CHAT, ENDLESS)
        wait_until('nine at work', lambda: self.node.counter('gateway', 'open') == 9)
        for one in (*streams, *whole):
            one.close()
        self.assert_nothing_left(3)  # the promise is 1 s; the rest is for a loaded machine

    def test_a_client_that_does_not_read_does_not_hold_up_others(self):
        lazy = Stream(self.node.http, dict(ENDLESS, max_tokens=3000))
        lazy.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.assertEqual(ask(self.node.http, COUNTING)[1]['choices'][0]['message']['content'],
                         COUNTED)
        lazy.close()
        self.assert_nothing_left(3)

    def test_a_thousand_idle_connections_and_64_streams(self):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
        idle = [Connection(self.node.http) for _ in range(1000)]
        for one in idle:
            one.send('GET', '/live')
        for one in idle:
            self.assertEqual(one.head()[0], 200)
            one.buffer = b''
        bodies = [chat_body('Count from 3 to 9.', max_tokens=40)] * 64
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            streams = list(pool.map(lambda b: Stream(self.node.http, b), bodies))
            for stream in pool.map(Stream.read_all, streams):
                self.assertTrue(stream.is_complete(), stream.error)
                self.assertEqual(stream.content, COUNTED)
        for one in idle:
            one.send('GET', '/live')
        for one in idle:
            self.assertEqual(one.head()[0], 200)
            one.close()
        self.assert_nothing_left(5)


class Drain(WithGateway):
    settings = ('node.drain=2s',)  # a stream of 6000 tokens lasts longer on any machine

    def test_a_short_stream_ends_well_and_a_long_one_with_an_error(self):
        short = Stream(self.node.http, chat_body(
            'Tell me a story about a cat.', max_tokens=60)).read_events(3)
        endless = Stream(self.node.http, ENDLESS).read_events(3)
        keep = Connection(self.node.http)
        self.assertEqual(keep.call('GET', '/ready')[0], 200)
        begun = time.monotonic()
        self.node.process.terminate()
        wait_until('not ready', lambda: keep.call('GET', '/ready')[0] == 503)
        self.assertEqual(keep.call('POST', CHAT, COUNTING)[0], 503)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            pool.map(Stream.read_all, (short, endless))
        self.assertTrue(short.is_complete(), short.__dict__)
        self.assertTrue(endless.is_clean_error(), endless.__dict__)
        keep.close()
        self.assertEqual(self.node.process.wait(20), 0, self.node.log())
        took = time.monotonic() - begun
        self.report('stopped after', took)
        self.assertGreater(took, 1.5)  # the order to stop waits for open requests
        self.assertLess(took, 15)


class DrainOfWaiting(WithGateway):
    settings = ('node.drain=30s', 'prefill.max_sequences=1')

    def test_requests_that_still_wait_for_an_engine_are_served_before_the_node_ends(self):
        streams = [Stream(self.node.http, chat_body(f'Tell me a story about cat {i}.', max_tokens=80))
                   for i in range(6)]
        streams[0].read_events(2)
        self.node.process.terminate()
        with concurrent.futures.ThreadPoolExecutor(len(streams)) as pool:
            pool.map(Stream.read_all, streams)
        for stream in streams:
            self.assertTrue(stream.is_complete(), stream.__dict__)
        self.assertEqual(self.node.process.wait(40), 0, self.node.log())


if __name__ == '__main__':
    cluster.main()
