#!/usr/bin/env python3
"""The process that fetches for a machine: kept by one node, taken over by another, never left
behind, and never taken for a node. fetch_process_test.py BINARY"""

import os
import re
import signal
import subprocess
import time

import cluster
from cache_test import LINES, Site, system
from cluster import BINARY, MODEL, wait_until

COMPUTE = 'prefill,decode'
ASKED = [system(), {'role': 'user', 'content': LINES[30]}]


def status_of(pid):
    """(state, parent) of a process; None when it is gone."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as stat:
            fields = stat.read().rsplit(')', 1)[1].split()
        return fields[0], int(fields[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_gone(pid):
    return status_of(pid) in (None,) or status_of(pid)[0] == 'Z'


def children_of(pid):
    """(pid, state) of each child, those that ended and were not waited for included."""
    found = []
    for name in os.listdir('/proc'):
        status = status_of(name) if name.isdigit() else None
        if status and status[1] == pid:
            found.append((int(name), status[0]))
    return found


class FetchProcess(cluster.ClusterTest):
    def fetch_process(self, other_than=0):
        """The fetch process that the cluster knows; waits for it."""
        def probe():
            found = [a['counters'].get('process', 0) for a in self.site.gateway.topology()['actors']
                     if a['kind'] == 'kv_fetch']
            return [p for p in found if p not in (0, other_than)]
        found, took = wait_until('a fetch process', probe)
        self.report('fetch process seen after', took)
        self.assertEqual(len(found), 1)
        return found[0]

    def start(self, *roles, **settings):
        self.site = Site(self, **settings).start('gateway,controller', *roles, 'kvstore')
        return self.site.known()

    def warnings(self, node, since=0):
        return [line for line in node.log()[since:].splitlines() if re.match(r'\S+ (warn|error) ', line)]

    def assert_hits(self, reference):
        """A prompt that is stored is fetched, and says what it said."""
        def probe():
            answer = self.site.ask(ASKED)
            self.assertEqual(answer['choices'][0]['message']['content'], reference)
            return self.site.cached(answer) > 256
        _, took = wait_until('a hit', probe)
        self.report('a hit after', took)

    def test_a_killed_keeper_is_followed_by_the_other_node_of_the_machine(self):
        site = self.start(COMPUTE)
        first = site.nodes[COMPUTE]
        process = self.fetch_process()
        self.assertEqual(status_of(process)[1], first.process.pid)
        second = self.cluster.start('--roles', COMPUTE, '--model', MODEL)
        wait_until('two engines', lambda: site.gateway.sees(first, second, site.nodes['kvstore']))
        self.assertEqual(children_of(second.process.pid), [])  # one for each machine
        reference = site.ask(ASKED)['choices'][0]['message']['content']
        site.settle()
        self.assert_hits(reference)

        first.kill()
        del site.nodes[COMPUTE]
        _, took = wait_until('the orphan ends', lambda: is_gone(process))
        self.report('orphan gone after', took)
        taken = self.fetch_process(other_than=process)
        self.assertEqual(status_of(taken)[1], second.process.pid)
        self.assert_hits(reference)
        self.assertGreater(site.sum('kv_fetch', 'blocks_read'), 0)

    def test_it_is_shown_as_what_it_is_and_is_no_node(self):
        site = self.start(COMPUTE)
        process = self.fetch_process()
        nodes = set(site.nodes.values())
        for node in nodes:
            wait_until('the cluster', lambda n=node: n.sees(*(nodes - {n})))
            shown = node.topology()
            self.assertEqual([n['roles'] for n in shown['fetch_processes']], [['fetch']])
            self.assertEqual(len(shown['nodes']), 3)
        table = self.cluster.command('console', 'topology', '--cluster', self.cluster.name)
        self.assertEqual(table.stdout.count(b'(fetch process)'), 1, table.stdout)
        # one that dies is soon forgotten, and was never a node that is missed
        os.kill(process, signal.SIGKILL)
        self.fetch_process(other_than=process)
        wait_until('it is forgotten', lambda: len(site.gateway.topology()['fetch_processes']) == 1)
        self.assertEqual(len(site.gateway.topology()['nodes']), 3)
        self.assertTrue(site.gateway.is_ready())
        keeper = site.nodes[COMPUTE].process.pid
        self.assertNotIn('Z', [state for _, state in children_of(keeper)])

    def test_it_ends_with_its_node_and_nobody_is_warned(self):
        for how in ('term', 'terminal', 'group', 'kill'):
            with self.subTest(how):
                node = self.cluster.launch('--model', MODEL)
                node.wait_started()
                self.site = Site(self)
                self.site.nodes['gateway,controller'] = node
                node.wait_ready()
                process = self.fetch_process()
                before = len(node.log())
                begun = time.monotonic()
                if how == 'term':
                    node.signal(signal.SIGTERM)
                elif how == 'terminal':  # Ctrl-C goes to the node's process group; the child has its own
                    self.assertNotEqual(os.getpgid(process), os.getpgid(node.process.pid))
                    node.signal(signal.SIGINT)
                elif how == 'group':  # as a service manager ends all processes of a service
                    node.signal(signal.SIGTERM)
                    os.kill(process, signal.SIGTERM)
                else:
                    node.signal(signal.SIGKILL)
                code = node.process.wait(20)
                self.report(f'{how}: node ended after', time.monotonic() - begun)
                wait_until('no process is left', lambda p=process: is_gone(p))
                if how != 'kill':
                    self.assertEqual(code, 0)
                    warned = self.warnings(node, before)
                    if how == 'group':  # both end at once: a word to the other may be under way
                        warned = [line for line in warned if 'remote.message.dropped' not in line]
                    self.assertEqual(warned, [])
                    self.assertIsNone(status_of(process))  # waited for, too

    def test_an_arena_without_room_is_told_and_costs_only_hits(self):
        site = self.start(COMPUTE, kvfetch__arena_bytes='1TiB')
        node = site.nodes[COMPUTE]
        wait_until('the node gives up', lambda: 'kvfetch.absent' in node.log())
        self.assertEqual(node.log().count('warn kvfetch.not_started'), 3)
        self.assertIn('kvfetch.arena_bytes', node.log())
        self.assertEqual(children_of(node.process.pid), [])
        for _ in range(2):
            answer = site.ask(ASKED)
            self.assertEqual(site.cached(answer), 0)
            site.settle()

    def test_by_hand_it_only_says_who_starts_it(self):
        done = subprocess.run([BINARY, 'kvfetch'], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=20, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b'started by nodes', done.stderr)


if __name__ == '__main__':
    cluster.main()
