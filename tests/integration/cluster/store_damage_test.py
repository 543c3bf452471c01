#!/usr/bin/env python3
"""A store whose files are damaged: `deepinfer kv verify` finds each kind of damage, and a node that
opens the store mends it, or begins empty, or says what to do. store_damage_test.py BINARY"""

import glob
import json
import os
import re
import shutil

import cluster
from cluster import MODEL, chat_body, wait_until

PROMPT = '\n'.join(f'Line {i}: fox number {i} jumps over the lazy dog and thinks about {i * 7} '
                   f'apples, {i * 11} pears and the evening sky.' for i in range(40))


def overwrite(path, offset, data):
    with open(path, 'r+b') as file:
        file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
        file.write(data)


def one(pattern):
    found = sorted(glob.glob(pattern), key=os.path.getsize)
    assert found, pattern
    return found[-1]


class StoreDamage(cluster.ClusterTest):
    def make_store(self):
        """The folder of a store that a node has filled and left in order."""
        base = os.path.join(self.cluster.folder, 'kv')
        node = self.cluster.start('--roles', 'all', '--model', MODEL,
                                  '--set', f'kvstore.path={base}')
        node.wait_ready()
        wait_until('the store known', lambda: node.counter('kv_writer', 'stores') == 1)
        status, _, data = cluster.call(node.http, 'POST', '/v1/chat/completions',
                                       chat_body(PROMPT, max_tokens=8), timeout=60)
        self.assertEqual(status, 200, data)
        wait_until('blocks stored', lambda: node.counter('kv_store', 'blocks') >= 5 and
                   node.counter('kv_writer', 'queue_bytes') == 0)
        self.blocks = node.counter('kv_store', 'blocks')
        self.assertEqual(node.terminate(), 0)
        return os.path.join(base, '0')

    def verify(self, folder, *more):
        done = self.cluster.command('kv', 'verify', folder, '--json', *more)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr.decode()

    def copy(self, folder, name):
        base = os.path.join(self.cluster.folder, name)
        shutil.copytree(folder, os.path.join(base, '0'))
        return base, os.path.join(base, '0')

    def opened(self, base):
        """A node with this store: its blocks, and its log."""
        node = self.cluster.start('--roles', 'kvstore', '--set', f'kvstore.path={base}')
        blocks = int(re.search(r'kvstore\.opened .*?blocks=(\d+)', node.log())[1])
        self.assertEqual(node.terminate(), 0)
        return blocks, node.log()

    def damages(self):
        """name -> (what to do to a store's folder, the count that tells, blocks left when opened:
        all, none, or fewer)"""
        def flip(path, offset):
            with open(path, 'rb') as file:
                file.seek(offset)
                old = file.read(1)[0]
            overwrite(path, offset, bytes([old ^ 4]))
        segment = lambda home: one(home + '/segments/*.kv')
        return {
            'id-garbage': (lambda h: overwrite(h + '/id', 0, b'no id'), 'wrong_names', 'all'),
            'id-missing': (lambda h: os.remove(h + '/id'), 'wrong_names', 'all'),
            'copy-missing': (lambda h: os.remove(h + '/id.copy'), 'wrong_names', 'all'),
            'both-ids': (lambda h: [overwrite(h + '/' + n, 3, b'##') for n in ('id', 'id.copy')],
                         'wrong_names', 'all'),
            'mark-other': (lambda h: overwrite(h + '/segments/mark', 0, b'0123456789abcdef' * 2),
                           'wrong_names', 'all'),
            'mark-missing': (lambda h: os.remove(h + '/segments/mark'), 'wrong_names', 'all'),
            'log-garbage': (lambda h: overwrite(one(h + '/index/*.log'), 200, b'\x55' * 400),
                            'damaged_index', 'fewer'),
            'current': (lambda h: overwrite(h + '/index/CURRENT', 0, b'junk'), 'damaged_index',
                        'none'),
            'manifest': (lambda h: overwrite(one(h + '/index/MANIFEST-*'), 8, b'\x33' * 64),
                         'damaged_index', 'none'),
            'manifest-missing': (lambda h: os.remove(one(h + '/index/MANIFEST-*')),
                                 'damaged_index', 'none'),
            'payload': (lambda h: flip(segment(h), 4096 + 50), 'wrong_bytes', 'all'),
            'header': (lambda h: flip(segment(h), 12), 'wrong_frames', 'all'),
            'segment-missing': (lambda h: os.remove(segment(h)), 'wrong_bytes', 'none'),
        }

    def test_each_kind_of_damage_is_found_and_the_next_opening_goes_on(self):
        home = self.make_store()
        code, report = self.verify(home)
        self.assertEqual((code, report['wrong'], report['problems']), (0, 0, []))
        self.assertEqual(report['blocks'], self.blocks)
        for name, (damage, kind, left) in self.damages().items():
            with self.subTest(name):
                base, broken = self.copy(home, name)
                damage(broken)
                code, report = self.verify(broken)
                self.assertEqual(code, 1, report)
                self.assertGreater(report[kind], 0, report)
                self.assertTrue(report['problems'])
                blocks, log = self.opened(base)
                if left == 'all':
                    self.assertEqual(blocks, self.blocks, log)
                elif left == 'none':
                    self.assertEqual(blocks, 0, log)
                else:
                    self.assertLess(blocks, self.blocks, log)
                if kind == 'damaged_index' and left == 'none':
                    self.assertIn('kvstore.mended', log)
                    self.assertTrue(os.path.isdir(broken + '/index.damaged'))
                if name.startswith('id') or name == 'both-ids':
                    self.assertIn('kvstore.mended', log)
                if kind in ('wrong_names', 'damaged_index'):  # nothing of it is left
                    code, report = self.verify(broken)
                    self.assertEqual((code, report['wrong']), (0, 0), report)

    def test_what_is_no_store_or_no_setting_is_refused_with_2(self):
        home = os.path.join(self.cluster.folder, 'nothing')
        os.mkdir(home)
        self.assertEqual(self.verify(home)[0], 2)
        for flags in (('--group-blocks', '0'), ('--group-blocks', '-1'), ('--segments', '/nowhere')):
            self.assertEqual(self.verify(home, *flags)[0], 2, flags)

    def test_settings_that_do_not_go_together_end_the_node_with_2_and_name_the_key(self):
        wrong = {
            'kvstore.low_mark': ['kvstore.low_mark=0.95'],
            'kvstore.path': ['kvstore.engine=shared'],
            'kvstore.index_path': ['kvstore.index_path=/tmp/x'],
            'kvstore.engine': ['kvstore.engine=memory', 'kvstore.path=/tmp/x'],
            'kvstore.replicas': ['kvstore.engine=shared', 'kvstore.path=/tmp/x',
                                 'kvstore.replicas=2'],
            'kvstore.capacity': ['kvstore.capacity=1MiB'],
            'kvstore.quota': ['kvstore.quota=1KiB'],
        }
        for key, settings in wrong.items():
            for roles in ('all', 'kvstore'):
                with self.subTest(key, roles=roles):
                    flags = [word for one in settings for word in ('--set', one)]
                    done = self.cluster.command('node', '--roles', roles, '--model', MODEL, *flags)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(key, done.stderr.decode())


if __name__ == '__main__':
    cluster.main()
