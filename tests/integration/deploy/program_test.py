#!/usr/bin/env python3
"""deploy/up with the real program and the bundled model: what the README promises.
Usage: program_test.py PROGRAM"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..'))
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else os.path.join(TOP, 'build', 'actors', 'deepinfer')


class Program(unittest.TestCase):
    def up(self, *arguments):
        """What `deploy/up --once` printed, and the answer of the model in it."""
        with tempfile.TemporaryDirectory() as folder:
            clean = {k: v for k, v in os.environ.items() if not k.startswith('DEEPINFER_')}
            done = subprocess.run(
                [os.path.join(TOP, 'deploy', 'up'), '--once', '--binary', PROGRAM, *arguments],
                env=dict(clean, XDG_RUNTIME_DIR=folder, XDG_CACHE_HOME=folder),
                stdin=subprocess.DEVNULL, timeout=300, check=False,
                text=True, errors='replace', stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        for pid in re.findall(r'pid (\d+)', done.stdout):
            self.assertFalse(os.path.exists(f'/proc/{pid}'), f'process {pid} was left behind')
        answer = re.search(r'asking: [^\n]*\n(.*)\n[^\n]*stopped, as --once asks', done.stdout, re.S)
        self.assertIsNotNone(answer, done.stdout)
        self.assertTrue(answer.group(1).strip(), 'the answer is empty')
        return answer.group(1).strip()

    def test_one_process_and_three_give_the_same_answer(self):
        self.assertEqual(self.up(), self.up('--nodes', '3'))


if __name__ == '__main__':
    unittest.main()
