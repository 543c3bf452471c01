#!/usr/bin/env python3
"""deepinfer chat against a server that answers well, badly or not at all. chat_test.py BINARY"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fake_server
from terminal import Terminal

BINARY = sys.argv.pop(1) if len(sys.argv) > 1 else os.environ.get('DEEPINFER', 'deepinfer')


class WithServer(unittest.TestCase):
    def setUp(self):
        context = fake_server.running()
        self.node = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = dict(os.environ, DEEPINFER_RUNTIME_DIR=folder.name)

    def command(self, *arguments):
        return [BINARY, 'chat', *arguments, '--url', self.node.address]


class OneRequest(WithServer):
    def call(self, *arguments, chat='good', stdin=b''):
        self.node.chat = chat
        return subprocess.run(self.command(*arguments), input=stdin, capture_output=True,
                              timeout=30, check=False, env=self.environment)

    def test_an_answer_is_printed_and_ends_well(self):
        got = self.call('Hi there')
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout.decode(), '<think>\nhm\n</think>\n\nHello, wörld\n')
        self.assertEqual(self.node.paths, ['/v1/chat/completions'])
        self.assertEqual(self.node.bodies, [{'model': 'default', 'stream': True,
                                             'messages': [{'role': 'user', 'content': 'Hi there'}]}])

    def test_all_options_reach_the_server(self):
        self.call('x', '--model', 'm', '--system', 's', '--thinking', 'off', '--temperature', '0.5',
                  '--top-p', '0.9', '--max-tokens', '7', '--seed', '42', '--no-stream')
        self.assertEqual(self.node.bodies, [{
            'model': 'm', 'stream': False, 'thinking': {'type': 'disabled'}, 'temperature': 0.5,
            'top_p': 0.9, 'max_tokens': 7, 'seed': 42,
            'messages': [{'role': 'system', 'content': 's'}, {'role': 'user', 'content': 'x'}]}])

    def test_the_prompt_comes_from_a_pipe(self):
        for arguments in ((), ('-',)):
            self.assertEqual(self.call(*arguments, stdin='grüße\n'.encode()).returncode, 0)
            self.assertEqual(self.node.bodies[-1]['messages'][0]['content'], 'grüße')

    def test_an_answer_in_one_piece_is_printed_alike(self):
        got = self.call('x', '--no-stream')
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout.decode(), '<think>\nhm\n</think>\n\nHello, wörld\n')

    def test_json_is_what_the_server_sent(self):
        got = self.call('x', '--json')
        self.assertEqual(got.returncode, 0, got.stderr)
        events = [json.loads(line) for line in got.stdout.splitlines()]
        self.assertEqual(len(events), 5)
        self.assertEqual(events[-1]['choices'][0]['finish_reason'], 'stop')
        whole = json.loads(self.call('x', '--json', '--no-stream').stdout)
        self.assertEqual(whole['choices'][0]['message']['content'], 'Hello, wörld')

    def test_other_protocols_ask_and_answer_alike(self):
        said = 'Hi there'
        bodies = {
            'responses': {'model': 'default', 'instructions': 's', 'max_output_tokens': 7,
                          'reasoning': {'effort': 'none'}, 'seed': 4,
                          'input': [{'role': 'user', 'content': said}]},
            'messages': {'model': 'default', 'system': 's', 'max_tokens': 7, 'seed': 4,
                         'thinking': {'type': 'disabled'},
                         'messages': [{'role': 'user', 'content': said}]}}
        for protocol, body in bodies.items():
            for extra in ((), ('--no-stream',)):
                with self.subTest(protocol=protocol, extra=extra):
                    got = self.call(said, '--protocol', protocol, '--system', 's', '--max-tokens',
                                    '7', '--seed', '4', '--thinking', 'off', *extra)
                    self.assertEqual(got.returncode, 0, got.stderr)
                    self.assertEqual(got.stdout.decode(), '<think>\nhm\n</think>\n\nHello, wörld\n')
                    self.assertEqual(self.node.paths[-1], '/v1/' + protocol)
                    self.assertEqual(self.node.bodies[-1], dict(body, stream=not extra))

    def test_json_of_other_protocols_is_what_the_server_sent(self):
        for protocol, events, whole in (
                ('responses', fake_server.RESPONSES_EVENTS, fake_server.RESPONSES_WHOLE),
                ('messages', fake_server.MESSAGES_EVENTS, fake_server.MESSAGES_WHOLE)):
            got = self.call('x', '--json', '--protocol', protocol)
            self.assertEqual([json.loads(line) for line in got.stdout.splitlines()], events)
            got = self.call('x', '--json', '--no-stream', '--protocol', protocol)
            self.assertEqual(json.loads(got.stdout), whole)

    def test_other_protocols_tell_what_went_wrong_by_the_same_exit_code(self):
        for protocol in ('responses', 'messages'):
            for how, word in (('cut', 'cut off'), ('error event', 'the engine was lost'),
                              ('refused', 'Field model is wrong'), ('no json', '502')):
                with self.subTest(protocol=protocol, how=how):
                    got = self.call('x', '--protocol', protocol, chat=how)
                    self.assertEqual(got.returncode, 1, got.stderr)
                    self.assertIn(word, got.stderr.decode())

    def test_the_token_limit_is_a_clean_end(self):
        self.assertEqual(self.call('x', chat='length').returncode, 0)

    def test_an_answer_that_does_not_end_is_exit_1(self):
        for how, word in (('cut', 'cut off'), ('no done', 'cut off'), ('no finish', 'cut off'),
                          ('error event', 'the engine was lost')):
            for extra in ((), ('--json',)):
                with self.subTest(how=how, extra=extra):
                    got = self.call('x', *extra, chat=how)
                    self.assertEqual(got.returncode, 1)
                    self.assertIn('Hello'.encode(), got.stdout)  # what came is shown
                    self.assertIn(word, got.stderr.decode())

    def test_an_error_status_is_told_in_the_servers_words(self):
        got = self.call('x', chat='refused')
        self.assertEqual(got.returncode, 1)
        self.assertEqual(got.stdout, b'')
        self.assertIn('HTTP 400: Field model is wrong', got.stderr.decode())
        self.assertNotIn(b'\x1b', got.stderr)
        self.assertIn('error', json.loads(self.call('x', '--json', chat='refused').stdout))
        got = self.call('x', chat='no json')
        self.assertEqual(got.returncode, 1)
        self.assertIn('HTTP 502', got.stderr.decode())

    def test_a_server_of_something_else_is_exit_1(self):
        got = self.call('x', chat='other')
        self.assertEqual(got.returncode, 1)
        self.assertIn('not Chat Completions', got.stderr.decode())

    def test_a_pipe_gets_the_models_bytes(self):
        got = self.call('x', chat='hostile')
        self.assertIn(fake_server.HOSTILE.encode(), got.stdout)

    def test_nothing_reachable_is_exit_3(self):
        got = subprocess.run([BINARY, 'chat', 'x', '--url', '127.0.0.1:1'], capture_output=True,
                             timeout=30, check=False, env=self.environment)
        self.assertEqual(got.returncode, 3)
        self.assertIn(b'127.0.0.1:1', got.stderr)
        got = subprocess.run([BINARY, 'chat', 'x', '--cluster', 'absent'], capture_output=True,
                             timeout=30, check=False, env=self.environment)
        self.assertEqual(got.returncode, 3)
        self.assertIn(b'absent', got.stderr)

    def test_wrong_usage_is_exit_2(self):
        for arguments in (('x', '--protocol', 'smoke'), ('x', '--protocol', 'completions'),
                          ('x', '--protocol', 'other'), ('x', '--thinking', 'maybe'), ('',), ('x', 'y'),
                          ('x', '--temperature', 'hot'), ('x', '--temperature', '3'),
                          ('x', '--top-p', '1.5'), ('x', '--max-tokens', '0'), ('x', '--seed', '-1'),
                          ('x', '--cluster', 'c'), ('-',), (b'\xff',)):
            with self.subTest(arguments=arguments):
                got = self.call(*arguments)
                self.assertEqual(got.returncode, 2, got.stderr)
                self.assertEqual(got.stdout, b'')
        self.assertEqual(self.node.paths, [])

    def test_a_full_disk_is_no_clean_end(self):
        with open('/dev/full', 'wb') as full:
            got = subprocess.run(self.command('x'), stdout=full, stderr=subprocess.PIPE, timeout=30,
                                 check=False, env=self.environment, stdin=subprocess.DEVNULL)
        self.assertEqual(got.returncode, 1, got.stderr)


    def test_a_reader_that_goes_ends_the_request(self):
        self.node.chat = 'endless'
        process = subprocess.Popen(self.command('x'), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment, stdin=subprocess.DEVNULL)
        self.assertTrue(process.stdout.readline())
        process.stdout.close()
        self.assertTrue(self.node.client_left.wait(20))
        self.assertNotEqual(process.wait(20), 0)  # SIGPIPE, or a failed write where that is ignored
        process.stderr.close()


class AtATerminal(WithServer):
    def start(self, *arguments, chat='good'):
        self.node.chat = chat
        terminal = Terminal(self.command(*arguments))
        self.addCleanup(terminal.close)
        return terminal

    def test_a_talk_keeps_its_history(self):
        terminal = self.start('--system', 's')
        self.assertTrue(terminal.shows('Ctrl-D'))
        terminal.type('one\n')
        self.assertTrue(terminal.shows('wörld'))
        self.assertTrue(terminal.until(lambda output: output.count(b'>\x1b[0m ') == 2), terminal.output)
        terminal.type('two\n')
        self.assertTrue(terminal.until(lambda output: output.count(b'>\x1b[0m ') == 3), terminal.output)
        terminal.type('\x04')
        self.assertEqual(terminal.end(), 0)
        self.assertEqual([turn['content'] for turn in self.node.bodies[1]['messages']],
                         ['s', 'one', 'Hello, wörld', 'two'])
        self.assertIn(b'\x1b[2mhm\x1b[0m', terminal.output)  # reasoning is dim

    def test_ctrl_c_cancels_the_answer_and_not_the_talk(self):
        terminal = self.start(chat='waits')
        self.assertTrue(terminal.shows('Ctrl-D'))
        terminal.type('one\n')
        self.assertTrue(terminal.shows('wörld'))
        terminal.type('\x03')
        self.assertTrue(terminal.shows('cancelled'), terminal.output)
        self.assertTrue(self.node.client_left.wait(20))  # the server stops computing
        self.node.chat = 'good'
        terminal.forget()
        terminal.type('two\n')
        self.assertTrue(terminal.shows('wörld'))
        self.assertTrue(terminal.shows('>\x1b[0m '))
        terminal.type('\x04')
        self.assertEqual(terminal.end(), 0)
        self.assertEqual([turn['content'] for turn in self.node.bodies[1]['messages']], ['two'])

    def test_ctrl_c_at_the_prompt_throws_the_line_away(self):
        terminal = self.start()
        self.assertTrue(terminal.shows('>\x1b[0m '))
        terminal.type('half a li')
        self.assertTrue(terminal.shows('half a li'))
        terminal.type('\x03')
        self.assertTrue(terminal.until(lambda output: output.count(b'>\x1b[0m ') == 2), terminal.output)
        terminal.type('whole\n')
        self.assertTrue(terminal.shows('wörld'))
        terminal.type('\x04')
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(self.node.bodies[0]['messages'][0]['content'], 'whole')

    def test_no_ctrl_c_at_the_prompt_is_lost(self):
        terminal = self.start()
        for prompts in range(1, 41):  # each comes while the program turns from writing to reading
            self.assertTrue(terminal.until(lambda output: output.count(b'>\x1b[0m ') == prompts), prompts)
            terminal.type('\x03')
        terminal.type('\x04')
        self.assertEqual(terminal.end(), 0)

    def test_a_failed_answer_is_forgotten_and_shows_in_the_exit_code(self):
        terminal = self.start(chat='cut')
        self.assertTrue(terminal.shows('>\x1b[0m '))
        terminal.type('one\n')
        self.assertTrue(terminal.shows('cut off'))
        self.assertTrue(terminal.until(lambda output: output.count(b'>\x1b[0m ') == 2), terminal.output)
        terminal.type('\x04')
        self.assertEqual(terminal.end(), 1)

    def test_ctrl_c_ends_one_request_with_usual_colours(self):
        terminal = self.start('x', chat='waits')
        self.assertTrue(terminal.shows('wörld'))
        terminal.type('\x03')
        self.assertEqual(terminal.end(), -signal.SIGINT)
        self.assertTrue(terminal.output.endswith(b'\x1b[0m\r\n'), terminal.output)
        self.assertTrue(self.node.client_left.wait(20))

    def test_a_model_cannot_steer_the_terminal(self):
        terminal = self.start('x', chat='hostile')
        self.assertEqual(terminal.end(), 0)
        self.assertIn(b'\\x1b[2J', terminal.output)
        self.assertNotIn(b'\x1b[2J', terminal.output)
        self.assertNotIn(b'\x1b]0;', terminal.output)

    def test_json_needs_a_prompt(self):
        terminal = self.start('--json')
        self.assertEqual(terminal.end(), 2)

    def test_pieces_are_shown_as_they_come(self):
        terminal = self.start('x', chat='waits')
        started = time.monotonic()
        self.assertTrue(terminal.shows('Hello, '))
        self.assertLess(time.monotonic() - started, 15)
        self.assertIsNone(terminal.process.poll())


if __name__ == '__main__':
    unittest.main()
