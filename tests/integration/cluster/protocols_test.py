#!/usr/bin/env python3
"""The same answers in every protocol, streamed and whole: words, order of events, usage, ends and
errors. protocols_test.py BINARY"""

import json
import os
import time

import cluster
from cluster import MODEL, Broken, Connection, wait_until

COUNT, COUNTED = 'Count from 3 to 9.', '3, 4, 5, 6, 7, 8, 9, 10, 11, 12'
STORY = 'Tell me a story about a cat.'




class Chat:
    path = '/v1/chat/completions'
    length, stopped, called = 'length', 'stop', 'tool_calls'

    @staticmethod
    def body(prompt, thinking=False, max_tokens=100, stop=None, tools=None, **more):
        body = dict({'model': 'default', 'temperature': 0, 'max_tokens': max_tokens,
                     'messages': [{'role': 'user', 'content': prompt}],
                     'thinking': {'type': 'enabled' if thinking else 'disabled'}}, **more)
        if stop:
            body['stop'] = [stop]
        if tools:
            body['tools'] = [{'type': 'function', 'function': tool} for tool in tools]
        return body

    @staticmethod
    def read(whole):
        """(reasoning, text, calls, finish, (input, output)) of a body."""
        choice = whole['choices'][0]
        message = choice['message']
        calls = [(c['function']['name'], json.loads(c['function']['arguments']))
                 for c in message.get('tool_calls', [])]
        usage = whole['usage']
        return (message.get('reasoning_content') or '', message['content'] or '', calls,
                choice['finish_reason'], (usage['prompt_tokens'], usage['completion_tokens']))

    @staticmethod
    def join(test, events):
        """The body that a stream adds up to; checks the order of its events."""
        test.assertEqual(events.pop(), (None, '[DONE]'))
        message = {'content': ''}
        test.assertEqual(events[0][1]['choices'][0]['delta']['role'], 'assistant')
        for name, event in events:
            test.assertIsNone(name)
            test.assertEqual(event['object'], 'chat.completion.chunk')
            test.assertEqual(event['id'], events[0][1]['id'])
            choice = event['choices'][0]
            delta = choice['delta']
            for key in ('content', 'reasoning_content'):
                message[key] = message.get(key, '') + (delta.get(key) or '')
            for call in delta.get('tool_calls', []):
                calls = message.setdefault('tool_calls', [])
                if call['index'] == len(calls):
                    calls.append({'function': dict(call['function'])})
                else:
                    calls[call['index']]['function']['arguments'] += call['function']['arguments']
            test.assertEqual(choice['finish_reason'] is not None, event is events[-1][1])
        return {'choices': [{'message': message, 'finish_reason': choice['finish_reason']}],
                'usage': events[-1][1]['usage']}

    @staticmethod
    def stream_error(events):
        return events[-1][1]['error']

    @staticmethod
    def error(body):
        return body['error']


class Completions:
    path = '/v1/completions'
    length, stopped = 'length', 'stop'

    @staticmethod
    def body(prompt, thinking=False, max_tokens=100, stop=None, tools=None, **more):
        return dict({'model': 'default', 'temperature': 0, 'max_tokens': max_tokens,
                     'prompt': prompt}, **({'stop': stop} if stop else {}), **more)

    @staticmethod
    def read(whole):
        choice, usage = whole['choices'][0], whole['usage']
        return ('', choice['text'], [], choice['finish_reason'],
                (usage['prompt_tokens'], usage['completion_tokens']))

    @staticmethod
    def join(test, events):
        test.assertEqual(events.pop(), (None, '[DONE]'))
        texts = [event['choices'][0]['text'] for _, event in events]
        finish = [event['choices'][0]['finish_reason'] for _, event in events]
        test.assertEqual(finish[:-1], [None] * (len(finish) - 1))
        return {'choices': [{'text': ''.join(texts), 'finish_reason': finish[-1]}],
                'usage': events[-1][1]['usage']}

    stream_error, error = Chat.stream_error, Chat.error


class Responses:
    path = '/v1/responses'
    length, stopped, called = 'max_output_tokens', 'completed', 'completed'

    @staticmethod
    def body(prompt, thinking=False, max_tokens=100, stop=None, tools=None, **more):
        body = dict({'model': 'default', 'temperature': 0, 'max_output_tokens': max_tokens,
                     'input': prompt, 'reasoning': {'effort': 'high' if thinking else 'none'}},
                    **more)
        if tools:
            body['tools'] = [dict(tool, type='function') for tool in tools]
        return body

    @staticmethod
    def read(whole):
        reasoning = text = ''
        calls = []
        for item in whole['output']:
            if item['type'] == 'reasoning':
                reasoning += ''.join(part['text'] for part in item['content'])
            elif item['type'] == 'message':
                text += ''.join(part['text'] for part in item['content'])
            else:
                calls.append((item['name'], json.loads(item['arguments'])))
        finish = (whole['incomplete_details'] or {}).get('reason') or whole['status']
        usage = whole['usage']
        return reasoning, text, calls, finish, (usage['input_tokens'], usage['output_tokens'])

    @staticmethod
    def join(test, events):
        """The deltas of each item must be the item that the last event shows."""
        names = [name for name, _ in events]
        test.assertEqual(names, [event['type'] for _, event in events])
        test.assertEqual([event['sequence_number'] for _, event in events],
                         list(range(len(events))))
        test.assertEqual(names[:2], ['response.created', 'response.in_progress'])
        test.assertIn(names[-1], ('response.completed', 'response.incomplete'))
        response = events[-1][1]['response']
        deltas = {}
        open_items = set()
        for name, event in events[2:-1]:
            index = event['output_index']
            if name == 'response.output_item.added':
                open_items.add(index)
            test.assertIn(index, open_items, name)
            if name.endswith('.delta'):
                deltas[index] = deltas.get(index, '') + event['delta']
            if name == 'response.output_item.done':
                open_items.remove(index)
        test.assertFalse(open_items)
        for index, item in enumerate(response['output']):
            shown = item['arguments'] if item['type'] == 'function_call' else \
                ''.join(part['text'] for part in item['content'])
            test.assertEqual(deltas.get(index, ''), shown)
        return response

    @staticmethod
    def stream_error(events):
        name, event = events[-1]
        assert name == 'response.failed', name
        return event['response']['error']

    error = Chat.error


class Messages:
    path = '/v1/messages'
    length, stopped, called = 'max_tokens', 'end_turn', 'tool_use'

    @staticmethod
    def body(prompt, thinking=False, max_tokens=100, stop=None, tools=None, **more):
        body = dict({'model': 'default', 'temperature': 0, 'max_tokens': max_tokens,
                     'messages': [{'role': 'user', 'content': prompt}],
                     'thinking': {'type': 'enabled' if thinking else 'disabled'}}, **more)
        if stop:
            body['stop_sequences'] = [stop]
        if tools:
            body['tools'] = [{'name': tool['name'], 'description': tool['description'],
                              'input_schema': tool['parameters']} for tool in tools]
        return body

    @staticmethod
    def read(whole):
        blocks = whole['content']
        usage = whole['usage']
        return (''.join(b['thinking'] for b in blocks if b['type'] == 'thinking'),
                ''.join(b['text'] for b in blocks if b['type'] == 'text'),
                [(b['name'], b['input']) for b in blocks if b['type'] == 'tool_use'],
                whole['stop_reason'], (usage['input_tokens'], usage['output_tokens']))

    @staticmethod
    def join(test, events):
        names = [name for name, _ in events]
        test.assertEqual(names, [event['type'] for _, event in events])
        test.assertEqual(names[0], 'message_start')
        test.assertEqual(names[1:3], ['content_block_start', 'ping'])
        test.assertEqual(names[-3:], ['content_block_stop', 'message_delta', 'message_stop'])
        blocks, open_block = [], None
        for name, event in events[1:-2]:
            if name == 'content_block_start':
                test.assertIsNone(open_block)
                open_block = event['index']
                test.assertEqual(open_block, len(blocks))
                blocks.append(dict(event['content_block'], json=''))
            elif name == 'content_block_delta':
                test.assertEqual(event['index'], open_block)
                delta = event['delta']
                for key, to in (('text', 'text'), ('thinking', 'thinking'),
                                ('partial_json', 'json'), ('signature', 'signature')):
                    if key in delta:
                        blocks[-1][to] += delta[key]
            elif name == 'content_block_stop':
                open_block = None
        for block in blocks:
            if block['type'] == 'tool_use':
                block['input'] = json.loads(block['json'])
        last = events[-2][1]
        return {'content': blocks, 'stop_reason': last['delta']['stop_reason'],
                'usage': dict(events[0][1]['message']['usage'], **last['usage'])}

    @staticmethod
    def stream_error(events):
        name, event = events[-1]
        assert name == event['type'] == 'error', name
        return event['error']

    @staticmethod
    def error(body):
        assert body['type'] == 'error'
        return body['error']


ALL = (Chat, Completions, Responses, Messages)
TALKS = (Chat, Responses, Messages)


def events_of(connection):
    """(name or None, parsed data) of each event of the answer; comments are left out."""
    rest = b''
    for chunk in connection.chunks():
        rest += chunk
        while b'\n\n' in rest:
            event, rest = rest.split(b'\n\n', 1)
            lines = [line for line in event.decode().split('\n') if not line.startswith(':')]
            fields = dict(line.split(': ', 1) for line in lines)
            if fields:
                data = fields['data']
                yield fields.get('event'), data if data == '[DONE]' else json.loads(data)
    if rest.strip():
        raise Broken(f'half an event at the end: {rest[:80]!r}')


def tool_sample(name):
    """A recorded call: (tools, question, reasoning, (name, arguments))."""
    with open(os.path.join(MODEL, 'samples.jsonl'), encoding='utf-8') as lines:
        sample = next(s for s in map(json.loads, lines)
                      if '## Tools' in s['prompt'] and name in s['output'])
    schemas = sample['prompt'].split('### Available Tool Schemas\n\n')[1].split('\n\nYou MUST')[0]
    question = sample['prompt'].split('<｜User｜>')[1].split('<｜Assistant｜>')[0]
    reasoning = sample['output'].split('</think>')[0] if '</think>' in sample['output'] else ''
    rest = sample['output'].split(f'invoke name="{name}">')[1]
    key = rest.split('parameter name="')[1].split('"')[0]
    value = rest.split('string="true">')[1].split('</｜DSML｜')[0]
    return [json.loads(s) for s in schemas.splitlines()], question, reasoning, (name, {key: value})


class WithNode(cluster.ClusterTest):
    settings = ('recipe.thinking_forces_temperature=false',)

    def setUp(self):
        super().setUp()
        more = [part for setting in self.settings for part in ('--set', setting)]
        self.node = self.cluster.start('--model', MODEL, *more)
        self.node.wait_ready()
        self.one = self.stack.enter_context(Connection(self.node.http))

    def both(self, protocol, *arguments, **fields):
        """What is read of the whole answer, which the streamed one must equal."""
        body = protocol.body(*arguments, **fields)
        status, _, data = self.one.call('POST', protocol.path, body)
        self.assertEqual(status, 200, data)
        whole = json.loads(data)
        self.one.send('POST', protocol.path, dict(body, stream=True))
        status, headers = self.one.head()
        self.assertEqual(status, 200)
        self.assertTrue(headers['content-type'].startswith('text/event-stream'))
        joined = protocol.join(self, list(events_of(self.one)))
        self.assertEqual(protocol.read(joined), protocol.read(whole))
        return protocol.read(whole)


class Answers(WithNode):
    def test_plain_answers_are_one_and_the_same(self):
        usages = set()
        for protocol in TALKS:
            reasoning, text, calls, finish, usage = self.both(protocol, COUNT)
            self.assertEqual((reasoning, text, calls), ('', COUNTED, []))
            self.assertEqual(finish, protocol.stopped)
            usages.add(usage)
        self.assertEqual(len(usages), 1)
        _, text, _, finish, usage = self.both(Completions, 'Once upon a time', max_tokens=12)
        self.assertTrue(text)
        self.assertEqual((finish, usage[1]), ('length', 12))

    def test_thinking_is_told_apart(self):
        sample = next(s for s in cluster.samples().values()
                      if s['effort'] == 75 and len(s['messages']) == 1)
        for protocol in TALKS:
            reasoning, text, calls, finish, _ = self.both(
                protocol, sample['messages'][0]['content'], thinking=True, max_tokens=400)
            self.assertEqual((reasoning, text, calls, finish),
                             (sample['reasoning'], sample['content'], [], protocol.stopped))

    def test_lengths_and_stops(self):
        for protocol in TALKS:
            _, text, _, finish, usage = self.both(protocol, COUNT, max_tokens=5)
            self.assertEqual((finish, usage[1]), (protocol.length, 5))
            self.assertTrue(COUNTED.startswith(text))
        for protocol in (Chat, Messages):
            _, text, _, finish, _ = self.both(protocol, COUNT, stop=', 7')
            self.assertEqual(text, '3, 4, 5, 6')
            self.assertEqual(finish, 'stop' if protocol is Chat else 'stop_sequence')

    def test_calls_with_and_without_thinking(self):
        for name, thinking in (('get_weather', False), ('calculator', True)):
            tools, question, thought, call = tool_sample(name)
            for protocol in TALKS:
                reasoning, text, calls, finish, _ = self.both(
                    protocol, question, thinking=thinking, tools=tools, max_tokens=300)
                self.assertEqual((reasoning, text, calls), (thought, '', [call]))
                self.assertEqual(finish, protocol.called)

    def test_the_chat_command_prints_the_same_in_every_protocol(self):
        for protocol in ('chat', 'responses', 'messages'):
            for extra in ((), ('--no-stream',)):
                got = self.cluster.command('chat', COUNT, '--thinking', 'off', '--temperature', '0',
                                           '--protocol', protocol, '--url', self.node.http, *extra)
                self.assertEqual((got.returncode, got.stdout), (0, COUNTED.encode() + b'\n'),
                                 got.stderr)
            got = self.cluster.command('chat', COUNT, '--model', 'gpt', '--protocol', protocol,
                                       '--url', self.node.http)
            self.assertEqual(got.returncode, 1, got.stderr)
            self.assertIn(b'gpt', got.stderr)

    def test_several_answers_and_their_logprobs_come_through_every_layer(self):
        body = Chat.body(STORY, max_tokens=8, n=2, logprobs=True, top_logprobs=2)
        body.update(temperature=1, seed=3)
        _, _, data = self.one.call('POST', Chat.path, body)
        choices = json.loads(data)['choices']
        self.assertEqual([c['index'] for c in choices], [0, 1])
        for choice in choices:
            told = choice['logprobs']['content']
            self.assertEqual(''.join(t['token'] for t in told), choice['message']['content'])
            self.assertEqual({len(t['top_logprobs']) for t in told}, {2})


class Ends(WithNode):
    def test_clients_that_leave_leave_nothing_behind(self):
        for protocol in ALL:
            body = protocol.body(STORY, max_tokens=6000, ignore_eos=True)
            streams, wholes = [], []
            for _ in range(2):
                streams.append(Connection(self.node.http))
                streams[-1].send('POST', protocol.path, dict(body, stream=True))
                self.assertEqual(streams[-1].head()[0], 200)
                next(events_of(streams[-1]))
                wholes.append(Connection(self.node.http))
                wholes[-1].send('POST', protocol.path, body)
            wait_until('four at work', lambda: self.node.counter('gateway', 'open') == 4)
            for connection in streams + wholes:
                connection.close()

            def left():
                return [(actor['kind'], name)
                        for actor in self.node.topology()['actors']
                        if actor['kind'] in ('prefill', 'decode', 'gateway')
                        for name in ('sequences', 'requests_known', 'staged', 'transfers', 'open')
                        if actor['counters'].get(name, 0)]
            wait_until('all memory back', lambda: not left(), 5)


class KeptAlive(cluster.ClusterTest):
    """The gateway waits for an engine that may never come."""
    settings = ('request.plain_keep_alive=100ms', 'request.ping=100ms', 'request.route_wait=1500ms')

    def start(self, *roles, settings=settings):
        more = [part for setting in settings for part in ('--set', setting)]
        return self.cluster.start_roles(*roles, more=more)

    def wait_for(self, node, protocol):
        """(status, empty lines, body) of an answer in one piece, and the seconds it took."""
        begun = time.monotonic()
        status, _, data = cluster.call(node.http, 'POST', protocol.path, protocol.body(COUNT))
        took = time.monotonic() - begun
        return status, len(data) - len(data.lstrip(b'\n')), json.loads(data), took

    def test_a_late_error_comes_behind_empty_lines_under_status_200(self):
        node, = self.start('gateway,controller')
        for protocol in ALL:
            with self.subTest(protocol.__name__):
                status, lines, body, took = self.wait_for(node, protocol)
                self.assertEqual(status, 200)
                self.assertGreaterEqual(lines, 3)
                self.assertLessEqual(lines, took / 0.1)
                self.assertIn('engine', protocol.error(body)['message'])
        self.assertEqual(node.counter('gateway', 'open'), 0)

    def test_without_it_errors_have_their_status_and_envelope(self):
        node, = self.start('gateway,controller', settings=(
            'request.plain_keep_alive=0', 'request.route_wait=300ms'))
        for protocol in ALL:
            for stream in (False, True):
                with self.subTest(protocol.__name__, stream=stream):
                    status, headers, data = cluster.call(
                        node.http, 'POST', protocol.path,
                        dict(protocol.body(COUNT), stream=stream))
                    self.assertEqual(status, 503)
                    self.assertEqual(headers['retry-after'], '1')
                    error = protocol.error(json.loads(data))
                    self.assertEqual(error['type'], 'overloaded_error')

    def test_an_answer_that_comes_after_all_is_the_same(self):
        slow = ('request.plain_keep_alive=20ms', 'request.ping=20ms')
        node, = self.start('all', settings=slow)
        node.wait_ready()
        body = Chat.body(STORY, max_tokens=1500, ignore_eos=True)
        status, headers, data = cluster.call(node.http, 'POST', Chat.path, body)
        self.assertEqual((status, headers['content-type']), (200, 'application/json'))
        self.assertTrue(data.startswith(b'\n'), data[:40])
        self.assertEqual(Chat.read(json.loads(data))[4][1], 1500)


class LostEngine(cluster.ClusterTest):
    def test_an_error_behind_the_first_byte_is_an_event_of_the_protocol(self):
        for protocol in ALL:
            with self.subTest(protocol.__name__), cluster.Cluster() as own:
                front, decode = own.start_roles('gateway,controller,prefill', 'decode', more=(
                    '--set', 'request.reroutes=0'))
                front.wait_ready()
                with Connection(front.http) as one:
                    one.send('POST', protocol.path, dict(protocol.body(
                        STORY, max_tokens=6000, ignore_eos=True), stream=True))
                    self.assertEqual(one.head()[0], 200)
                    source = events_of(one)
                    events = [next(source) for _ in range(6)]
                    decode.kill()
                    events += list(source)
                self.assertTrue(protocol.stream_error(events)['message'])
                wait_until('nothing open', lambda n=front: n.counter('gateway', 'open') == 0)


if __name__ == '__main__':
    cluster.main()
