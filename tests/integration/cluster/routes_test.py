#!/usr/bin/env python3
"""Every route of the gateway: status, envelope, headers. routes_test.py BINARY"""

import gzip
import json
import os
import re

import cluster
from cluster import MODEL, Connection, chat_body

CHAT, COMPLETIONS = '/v1/chat/completions', '/v1/completions'
RESPONSES, MESSAGES = '/v1/responses', '/v1/messages'
COUNT = MESSAGES + '/count_tokens'
POSTS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, COUNT, '/tokenize', '/detokenize')
GETS = ('/v1/models', '/v1/models/tiny-v41', '/live', '/ready', '/health')
ANTHROPIC = ('anthropic-version: 2023-06-01',)


class Routes(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.node = self.cluster.start('--model', MODEL, '--set', 'recipe.aliases=deepseek-flash',
                                       '--set', 'log.level=debug')
        self.node.wait_ready()
        self.one = self.stack.enter_context(Connection(self.node.http))

    def call(self, method, path, body=None, headers=(), status=200):
        """(parsed body, headers) of an exchange that ends with `status` and bears an id."""
        got, answered, data = self.one.call(method, path, body, headers)
        self.assertEqual(got, status, data[:500])
        self.assertRegex(answered['x-request-id'], r'^[0-9a-f]{32}$')
        self.assertEqual(answered['request-id'], answered['x-request-id'])
        return (json.loads(data) if data else None), answered

    def assert_error(self, path, got, said=''):
        """In the envelope of the path's protocol, with the id that the header has."""
        body, headers = got
        self.assertEqual(headers['content-type'], 'application/json')
        if path.startswith(MESSAGES):
            self.assertEqual(body['type'], 'error')
            self.assertEqual(set(body['error']), {'type', 'message'})
            self.assertEqual(body['request_id'], headers['x-request-id'])
        else:
            self.assertEqual(set(body), {'error'})
            self.assertEqual(set(body['error']), {'message', 'type', 'param', 'code'})
        self.assertIn(said, json.dumps(body, ensure_ascii=False))

    def test_each_route_says_which_methods_it_has(self):
        for path in POSTS:
            for method in ('GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'):
                with self.subTest(path=path, method=method):
                    got = self.call(method, path, status=405)
                    self.assertEqual(got[1]['allow'], 'POST')
                    if method != 'HEAD':
                        self.assert_error(path, got)
        for path in GETS:
            with self.subTest(path=path):
                whole, headers = self.call('GET', path)
                self.assertEqual(self.call('HEAD', path)[1]['content-length'],
                                 headers['content-length'])
                self.assertTrue(whole)
                got = self.call('POST', path, b'{}', status=405)
                self.assertEqual(got[1]['allow'], 'GET, HEAD')
                self.assert_error(path, got)

    def test_an_unknown_route_names_those_there_are(self):
        for path in ('/', '/v1', '/v1/chat', '/v1/models/', '/v1/messages/batches', '/v1/Messages'):
            for method in ('GET', 'POST'):
                got = self.call(method, path, b'{}' if method == 'POST' else None, status=404)
                self.assert_error(path, got)
                for known in POSTS:
                    self.assertIn(known, json.dumps(got[0]))

    def test_models_in_both_shapes(self):
        listed, _ = self.call('GET', '/v1/models')
        self.assertEqual(listed['object'], 'list')
        model = listed['data'][0]
        self.assertEqual((model['id'], model['object']), ('tiny-v41', 'model'))
        self.assertGreater(model['created'], 1_700_000_000)
        self.assertEqual(self.call('GET', '/v1/models/tiny-v41')[0], model)
        for name in ('default', 'deepseek-flash', 'tiny%2Dv41'):
            self.assertEqual(self.call('GET', '/v1/models/' + name)[0]['id'], 'tiny-v41')
        self.assert_error('', self.call('GET', '/v1/models/gpt', status=404), 'gpt')
        listed, _ = self.call('GET', '/v1/models?limit=20', headers=ANTHROPIC)
        model = listed['data'][0]
        self.assertEqual(set(model), {'type', 'id', 'display_name', 'created_at'})
        self.assertRegex(model['created_at'], r'^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$')
        self.assertEqual((listed['has_more'], listed['first_id'], listed['last_id']),
                         (False, 'tiny-v41', 'tiny-v41'))
        self.assertEqual(self.call('GET', '/v1/models/tiny-v41', headers=ANTHROPIC)[0], model)
        self.assert_error(MESSAGES, self.call('GET', '/v1/models/gpt', headers=ANTHROPIC,
                                              status=404), 'gpt')

    def test_wrong_bodies_are_errors_in_the_words_of_the_route(self):
        for path in POSTS:
            for body in (b'', b'{', b'[]', b'7', b'{}', b'{"model":"\xff"}', b'[' * 5000):
                with self.subTest(path=path, body=body[:10]):
                    self.assert_error(path, self.call('POST', path, body, status=400))
        for path, body in ((CHAT, {'messages': [{'role': 'user', 'content': 'x'}]}),
                           (MESSAGES, {'max_tokens': 5, 'messages': [
                               {'role': 'user', 'content': 'x'}]}),
                           (COUNT, {'messages': [{'role': 'user', 'content': 'x'}]}),
                           (RESPONSES, {'input': 'x'}), (COMPLETIONS, {'prompt': 'x'}),
                           ('/tokenize', {'prompt': 'x'}), ('/detokenize', {'tokens': [1]})):
            with self.subTest(path=path):
                self.assert_error(path, self.call('POST', path, dict(body, model='gpt'),
                                                  status=404), 'gpt')

    def test_a_packed_body_is_refused_and_a_body_without_type_is_read(self):
        body = json.dumps(chat_body(max_tokens=1)).encode()
        for path in POSTS:
            self.assert_error(path, self.call('POST', path, gzip.compress(body),
                                              ('content-encoding: gzip',), 415), 'encoding')
        for two in (('content-encoding: identity', 'content-encoding: gzip'),
                    ('content-encoding: identity, gzip',)):
            self.assert_error(CHAT, self.call('POST', CHAT, body, two, 415), 'encoding')
        for word in ('identity', 'Identity', ''):
            self.call('POST', CHAT, body, (f'content-encoding: {word}',))
        self.one.socket.sendall(f'POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}'
                                '\r\n\r\n'.encode() + body)
        status, headers = self.one.head()
        self.assertEqual(status, 200)
        self.one._exactly(int(headers['content-length']))

    def test_what_the_listener_refuses_is_in_the_words_of_the_path_too(self):
        for path in POSTS + ('/v1/messages?beta=true',):
            with self.subTest(path=path), Connection(self.node.http) as self.one:
                self.one.socket.sendall(f'POST {path} HTTP/1.1\r\nhost: x\r\n'
                                        f'content-length: {33 << 20}\r\n\r\n'.encode())
                status, headers = self.one.head()
                body = json.loads(self.one._exactly(int(headers['content-length'])))
                self.assertEqual((status, headers['connection']), (413, 'close'))
                self.assertRegex(headers['x-request-id'], r'^[0-9a-f]{32}$')
                self.assert_error(path, (body, headers), 'http.body_bytes')
        with Connection(self.node.http) as one:
            one.socket.sendall(b'nonsense\r\n\r\n')
            status, headers = one.head()
            body = json.loads(one._exactly(int(headers['content-length'])))
            self.assertEqual(status, 400)
            self.assert_error('', (body, headers))

    def test_a_query_changes_nothing_and_no_version_is_needed(self):
        body = {'model': 'default', 'max_tokens': 3, 'thinking': {'type': 'disabled'},
                'temperature': 0, 'messages': [{'role': 'user', 'content': 'Count from 3 to 9.'}]}
        plain, _ = self.call('POST', MESSAGES, body)
        beta, headers = self.call('POST', MESSAGES + '?beta=true', body, ANTHROPIC)
        self.assertEqual(plain['content'], beta['content'])
        self.assertEqual(beta['id'], 'msg_' + headers['request-id'])
        self.assert_error(MESSAGES, self.call('POST', MESSAGES + '?beta=true', {}, status=400))

    def test_tokens_and_texts(self):
        got, _ = self.call('POST', '/tokenize', {'prompt': 'Hello <think>', 'model': 'default',
                                                 'return_token_strs': True})
        self.assertEqual(got['count'], len(got['tokens']))
        self.assertEqual(got['max_model_len'], 8192)
        self.assertEqual(''.join(got['token_strs']), '<｜begin▁of▁sentence｜>Hello <think>')
        text, _ = self.call('POST', '/detokenize', {'tokens': got['tokens']})
        self.assertEqual(text, {'prompt': '<｜begin▁of▁sentence｜>Hello <think>'})
        self.assert_error('', self.call('POST', '/detokenize', {'tokens': [1, 4096]}, status=400),
                          'tokens[1]')
        messages = [{'role': 'user', 'content': 'Hello <think>'}]
        talk, _ = self.call('POST', '/tokenize', {'messages': messages})
        for path, body in ((CHAT, {'model': 'default', 'max_tokens': 1, 'messages': messages}),
                           (COUNT, {'model': 'default', 'messages': messages})):
            usage, _ = self.call('POST', path, body)
            count = usage['input_tokens'] if path == COUNT else usage['usage']['prompt_tokens']
            self.assertEqual(count, talk['count'])
        # Counted and refused are two things: more than the model can take is a number, too.
        long = [{'role': 'user', 'content': 'word ' * 9000}]
        self.assertGreater(self.call('POST', COUNT, {'model': 'default',
                                                     'messages': long})[0]['input_tokens'], 9000)
        self.assertGreater(self.call('POST', '/tokenize', {'messages': long})[0]['count'], 9000)

    def test_a_failed_request_has_one_name_everywhere(self):
        _, headers = self.call('POST', CHAT, chat_body(), status=200)
        answer, headers = self.call('POST', MESSAGES, {'model': 'default', 'messages': []},
                                    status=400)
        self.assertEqual(answer['request_id'], headers['x-request-id'])
        self.one.send('POST', CHAT, dict(chat_body(), stream=True))
        status, headers = self.one.head()
        self.assertEqual(status, 200)
        first = json.loads(next(iter(list(self.one.events()))))
        self.assertEqual(first['id'], 'chatcmpl-' + headers['x-request-id'])
        self.assertEqual(headers['request-id'], headers['x-request-id'])

    def test_the_codec_shows_what_it_encoded_and_what_it_remembered(self):
        body = chat_body('A sentence of some length, again and again. ' * 200, max_tokens=1)
        for _ in range(3):
            self.call('POST', CHAT, body)
        counters = next(actor['counters'] for actor in self.node.topology()['actors']
                        if actor['kind'] == 'codec')
        self.assertEqual(counters['encoded'], 3)
        self.assertGreater(counters['tokens'], 3000)
        self.assertGreater(counters['shared_reused_tokens'], counters['tokens'] // 2)
        self.assertGreater(counters['shared_remembered_bytes'], 1000)
        _, _, text = cluster.call(self.node.console, 'GET', '/metrics')
        metrics = dict(re.findall(r'^(deepinfer_codec_\S+) (\S+)$', text.decode(), re.M))
        self.assertEqual(float(metrics['deepinfer_codec_prompts_total']), 3)
        self.assertEqual(float(metrics['deepinfer_codec_encode_seconds_count']), 3)
        self.assertEqual(float(metrics['deepinfer_codec_tokens_total']), counters['tokens'])
        self.assertEqual(float(metrics['deepinfer_codec_reused_tokens_total']),
                         counters['shared_reused_tokens'])

    def test_clients_of_other_credentials_profit_from_nothing(self):
        body = chat_body('A sentence of some length, again and again. ' * 200, max_tokens=1)

        def reused(*headers):
            before = self.node.counter('codec', 'shared_reused_tokens')
            self.call('POST', CHAT, body, headers)
            return self.node.counter('codec', 'shared_reused_tokens') - before
        # Equal parts within one prompt are known already: each client's first time is alike.
        first = reused('authorization: Bearer a')
        # A proxy may add its own `authorization` to everybody's requests.
        for headers in (('authorization: Bearer b',), ('x-api-key: a',), (),
                        ('authorization: Bearer a', 'x-api-key: a'),
                        ('authorization: Bearer a', 'x-api-key: b'),
                        ('authorization: Bearer b', 'authorization: Bearer a'),
                        ('x-api-key: Bearer a',)):
            self.assertEqual(reused(*headers), first)
        self.assertGreater(reused('authorization: Bearer a'), first + 500)


class Settings(cluster.ClusterTest):
    def test_settings_of_the_recipe_reach_the_requests(self):
        path = os.path.join(self.cluster.folder, 'patch.txt')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('Patches go here: PATCH-WORDS\n' * 20)
        node = self.cluster.start(
            '--model', MODEL, '--set', f'recipe.apply_patch_description={path}',
            '--set', 'recipe.web_search_in_responses=refuse', '--set', 'request.max_choices=2',
            '--set', 'recipe.default_max_tokens=2', '--set', 'encoder.helpers=0',
            '--set', 'encoder.reuse_bytes=0')
        node.wait_ready()
        with Connection(node.http) as one:
            def tokens(tools):
                status, _, data = one.call('POST', RESPONSES, {
                    'model': 'default', 'input': 'x', 'max_output_tokens': 1, 'tools': tools})
                return status, json.loads(data)
            status, answer = tokens([{'type': 'custom', 'name': 'apply_patch'}])
            self.assertEqual(status, 200, answer)
            self.assertGreater(answer['usage']['input_tokens'], 300)
            status, answer = tokens([{'type': 'web_search'}])
            self.assertEqual(status, 400, answer)
            status, _, data = one.call('POST', CHAT, chat_body('Hello', n=3))
            self.assertEqual(status, 400, data)
            _, _, data = one.call('POST', CHAT, chat_body('Tell me a story about a cat.'))
            self.assertEqual(json.loads(data)['usage']['completion_tokens'], 2)
        counters = next(a['counters'] for a in node.topology()['actors'] if a['kind'] == 'codec')
        self.assertNotIn('shared_reused_tokens', counters)

    def test_a_description_that_is_missing_or_unfit_stops_the_node(self):
        path = os.path.join(self.cluster.folder, 'patch.txt')
        for content in (None, b'\xff', b'x' * 70000, '<｜image｜>'.encode()):
            if content is not None:
                with open(path, 'wb') as file:
                    file.write(content)
            got = self.cluster.command('node', '--model', MODEL, '--set',
                                       f'recipe.apply_patch_description={path}')
            self.assertEqual(got.returncode, 2, got.stderr)
            self.assertIn(b'patch.txt', got.stdout + got.stderr)


if __name__ == '__main__':
    cluster.main()
