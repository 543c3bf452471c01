#!/usr/bin/env python3
"""Machines as network namespaces: join by address, partition, multicast. namespaces_test.py BINARY

Needs root and the right to make network namespaces; ends with 77 where it may not.
"""

import json
import os
import subprocess
import sys
import time

import cluster
from cluster import MODEL, SEEN_WITHIN, Stream, ask, call, chat_body, wait_until

SECRET = ('--set', 'node.secret=known to all three')


def ip(*arguments, check=True):
    return subprocess.run(['ip', *arguments], check=check, capture_output=True, text=True)


class Lan:
    """`count` namespaces, each with one interface on a bridge that has a namespace of its own."""

    def __init__(self, count):
        self.name = f'di{os.getpid()}'
        self.switch = f'{self.name}s'
        self.machines = [f'{self.name}m{i}' for i in range(count)]
        self.made = []

    def __enter__(self):
        try:
            for name in (self.switch, *self.machines):
                ip('netns', 'add', name)
                self.made.append(name)
                ip('-n', name, 'link', 'set', 'lo', 'up')
            # without snooping the bridge floods multicast, as a plain switch does
            ip('-n', self.switch, 'link', 'add', 'br0', 'type', 'bridge', 'mcast_snooping', '0')
            ip('-n', self.switch, 'link', 'set', 'br0', 'up')
            for number, machine in enumerate(self.machines):
                ip('-n', self.switch, 'link', 'add', f'port{number}', 'type', 'veth',
                   'peer', 'name', 'eth0', 'netns', machine)
                ip('-n', self.switch, 'link', 'set', f'port{number}', 'master', 'br0', 'up')
                ip('-n', machine, 'address', 'add', f'10.74.0.{number + 1}/24', 'dev', 'eth0')
                ip('-n', machine, 'link', 'set', 'eth0', 'up')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.made:
            ip('netns', 'del', name, check=False)

    def address(self, number):
        return f'10.74.0.{number + 1}'

    def plug(self, number, state):
        """`state` is 'up' or 'down': the cable of one machine."""
        ip('-n', self.switch, 'link', 'set', f'port{number}', state)


class Namespaces(cluster.ClusterTest):
    def setUp(self):
        self.lan = Lan(3)
        # registered first and so run last: the nodes end before their network does
        self.addCleanup(self.lan.__exit__)
        self.lan.__enter__()
        super().setUp()

    def launch(self, number, *arguments):
        folder = os.path.join(self.cluster.folder, f'machine{number}')
        return self.cluster.launch(
            *arguments, '--listen', f'{self.lan.address(number)}:7400', *SECRET,
            namespace=self.lan.machines[number], environment={'DEEPINFER_RUNTIME_DIR': folder})

    def start_all(self, roles, more):
        nodes = [self.launch(n, '--roles', roles[n], '--model', MODEL, *more(n))
                 for n in range(3)]
        for node in nodes:
            node.wait_started()
        self.wait_together(nodes)
        return nodes

    def wait_together(self, nodes, within=3 * SEEN_WITHIN):
        return wait_until('all see all', lambda: all(
            node.sees(*(set(nodes) - {node})) for node in nodes), within)[1]

    def join_first(self, number):
        return ('--join', f'{self.lan.address(0)}:7400') if number else ()

    def test_three_machines_serve_together(self):
        nodes = self.start_all(['gateway,controller', 'prefill', 'decode'], self.join_first)
        nodes[0].wait_ready()
        status, answer = ask(nodes[0].http, chat_body())
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer['choices'][0]['message']['content'], 'Hello! How can I help you?')

    def test_a_partition_is_seen_by_both_sides_and_heals(self):
        nodes = self.start_all(['all'] * 3, self.join_first)
        for node in nodes:
            node.wait_ready()
        *majority, cut_off = nodes
        stream = Stream(majority[0].http, chat_body(
            'Tell me a story about a cat.', ignore_eos=True, max_tokens=300)).read_events(5)
        self.lan.plug(2, 'down')
        begun = time.monotonic()
        wait_until('the majority misses one', lambda: all(
            node.state_of(cut_off) != 'alive' for node in majority), SEEN_WITHIN)
        self.report('seen by the majority', time.monotonic() - begun)
        wait_until('the minority misses two', lambda: cut_off.sees(), SEEN_WITHIN)
        self.report('seen by both sides', time.monotonic() - begun)

        status, answer = ask(cut_off.http, chat_body())
        self.assertEqual((status, answer['error']['code']), (503, 'minority'), answer)
        self.assertEqual(call(cut_off.http, 'GET', '/ready')[0], 503)
        self.assertIn('majority', json.loads(call(cut_off.http, 'GET', '/health')[2])['reason'])
        for node in majority:
            self.assertEqual(ask(node.http, chat_body())[0], 200)
        # whichever engines it ran on: a whole answer or an error that says so
        stream.read_all()
        self.assertTrue(stream.is_complete() or stream.is_clean_error(), stream.__dict__)

        self.lan.plug(2, 'up')
        self.report('healed', self.wait_together(nodes))
        for node in nodes:
            node.wait_ready(SEEN_WITHIN)
            self.assertEqual(ask(node.http, chat_body())[0], 200)

    def test_nodes_of_a_lan_find_each_other_by_multicast(self):
        nodes = self.start_all(['controller'] * 3, lambda n: (
            '--set', 'multicast.enabled=true', '--set', 'multicast.interface=eth0'))
        self.assertEqual(len(nodes[0].states()), 3)


def why_not():
    if os.geteuid() != 0:
        return 'network namespaces need root'
    name = f'di{os.getpid()}t'
    try:
        tried = ip('netns', 'add', name, check=False)
        if tried.returncode == 0:
            links = ip('-n', name, 'link', 'add', 'b0', 'type', 'bridge', check=False)
            ip('netns', 'del', name, check=False)
            return f'no bridge: {links.stderr.strip()}' if links.returncode else None
        return f'no network namespaces: {tried.stderr.strip()}'
    except FileNotFoundError:
        return 'the command ip (iproute2) is missing'


if __name__ == '__main__':
    if reason := why_not():
        print(f'skipped: {reason}')
        sys.exit(77)
    cluster.main()
