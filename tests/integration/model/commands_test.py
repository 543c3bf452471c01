#!/usr/bin/env python3
"""deepinfer model make-random, verify, info: exit codes, messages, JSON.
commands_test.py BINARY"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BINARY = sys.argv[1]
del sys.argv[1]


class ModelCommands(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.folder = os.path.join(self.home.name, 'mini')

    def run_model(self, *arguments, code=0, **variables):
        got = subprocess.run([BINARY, 'model', *arguments], capture_output=True, text=True,
                             timeout=60, check=False, env=dict(os.environ, **variables))
        self.assertEqual(got.returncode, code, got.stdout + got.stderr)
        return got

    def make(self):
        self.run_model('make-random', self.folder, '--shape', 'mini8')

    def damage(self):
        shard = os.path.join(self.folder, 'model-00002-of-00002.safetensors')
        os.truncate(shard, os.path.getsize(shard) - 100)

    def test_a_made_checkpoint_is_good(self):
        self.make()
        got = self.run_model('verify', self.folder)
        self.assertIn('good: 0 problems, 0 warnings', got.stdout)
        self.assertIn('layers 4-7', got.stdout)
        self.assertEqual(got.stderr, '', 'no progress without a terminal')

    def test_a_damaged_checkpoint_fails_and_says_why(self):
        self.make()
        self.damage()
        got = self.run_model('verify', self.folder, code=1)
        self.assertIn('model-00002-of-00002.safetensors', got.stdout)
        self.assertIn('cut short', got.stdout)
        report = json.loads(self.run_model('verify', self.folder, '--json', '--fast', code=1).stdout)
        self.assertFalse(report['good'])
        self.assertEqual(report['problems'], len(report['findings']))
        self.assertEqual(report['scanned_bytes'], 0)

    def test_a_pipe_in_the_place_of_a_file_is_refused(self):
        self.make()
        for name in ('model-00001-of-00002.safetensors', 'config.json',
                     'model.safetensors.index.json'):
            path = os.path.join(self.folder, name)
            os.rename(path, path + '.kept')
            os.mkfifo(path)
            for command in ('verify', 'info'):
                got = self.run_model(command, self.folder, code=1)
                self.assertIn('not a regular file', got.stdout + got.stderr)
            os.rename(path + '.kept', path)

    def test_output_that_cannot_be_written_is_no_success(self):
        self.make()
        for command in (['verify', self.folder], ['info', self.folder]):
            with open('/dev/full', 'w', encoding='utf-8') as full:
                got = subprocess.run([BINARY, 'model', *command], stdout=full, timeout=60,
                                     stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(got.returncode, 1, command)
            self.assertIn('could be written', got.stderr)

    def test_a_dump_does_not_go_into_the_checkpoint(self):
        self.make()
        tokens = os.path.join(self.home.name, 'tokens.json')
        with open(tokens, 'w', encoding='utf-8') as out:
            out.write('[1, 2, 3]')
        shard = os.path.join(self.folder, 'model-00001-of-00002.safetensors')
        got = self.run_model('forward', self.folder, '--tokens-file', tokens, '--out', shard, code=2)
        self.assertIn('own folder', got.stderr)
        self.run_model('verify', self.folder)
        self.run_model('forward', self.folder, '--tokens-file', tokens,
                       '--out', os.path.join(self.home.name, 'dump.safetensors'))

    def test_what_is_no_folder_is_wrong_usage(self):
        got = self.run_model('verify', self.folder, code=2)
        self.assertIn('is not a folder', got.stderr)
        self.run_model('verify', code=2)
        self.run_model('make-random', self.folder, '--shape', 'huge', code=2)

    def test_files_of_somebody_else_are_kept(self):
        os.mkdir(self.folder)
        thesis = os.path.join(self.folder, 'thesis.txt')
        with open(thesis, 'w', encoding='utf-8') as file:
            file.write('two years of work')
        got = self.run_model('make-random', self.folder, code=2)
        self.assertIn('--force', got.stderr)
        self.assertEqual(os.listdir(self.folder), ['thesis.txt'])
        self.run_model('make-random', self.folder, '--force')
        self.assertTrue(os.path.exists(thesis))
        self.run_model('make-random', self.folder, '--shape', 'mini8')  # ours now

    def test_progress_is_shown_when_asked_for(self):
        got = self.run_model('make-random', self.folder, '--progress')
        self.assertIn('GB/s', got.stderr)
        self.assertIn('GB/s', self.run_model('verify', self.folder, '--progress').stderr)

    def test_the_published_variable_names_the_folder(self):
        self.make()
        got = self.run_model('verify', DEEPINFER_HF_MODEL_DIR=self.folder)
        self.assertIn('good: ', got.stdout)
        shown = json.loads(self.run_model('info', DEEPINFER_HF_MODEL_DIR=self.folder).stdout)
        self.assertEqual(shown['name'], 'mini')
        tokens = os.path.join(self.home.name, 'tokens.json')
        with open(tokens, 'w', encoding='utf-8') as file:
            json.dump([5, 6, 7], file)
        got = subprocess.run([BINARY, 'generate', '--tokens-file', tokens, '--max-tokens', '1'],
                             capture_output=True, text=True, timeout=60, check=False,
                             env=dict(os.environ, DEEPINFER_HF_MODEL_DIR=self.folder))
        # a vocabulary of 160 has no tokenizer: the folder was found, and that is said
        self.assertEqual(got.returncode, 2)
        self.assertIn(self.folder, got.stderr)


if __name__ == '__main__':
    unittest.main()
