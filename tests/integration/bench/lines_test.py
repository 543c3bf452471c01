#!/usr/bin/env python3
"""deepinfer bench with the smallest counts: the lines and what they name, never the times.
lines_test.py BINARY MODEL"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY, MODEL = sys.argv[1:3]
TRACES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'golden', 'kv_traces')
del sys.argv[1:3]
FIELDS = ['name', 'value', 'unit', 'ratio_to', 'ratio', 'runs', 'spread']


class Bench(unittest.TestCase):
    def run_bench(self, *arguments, **variables):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, DEEPINFER_RUNTIME_DIR=folder, **variables)
            return subprocess.run([BINARY, 'bench', *arguments], capture_output=True, text=True,
                                  timeout=90, check=False, env=environment)

    def lines(self, *arguments):
        got = self.run_bench(*arguments, '--json', '--smoke')
        self.assertEqual(got.returncode, 0, got.stderr)
        return [json.loads(line) for line in got.stdout.splitlines()]

    def check_lines(self, lines, wanted):
        names = [line['name'] for line in lines]
        self.assertEqual(len(names), len(set(names)), 'a name twice')
        self.assertLessEqual(set(wanted), set(names))
        for line in lines:
            self.assertEqual(list(line), FIELDS, line)
            for key in ('value', 'spread'):
                self.assertTrue(math.isfinite(line[key]), line)
            self.assertGreaterEqual(line['spread'], 0, line)
            self.assertGreaterEqual(line['runs'], 1, line)
            if line['ratio_to'] is None:
                self.assertIsNone(line['ratio'], line)
            else:
                self.assertIn(line['ratio_to'], names, line)
                self.assertTrue(math.isfinite(line['ratio']), line)

    def test_fabric_compares_actors_and_transport_with_libfabric(self):
        lines = self.lines('fabric')
        self.check_lines(lines, ['fabric.raw.ping_64B', 'fabric.actor.request_64B_inline',
                                 'fabric.actor.request_64B_scheduled', 'fabric.actor.local_hop'])
        for line in lines:
            if line['name'].startswith('fabric.actor.request_64B'):
                self.assertEqual(line['ratio_to'], 'fabric.raw.ping_64B')
                self.assertGreater(line['value'], 0)

    def test_serve_compares_a_whole_node_with_the_bare_server(self):
        lines = self.lines('serve', '--model', MODEL)
        self.check_lines(lines, ['serve.bare.short_streams_4', 'serve.known.short_streams_4',
                                 'serve.chat.short_streams_4', 'serve.known.token_age_p99_4',
                                 'serve.known.first_token_p50', 'serve.known.stream_memory_4',
                                 'serve.start.exec_to_ready'])
        for line in lines:
            if line['name'].endswith('short_streams_4'):
                self.assertGreater(line['value'], 0, 'no request was answered')

    def test_kernels_compares_ops_with_the_limits_of_the_machine(self):
        lines = self.lines('kernels', '--threads', '2')
        self.check_lines(lines, ['machine.read_t1', 'machine.fma_t2', 'machine.handover_t2',
                                 'linear.square.fp8.256_t1', 'linear.square.fp8.256_t2',
                                 'fake_quant.fp8_32.5120_t1', 'pack_rows.fp8_32.5120_ref'])
        for line in lines:
            self.assertGreater(line['value'], 0, line)
            if line['name'].startswith('linear.square.fp8.256_t'):
                self.assertIn('machine.', line['ratio_to'])

    def test_kernels_measures_only_what_it_is_asked_for(self):
        names = [line['name'] for line in self.lines('kernels', '--only', 'fp4.256')]
        linear = [name for name in names if not name.startswith('machine.')]
        self.assertTrue(linear)
        self.assertTrue(all('fp4.256' in name for name in linear), linear)

    def test_kernels_covers_attention_selection_sampling_and_rows(self):
        for case in ['attention.8x128.1', 'index.8x64', 'select_top', 'sample.greedy', 'hc_mix.1']:
            names = [line['name'] for line in self.lines('kernels', '--only', case)]
            for suffix in ['_t1', '_ref'] if 'index' not in case else ['_t1']:
                self.assertTrue(any(name.startswith(case) and name.endswith(suffix)
                                    for name in names), names)

    def test_recipe_follows_a_request_in_and_an_answer_out(self):
        lines = self.lines('recipe', '--tokenizer', os.path.join(MODEL, 'tokenizer.json'))
        self.check_lines(lines, ['recipe.encode_t1', 'recipe.encode_wall_t2', 'recipe.turn.whole',
                                 'recipe.turn.encode', 'recipe.next_turn.whole',
                                 'recipe.next_turn.known', 'recipe.output.parser',
                                 'recipe.output.whole_token'])
        values = {line['name']: line for line in lines}
        for line in lines:
            if not line['name'].endswith('.convert'):  # a difference of two times
                self.assertGreater(line['value'], 0, line)
        self.assertEqual(values['recipe.next_turn.whole']['ratio_to'], 'recipe.turn.whole')
        self.assertGreater(values['recipe.next_turn.known']['value'], 0.3)
        self.assertLess(values['recipe.next_turn.known']['value'], 1)
        self.assertEqual(round(values['recipe.turn.tokens']['value'], -3), 3000)

    def test_recipe_encodes_the_text_it_is_given(self):
        tokenizer = os.path.join(MODEL, 'tokenizer.json')
        with tempfile.NamedTemporaryFile(suffix='.txt') as text:
            text.write('Some words, ein paar Wörter. '.encode() * 200)
            text.flush()
            lines = self.lines('recipe', '--tokenizer', tokenizer, '--text', text.name)
            self.check_lines(lines, ['recipe.encode_t1'])
            text.write(b'\xff')
            text.flush()
            got = self.run_bench('recipe', '--smoke', '--tokenizer', tokenizer, '--text', text.name)
        self.assertEqual(got.returncode, 1)
        self.assertIn('not UTF-8', got.stderr)
        got = self.run_bench('recipe', '--smoke', '--tokenizer', '/no/such/file')
        self.assertEqual(got.returncode, 1)
        self.assertIn('/no/such/file', got.stderr)

    def test_kv_measures_stores_beside_the_disk_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = self.lines('kv', '--path', folder)
            self.assertEqual(os.listdir(folder), [])
        self.check_lines(lines, ['kv.checksum_block', 'kv.match.indexed', 'kv.match.prompt_602_p99',
                                 'kv.direct.store_write', 'kv.direct.store_random_read',
                                 'kv.cached.files_random_read_verified',
                                 'kv.restart.store_opened', 'kv.persist.step_storing'])
        values = {line['name']: line for line in lines}
        for line in lines:
            self.assertGreater(line['value'], 0, line)
        self.assertLessEqual(values['kv.match.memory']['value'], 100)
        if shutil.which('fio'):
            self.assertEqual(values['kv.direct.store_random_read']['ratio_to'],
                             'kv.direct.fio_random_read')

    def test_kv_says_so_when_fio_is_not_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            got = self.run_bench('kv', '--smoke', '--json', '--only', 'disk', '--path', folder,
                                 PATH=folder)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn('fio is not installed', got.stderr)
        self.assertNotIn('fio', got.stdout)

    def replay(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            got = self.run_bench('kv', '--json', '--path', folder, *arguments)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(got.returncode, 0, got.stderr)
        lines = [json.loads(line) for line in got.stdout.splitlines()]
        self.check_lines(lines, [])
        return {line['name']: line['value'] for line in lines}

    def test_kv_replay_finds_what_the_trace_allows_on_one_store_and_on_many(self):
        for store in ['memory', 'rocks']:
            found = self.replay('--trace', TRACES, '--stores', '3', '--store', store)
            for name in ['conversation', 'coding_sessions']:
                prefix = f'kv.trace.{name}.'
                self.assertGreater(found[prefix + 'bound_tokens'], 2)
                for stores in ['1_store', '3_stores']:
                    for what in ['tokens', 'blocks']:
                        short = found[prefix + 'bound_' + what] - found[f'{prefix}hit_{what}_{stores}']
                        self.assertLessEqual(abs(short), 0.5, (name, store, stores, what))
                self.assertEqual(found[prefix + 'other_hits_3_stores'], 0)
                self.assertEqual(found[prefix + 'stored_1_store'], found[prefix + 'stored_3_stores'])

    def test_kv_replay_keeps_to_the_time_to_live_of_agents(self):
        ids = list(range(16))
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as trace:
            hours = [0, 1, 100, 101]  # the third comes after its prefix has expired (72 h)
            json.dump({'block_size': 64, 'requests': [
                {'t': 3600.0 * h, 'in': 1024, 'out': 1, 'hash_ids': ids} for h in hours]}, trace)
            trace.flush()
            found = self.replay('--trace', trace.name, '--stores', '2')
        self.assertEqual(found['kv.trace.coding_sessions.bound_tokens'], 75)
        self.assertEqual(found['kv.trace.coding_sessions.hit_tokens_1_store'], 50)
        self.assertEqual(found['kv.trace.coding_sessions.hit_tokens_2_stores'], 50)

    def test_kv_replay_refuses_what_is_no_trace(self):
        for text in ['{"timestamp":0}', 'x', '{"timestamp":0,"input_length":9999,"hash_ids":[1]}']:
            with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as trace:
                trace.write(text + '\n')
                trace.flush()
                got = self.run_bench('kv', '--trace', trace.name)
                self.assertEqual(got.returncode, 1, text)
                self.assertIn('line 1', got.stderr)

    def test_without_json_it_is_a_table_with_one_row_a_figure(self):
        got = self.run_bench('fabric', '--smoke')
        self.assertEqual(got.returncode, 0, got.stderr)
        rows = got.stdout.splitlines()
        self.assertTrue(any(row.startswith('fabric.raw.ping_64B ') and ' us ' in row
                            for row in rows), got.stdout)
        self.assertFalse(any(row.startswith('{') for row in rows))

    def test_a_model_that_is_not_there_is_an_error_with_its_name(self):
        got = self.run_bench('serve', '--smoke', '--model', '/no/such/model')
        self.assertEqual(got.returncode, 1)
        self.assertIn('/no/such/model', got.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=2)
