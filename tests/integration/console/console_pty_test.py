#!/usr/bin/env python3
"""deepinfer console: the live view in a pseudo-terminal, and its verbs. console_pty_test.py BINARY"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import fake_server
from terminal import Terminal, screens

BINARY = sys.argv.pop(1) if len(sys.argv) > 1 else os.environ.get('DEEPINFER', 'deepinfer')
RESTORED = b'\x1b[?25h\x1b[?1049l'


class WithNode(unittest.TestCase):
    def setUp(self):
        context = fake_server.running()
        self.node = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.empty = folder.name


class Live(WithNode):
    def start(self, **how):
        terminal = Terminal([BINARY, 'console', '--url', self.node.address], **how)
        self.addCleanup(terminal.close)
        self.assertTrue(terminal.shows('messages/s'), terminal.output)  # a second reading has come
        return terminal

    def check_left(self, terminal, code):
        self.assertEqual(terminal.end(), code)
        self.assertIn(RESTORED, terminal.output)
        self.assertTrue(terminal.is_restored())

    def test_draws_and_refreshes_until_q(self):
        terminal = self.start()
        self.assertIn(b'\x1b[?1049h', terminal.output)
        self.assertTrue(terminal.until(lambda output: len(screens(output)[-1]) == 30))
        frame = screens(terminal.output)[-1]
        text = '\n'.join(frame)
        for word in ('deepinfer  local', '0c1d2e3f', 'gateway', '1 gone', '╭', '7400', 'q quit'):
            self.assertIn(word, text)
        seen = self.node.polls
        self.assertTrue(terminal.until(lambda _: self.node.polls > seen + 1))
        self.assertTrue(terminal.shows(f'poll {seen + 1} '))
        terminal.type('q')
        self.check_left(terminal, 0)

    def test_text_of_others_does_not_reach_the_terminal_raw(self):
        terminal = self.start()
        terminal.type('4')
        self.assertTrue(terminal.shows('node.started'))
        terminal.type('q')
        self.check_left(terminal, 0)
        self.assertIn(b'\\x1b]0;owned\\x07', terminal.output)
        self.assertNotIn(b'\x1b]0;owned', terminal.output)
        self.assertEqual(terminal.output.count(b'\x1b[2J'), 1)  # our own, at the start

    def test_a_new_size_is_drawn_at_once(self):
        terminal = self.start()
        terminal.forget()
        terminal.resize(12, 50)
        self.assertTrue(terminal.until(
            lambda output: any(len(frame) == 12 for frame in screens(output))), terminal.output)
        frame = [one for one in screens(terminal.output) if len(one) == 12][-1]
        self.assertTrue(all(len(line) <= 50 for line in frame), frame)
        terminal.type('q')
        self.check_left(terminal, 0)

    def test_keys_choose_pages_and_scroll(self):
        terminal = self.start(rows=12)
        terminal.forget()
        terminal.type('2')
        self.assertTrue(terminal.shows('COUNTERS'))
        terminal.type('3')
        self.assertTrue(terminal.shows('decoding, leg 2'))
        terminal.type('1')
        terminal.forget()
        terminal.type('G')
        self.assertTrue(terminal.shows('→ others'))
        terminal.type('\x03')  # Ctrl-C
        self.check_left(terminal, 0)

    def test_signals_give_the_terminal_back(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGABRT, signal.SIGINT):
            with self.subTest(number=number):
                terminal = self.start()
                terminal.process.send_signal(number)
                self.check_left(terminal, 0 if number == signal.SIGINT else -number)

    def test_a_lost_server_is_said_and_the_view_stays(self):
        terminal = self.start()
        self.node.shutdown()
        self.node.server_close()
        self.assertTrue(terminal.shows('Connection refused'), terminal.output)
        self.assertIn('0c1d2e3f', '\n'.join(screens(terminal.output)[-1]))
        terminal.type('q')
        self.check_left(terminal, 0)

    def test_no_color_is_obeyed(self):
        terminal = self.start(NO_COLOR='1')
        terminal.type('q')
        self.check_left(terminal, 0)
        self.assertNotIn(b'\x1b[3', terminal.output)

    def test_nothing_to_talk_to_leaves_the_screen_alone(self):
        terminal = Terminal([BINARY, 'console', '--url', '127.0.0.1:1'])
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.end(), 3)
        self.assertNotIn(b'\x1b[?1049h', terminal.output)
        self.assertIn(b'127.0.0.1:1', terminal.output)


class Verbs(WithNode):
    def call(self, *arguments, url=True):
        return subprocess.run(
            [BINARY, 'console', *arguments, *(['--url', self.node.address] if url else [])],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
            env=dict(os.environ, DEEPINFER_RUNTIME_DIR=self.empty))

    def test_topology_json_is_what_the_node_says(self):
        got = self.call('topology', '--json')
        self.assertEqual(got.returncode, 0, got.stderr)
        topology = json.loads(got.stdout)
        self.assertEqual(topology['cluster'], 'local')
        self.assertEqual(len(topology['nodes']), 3)
        self.assertEqual({'from', 'to', 'messages'}, set(topology['edges'][0]))
        self.assertIn(fake_server.HOSTILE, topology['actors'][0]['state'])

    def test_actors_and_requests_json_are_parts_of_it(self):
        actors = json.loads(self.call('actors', '--json').stdout)
        self.assertEqual(len(actors['actors']), 5)
        requests = json.loads(self.call('requests', '--json').stdout)
        self.assertEqual([one['kind'] for one in requests['requests']], ['request'])

    def test_tables_name_what_they_show(self):
        for verb, words in {'topology': ('ADDRESS', 'MAILBOX', '→ others'), 'actors': ('gateway', 'decode'),
                            'requests': ('decoding, leg 2',), 'events': ('node.started',),
                            'metrics': ('up{role="gateway"} 1',)}.items():
            with self.subTest(verb=verb):
                got = self.call(verb)
                self.assertEqual(got.returncode, 0, got.stderr)
                for word in words:
                    self.assertIn(word, got.stdout)
                self.assertNotIn('\x1b', got.stdout)

    def test_events_and_metrics_have_json(self):
        events = json.loads(self.call('events', '--json').stdout)
        self.assertEqual(events['nodes'][0]['lines'][0], 'node.started address=127.0.0.1:7400')
        metrics = json.loads(self.call('metrics', '--json').stdout)
        self.assertEqual(metrics['metrics'], [{'name': 'up', 'labels': {'role': 'gateway'}, 'value': 1}])

    def test_once_prints_one_frame(self):
        got = self.call('--once')
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn('╭ 0c1d2e3f', got.stdout)
        self.assertNotIn('\x1b', got.stdout)
        self.assertEqual(self.node.polls, 1)

    def test_wrong_usage_is_exit_2(self):
        for arguments, word in ((('drain', 'x'), 'not in this release'), (('topology', 'x'), 'too much'),
                                (('--json',), 'needs a verb'), ((), 'needs a terminal'),
                                (('actors', '--once'), '--once'), (('nonsense',), 'nonsense'),
                                (('actors', '--cluster', 'x'), '--cluster')):
            with self.subTest(arguments=arguments):
                got = self.call(*arguments)
                self.assertEqual(got.returncode, 2, got.stderr)
                self.assertIn(word, got.stderr)
        self.assertEqual(self.node.paths, [])

    def test_no_cluster_is_exit_3(self):
        for arguments in (('topology',), ('events',), ('metrics', '--cluster', 'absent'),
                          ('actors', '--url', '127.0.0.1:1'), ('events', '--url', '127.0.0.1:1')):
            with self.subTest(arguments=arguments):
                got = self.call(*arguments, url=False)
                self.assertEqual(got.returncode, 3, got.stderr)
                self.assertEqual(got.stdout, '')
        self.assertIn('127.0.0.1:1', got.stderr)

    def test_a_server_that_is_no_console_is_exit_1(self):
        self.node.topology = lambda: ['something else']
        got = self.call('topology')
        self.assertEqual(got.returncode, 1)
        self.assertIn('console address', got.stderr)
        got = self.call('topology', '--url', f'{self.node.address}/elsewhere', url=False)
        self.assertEqual(got.returncode, 1)
        self.assertIn('HTTP 404: No such route.', got.stderr)


if __name__ == '__main__':
    unittest.main()
