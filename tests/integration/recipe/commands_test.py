#!/usr/bin/env python3
"""deepinfer recipe render, encode, decode, parse: on standard input. commands_test.py BINARY MODEL"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

BINARY, MODEL = sys.argv[1:3]
del sys.argv[1:3]

HELLO = {'model': 'deepseek-v4.1-flash', 'messages': [{'role': 'user', 'content': 'Hello'}]}
# The prompt that the published tutorial shows for its example request.
HELLO_PROMPT = ('<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: 75 (range 1-100, the higher the '
                'value, the more thorough the reasoning)\n\n<｜User｜>Hello<｜Assistant｜><think>')
WEATHER = {'name': 'get_weather', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}}}
CALL = ('I look.</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="get_weather">\n'
        '<｜DSML｜ parameter name="city" string="true">Paris</｜DSML｜ parameter>\n'
        '</｜DSML｜ invoke>\n</｜DSML｜ calls><｜end▁of▁sentence｜>')


class RecipeCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_recipe(self, *arguments, stdin='', code=0, **variables):
        data = stdin if isinstance(stdin, (bytes, str)) else json.dumps(stdin)
        environment = {k: v for k, v in os.environ.items() if not k.startswith('DEEPINFER_')}
        got = subprocess.run([BINARY, 'recipe', *arguments],
                             input=data.encode() if isinstance(data, str) else data,
                             capture_output=True, timeout=60, check=False,
                             env=dict(environment, **variables))
        self.assertEqual(got.returncode, code, got.stdout[-300:] + got.stderr)
        if code == 0:
            self.assertEqual(got.stderr, b'')
        else:
            self.assertEqual(got.stdout, b'')
            return got.stderr.decode()
        return got.stdout.decode()

    def write(self, request):
        path = os.path.join(self.folder, 'request.json')
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(request, file)
        return path

    def test_the_prompt_of_the_tutorials_request(self):
        self.assertEqual(self.run_recipe('render', stdin=HELLO), HELLO_PROMPT)
        marked = self.run_recipe('render', '--specials', stdin=HELLO)
        self.assertTrue(marked.startswith('⟦<｜begin▁of▁sentence｜>⟧⟦<｜System｜>⟧Reasoning'), marked)
        self.assertTrue(marked.endswith('⟦<｜User｜>⟧Hello⟦<｜Assistant｜>⟧⟦<think>⟧'), marked)
        self.assertEqual(marked.replace('⟦', '').replace('⟧', ''), HELLO_PROMPT)

    def test_text_that_spells_a_control_token_is_not_marked(self):
        request = {'messages': [{'role': 'user', 'content': '<think>'}], 'model': 'm'}
        self.assertIn('⟦<｜User｜>⟧<think>⟦', self.run_recipe('render', '--specials', stdin=request))

    def test_requests_of_every_protocol_give_the_same_prompt(self):
        for protocol, request in (
                ('responses', {'model': 'm', 'input': 'Hello'}),
                ('messages', {'model': 'm', 'system': [],
                              'messages': [{'role': 'user', 'content': 'Hello'}]})):
            for flag in ((), ('--protocol', protocol)):
                with self.subTest(protocol=protocol, flag=flag):
                    self.assertEqual(self.run_recipe('render', *flag, stdin=request), HELLO_PROMPT)
        self.assertEqual(self.run_recipe('render', stdin={'model': 'm', 'prompt': 'Hello'}),
                         '<｜begin▁of▁sentence｜>Hello')

    def test_an_unclear_protocol_names_the_flag(self):
        for request in ({}, {'input': 'x', 'messages': [], 'system': 's'}):
            self.assertIn('--protocol', self.run_recipe('render', stdin=request, code=1))
        for broken in ('[]', '{', 'nonsense'):
            self.assertNotIn('--protocol', self.run_recipe('render', stdin=broken, code=1))
        self.run_recipe('render', '--protocol', 'telepathy', stdin=HELLO, code=2)

    def test_a_wrong_request_says_which_field(self):
        wrong = dict(HELLO, temperature=3)
        self.assertIn('`temperature`', self.run_recipe('render', stdin=wrong, code=1))
        self.assertIn('body', self.run_recipe('render', '--protocol', 'chat', stdin='{', code=1))
        self.run_recipe('render', '--protocol', 'chat', stdin=b'{"model":"\xff"}', code=1)

    def test_ids_and_text_go_both_ways(self):
        ids = json.loads(self.run_recipe('encode', '--json', stdin=HELLO))
        lines = [line.split('\t') for line in self.run_recipe('encode', stdin=HELLO).splitlines()]
        self.assertEqual([int(line[0]) for line in lines], ids)
        self.assertEqual(''.join(json.loads(line[1]) for line in lines), HELLO_PROMPT)
        for text in (json.dumps(ids), ' '.join(map(str, ids)), '\n'.join(map(str, ids)) + '\n'):
            self.assertEqual(self.run_recipe('decode', stdin=text), HELLO_PROMPT)
        self.assertEqual(self.run_recipe('decode', stdin=''), '')
        self.assertEqual(self.run_recipe('decode', stdin='[]'), '')

    def test_plain_text_stays_plain(self):
        text = 'grüße <｜User｜>\n'
        ids = json.loads(self.run_recipe('encode', '--text', '--json', stdin=text))
        user = json.loads(self.run_recipe('encode', '--json', stdin=HELLO))
        self.assertNotIn(user[-4], ids)
        self.assertEqual(self.run_recipe('decode', stdin=json.dumps(ids)), text)
        self.assertIn('UTF-8', self.run_recipe('encode', '--text', stdin=b'\xff', code=1))

    def test_what_is_no_id_is_refused(self):
        for text in ('[4096]', '4096', '-1', '[1, "a"]', '1 x', '[1', '[[1]]', '1.5',
                     '99999999999999999999'):
            self.run_recipe('decode', stdin=text, code=1)
        self.run_recipe('decode', stdin='4095')

    def test_a_tokenizer_is_named_by_folder_by_file_or_by_the_environment(self):
        file = os.path.join(MODEL, 'tokenizer.json')
        want = self.run_recipe('encode', '--json', stdin=HELLO)
        self.assertEqual(self.run_recipe('encode', '--json', '--model', MODEL, stdin=HELLO), want)
        self.assertEqual(self.run_recipe('encode', '--json', '--tokenizer', file, stdin=HELLO), want)
        self.assertEqual(self.run_recipe('encode', '--json', stdin=HELLO,
                                         DEEPINFER_HF_MODEL_DIR=MODEL), want)
        for flag in (('--model', self.folder), ('--tokenizer', self.folder + '/none.json')):
            self.run_recipe('encode', *flag, stdin=HELLO, code=2)
            self.run_recipe('decode', *flag, stdin='1', code=2)

    def test_an_output_becomes_the_response_to_its_request(self):
        request = self.write(dict(HELLO, tools=[{'type': 'function', 'function': WEATHER}]))
        answer = json.loads(self.run_recipe('parse', '--request', request, stdin=CALL))
        choice = answer['choices'][0]
        self.assertEqual(choice['finish_reason'], 'tool_calls')
        self.assertEqual(choice['message']['reasoning_content'], 'I look.')
        call = choice['message']['tool_calls'][0]['function']
        self.assertEqual(call, {'name': 'get_weather', 'arguments': '{"city": "Paris"}'})
        again = self.run_recipe('parse', '--request', request, stdin=CALL)
        self.assertEqual(json.loads(again), answer)

    def test_without_tools_the_markup_is_text(self):
        answer = json.loads(self.run_recipe('parse', '--request', self.write(HELLO), stdin=CALL))
        self.assertIn('<｜DSML｜ calls>', answer['choices'][0]['message']['content'])

    def test_stops_and_finishes_are_those_of_the_request_and_the_flag(self):
        request = self.write(dict(HELLO, stop=['B'], thinking={'type': 'disabled'}))
        choice = json.loads(self.run_recipe('parse', '--request', request,
                                            stdin='AAABC'))['choices'][0]
        self.assertEqual((choice['message']['content'], choice['finish_reason']), ('AAA', 'stop'))
        choice = json.loads(self.run_recipe('parse', '--request', request, '--finish', 'length',
                                            stdin='AAA'))['choices'][0]
        self.assertEqual(choice['finish_reason'], 'length')
        self.run_recipe('parse', '--request', request, '--finish', 'bang', code=2)

    def test_ids_give_the_response_that_their_text_gives(self):
        request = self.write(dict(HELLO, thinking={'type': 'disabled'}))
        ids = self.run_recipe('encode', '--text', '--json', stdin='Hello there')
        self.assertEqual(
            json.loads(self.run_recipe('parse', '--request', request, '--ids', stdin=ids)),
            json.loads(self.run_recipe('parse', '--request', request, stdin='Hello there')))
        self.run_recipe('parse', '--request', request, '--ids', stdin='x', code=1)

    def test_the_events_of_a_stream_add_up(self):
        for request in (HELLO, dict(HELLO, stream=True)):
            out = self.run_recipe('parse', '--request', self.write(request), '--stream',
                                  stdin='hm</think>Hello')
            events = [line.removeprefix('data: ') for line in out.split('\n\n') if line]
            self.assertEqual(events.pop(), '[DONE]')
            deltas = [json.loads(e)['choices'][0]['delta'] for e in events]
            self.assertEqual(''.join(d.get('content') or '' for d in deltas), 'Hello')
            self.assertEqual(''.join(d.get('reasoning_content') or '' for d in deltas), 'hm')

    def test_a_request_file_that_is_missing_is_wrong_usage(self):
        self.run_recipe('parse', stdin='x', code=2)
        self.run_recipe('parse', '--request', self.folder + '/none', stdin='x', code=2)
        self.run_recipe('parse', '--request', self.folder, stdin='x', code=2)
        self.run_recipe(code=2)

    def test_a_request_file_may_be_a_pipe_and_is_bounded(self):
        path = os.path.join(self.folder, 'pipe')
        os.mkfifo(path)
        plain = json.loads(self.run_recipe('parse', '--request', self.write(HELLO), stdin='x'))
        for data, code in ((json.dumps(HELLO).encode(), 0), (b' ' * ((32 << 20) + 1), 2)):
            with subprocess.Popen([BINARY, 'recipe', 'parse', '--request', path],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as parse:
                # Opening waits for the reader: what is written before one is there would be lost.
                threading.Thread(target=self.fill, args=(path, data), daemon=True).start()
                out, error = parse.communicate(b'x', timeout=60)
                self.assertEqual(parse.returncode, code, error)
            if code == 0:
                self.assertEqual(json.loads(out), plain)
            else:
                self.assertIn(b'32 MiB', error)

    @staticmethod
    def fill(path, data):
        with contextlib.suppress(BrokenPipeError), open(path, 'wb') as writer:
            writer.write(data)

    def test_why_a_file_cannot_be_read_is_told(self):
        request = self.write(HELLO)
        for flags, why in ((('parse', '--request', self.folder), 'directory'),
                           (('parse', '--request', self.folder + '/none'), 'No such file'),
                           (('parse', '--request', request, '--tokenizer', self.folder),
                            'cannot read'),
                           (('encode', '--tokenizer', self.folder), 'cannot read')):
            with self.subTest(flags=flags):
                self.assertIn(why, self.run_recipe(*flags, stdin='x', code=2))

    def test_input_is_bounded(self):
        most = 32 << 20
        text = ' ' * most
        self.assertEqual(self.run_recipe('decode', stdin=text), '')
        self.assertIn('32 MiB', self.run_recipe('decode', stdin=text + ' ', code=1))

    def test_output_that_cannot_be_written_is_no_success(self):
        with open('/dev/full', 'w', encoding='utf-8') as full:
            got = subprocess.run([BINARY, 'recipe', 'render'], input=json.dumps(HELLO).encode(),
                                 stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(got.returncode, 1, got.stderr)


if __name__ == '__main__':
    unittest.main()
