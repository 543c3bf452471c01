#!/usr/bin/env python3
"""What a person types wrongly is said in one clear line and exit code 2. usage_test.py BINARY"""

import os
import re
import socket

import cluster
from cluster import MODEL

BARE = ('node', '--roles', 'controller')


class Usage(cluster.ClusterTest):
    def assert_refused(self, arguments, *said, code=2):
        got = self.cluster.command(*arguments)
        text = got.stderr.decode()
        self.assertEqual(got.returncode, code, (arguments, text))
        for part in said:
            self.assertIn(part, text)
        self.assertNotIn('terminate called', text)
        return text

    def test_wrong_flags_and_values(self):
        self.assert_refused(['node', '--no-such-flag'], '--no-such-flag')
        self.assert_refused(['no-such-command'], 'subcommand')
        self.assert_refused(['node', '--roles', 'prefil', '--model', MODEL], "'prefil'", 'gateway',
                            'prefill', 'decode', 'controller', 'all')
        self.assert_refused(['node', '--roles', 'vision', '--model', MODEL], 'vision')
        self.assert_refused([*BARE, '--set', 'node.secret'], 'section.key=value')
        self.assert_refused([*BARE, '--set', 'node.no_such_key=1'], 'no_such_key')
        self.assert_refused([*BARE, '--set', 'node.threads=many'], 'threads')
        self.assert_refused([*BARE, '--set', 'node.threads=0'], 'threads')
        self.assert_refused([*BARE, '--listen', 'nonsense'], 'nonsense')
        self.assert_refused([*BARE, '--listen', '127.0.0.1:99999'], '99999')
        self.assert_refused(['node', '--model', MODEL, '--http', 'nonsense'], 'nonsense')
        self.assert_refused([*BARE, '--console', 'nonsense'], 'nonsense')
        self.assert_refused([*BARE, '--join', 'nonsense'], 'nonsense')

    def test_wrong_files(self):
        folder = self.cluster.folder
        self.assert_refused(['node', '--model', folder + '/nothing'], folder + '/nothing')
        self.assert_refused(['node', '--model', folder], folder)
        self.assert_refused([*BARE, '--config', folder + '/nothing.toml'], 'nothing.toml')
        path = folder + '/wrong.toml'
        for text, said in (('[node', 'wrong.toml'), ('[node]\nthread = 2\n', 'thread'),
                           ('[nod]\nthreads = 2\n', 'nod'), ('[node]\nthreads = "many"\n', 'threads')):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            self.assert_refused([*BARE, '--config', path], said)

    def test_a_broken_checkpoint_is_refused(self):
        broken = os.path.join(self.cluster.folder, 'broken')
        os.mkdir(broken)
        for name in os.listdir(MODEL):
            if name != 'model.safetensors':
                os.symlink(os.path.join(MODEL, name), os.path.join(broken, name))
        self.assert_refused(['node', '--model', broken], 'model.safetensors')
        with open(os.path.join(MODEL, 'model.safetensors'), 'rb') as whole, \
                open(os.path.join(broken, 'model.safetensors'), 'wb') as half:
            half.write(whole.read(1 << 20))
        self.assert_refused(['node', '--model', broken], 'model.safetensors')

    def test_a_named_port_that_is_taken_is_an_error_and_a_default_one_moves(self):
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            taken.listen()
            port = taken.getsockname()[1]
            where = f'127.0.0.1:{port}'
            for flag in ('--listen', '--console', '--http'):
                with self.subTest(flag):
                    text = self.assert_refused(
                        ['node', '--model', MODEL, flag, where], str(port))
                    self.assertRegex(text, 'in use|taken')
        nodes = [self.cluster.start('--model', MODEL) for _ in range(2)]
        ports = [{name: int(re.search(r':(\d+)$', n.started[name])[1])
                  for name in ('fabric', 'http', 'console')} for n in nodes]
        for name, least in (('fabric', 7400), ('http', 8000), ('console', 8001)):
            numbers = [p[name] for p in ports]
            self.assertEqual(len(set(numbers)), 2, ports)
            self.assertTrue(all(least <= n < least + 100 for n in numbers), ports)

    def test_exit_codes_of_a_cluster_that_is_not_there(self):
        self.assert_refused(['console', 'topology'], code=3)
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            url = f'http://127.0.0.1:{free.getsockname()[1]}'
        self.assert_refused(['console', 'topology', '--url', url], code=3)
        self.assert_refused(['chat', 'Hi', '--url', url], code=3)


class BundledModel(cluster.ClusterTest):
    def test_a_node_without_a_model_serves_the_bundled_one(self):
        node = self.cluster.start('--roles', 'all')
        node.wait_ready()
        status, body = cluster.ask(node.http, cluster.chat_body('Hello!'))
        self.assertEqual((status, body['model']), (200, 'tiny-v41'), node.log())


if __name__ == '__main__':
    cluster.main()
