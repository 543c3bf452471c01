#!/usr/bin/env python3
"""deploy/up and deploy/down start, find and end exactly their own processes."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DEPLOY = os.path.join(HERE, '..', '..', '..', 'deploy')
STAND_IN = os.path.join(HERE, 'stand_in.py')


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Up(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = os.path.join(self.folder.name, 'model')
        os.mkdir(self.model)
        with open(os.path.join(self.model, 'config.json'), 'w', encoding='utf-8') as file:
            file.write('{}')
        self.state = os.path.join(self.folder.name, f'deepinfer-{os.getuid()}', 'up-local')
        self.addCleanup(lambda: self.call('down'))

    def environment(self, wrong):
        return dict(os.environ, XDG_RUNTIME_DIR=self.folder.name, XDG_CACHE_HOME=self.folder.name,
                    STAND_IN=wrong, UP_STOP_SECONDS='3')

    def call(self, command, *arguments, wrong=''):
        return subprocess.run([os.path.join(DEPLOY, command), *arguments], text=True, timeout=60,
                              env=self.environment(wrong), stdin=subprocess.DEVNULL, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def up(self, *arguments, wrong=''):
        return self.call('up', '--binary', STAND_IN, '--model', self.model, *arguments, wrong=wrong)

    def recorded(self):
        with open(os.path.join(self.state, 'processes'), encoding='utf-8') as file:
            return [int(line.split()[0]) for line in file]

    def test_once_asks_and_leaves_nothing_behind(self):
        done = self.up('--once', '--prompt', 'two words')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('answer to two words 200', done.stdout)
        self.assertIn('loading weights', done.stdout)
        pids = [int(pid) for pid in re.findall(r'pid (\d+)', done.stdout)]
        self.assertEqual(len(pids), 1)
        self.assertFalse(alive(pids[0]))
        self.assertEqual(self.recorded(), [])

    def test_a_second_up_finds_the_first_and_down_ends_it(self):
        first = self.up('--nodes', '3')
        self.assertEqual(first.returncode, 0, first.stdout)
        for roles in ('gateway,controller', 'prefill,kvstore', 'decode'):
            self.assertIn(f': {roles}, pid', first.stdout)
        pids = self.recorded()
        self.assertTrue(all(alive(pid) for pid in pids))
        second = self.up()
        self.assertEqual(second.returncode, 0, second.stdout)
        self.assertIn('running already', second.stdout)
        gateway = re.search(r'gateway +(http\S+)', first.stdout).group(1)
        self.assertIn(gateway, second.stdout)
        self.assertEqual(self.recorded(), pids)
        self.assertEqual(self.call('down').returncode, 0)
        self.assertFalse(any(alive(pid) for pid in pids))
        self.assertIn('not running', self.call('down').stdout)

    def test_a_node_that_dies_is_told_with_its_reason_and_the_others_end(self):
        done = self.up('--nodes', '3', wrong='dies')
        self.assertEqual(done.returncode, 1)
        self.assertIn('cannot load the weights', done.stdout)
        self.assertIn('node-3 ended', done.stdout)
        self.assertFalse(any(alive(int(pid)) for pid in re.findall(r'pid (\d+)', done.stdout)))

    def test_a_cluster_that_lost_a_node_is_started_anew(self):
        self.up('--nodes', '2')
        before = self.recorded()
        os.kill(before[1], signal.SIGKILL)
        self.assertTrue(within(5, lambda: not alive(before[1])))
        done = self.up('--nodes', '2')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn('running already', done.stdout)
        self.assertFalse(alive(before[0]))
        self.assertFalse(set(before) & set(self.recorded()))

    def test_a_failed_request_fails_the_command_and_stops_the_cluster(self):
        done = self.up('--once', wrong='chat')
        self.assertEqual(done.returncode, 1)
        self.assertIn('the request failed (exit status 1)', done.stdout)
        self.assertEqual(self.recorded(), [])

    def test_a_process_that_took_over_a_number_is_left_alone(self):
        bystander = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        self.assertEqual(self.up().returncode, 0)
        with open(os.path.join(self.state, 'processes'), 'a', encoding='utf-8') as file:
            file.write(f'{bystander.pid} 12345 node-2\n')
        self.assertEqual(self.call('down').returncode, 0)
        self.assertIsNone(bystander.poll())

    def test_a_node_that_does_not_end_is_killed(self):
        self.up(wrong='deaf')
        pid, = self.recorded()
        done = self.call('down')
        self.assertIn('did not end within 3 s: killed', done.stdout)
        self.assertFalse(alive(pid))

    def test_an_interrupt_stops_what_was_started(self):
        with open(os.path.join(self.folder.name, 'out'), 'w', encoding='utf-8') as out:
            # Without --once the command would leave the node running; the interrupt must not.
            running = subprocess.Popen(
                [os.path.join(DEPLOY, 'up'), '--binary', STAND_IN, '--model', self.model],
                env=self.environment(''), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
        records = os.path.join(self.state, 'processes')
        self.assertTrue(within(10, lambda: os.path.exists(records) and self.recorded()))
        pid, = self.recorded()
        running.send_signal(signal.SIGINT)
        self.assertEqual(running.wait(timeout=30), 130)
        self.assertFalse(alive(pid))

    def test_wrong_usage_is_told_before_anything_starts(self):
        for arguments in (['--nodes', '0'], ['--nodes', 'x'], ['--cluster', '../x'], ['--what']):
            with self.subTest(arguments):
                self.assertEqual(self.up(*arguments).returncode, 2)
        self.assertEqual(self.call('up', '--model', self.folder.name).returncode, 1)


if __name__ == '__main__':
    unittest.main()
