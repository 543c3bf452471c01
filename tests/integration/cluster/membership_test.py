#!/usr/bin/env python3
"""Nodes join, leave, crash, fall silent; clusters keep apart. membership_test.py BINARY"""

import concurrent.futures
import re
import signal
import time

import cluster
from cluster import SEEN_WITHIN, call, wait_until

# Nodes that compute nothing start at once and are all that membership needs.
BARE = ('--roles', 'controller')


class Together(cluster.ClusterTest):
    def start(self, count, *arguments):
        launched = [self.cluster.launch(*BARE, *arguments) for _ in range(count)]
        nodes = [node.wait_started() for node in launched]
        self.wait_together(nodes)
        return nodes

    def wait_together(self, nodes, within=SEEN_WITHIN):
        return wait_until('all see all', lambda: all(
            node.sees(*(set(nodes) - {node})) for node in nodes), within)[1]

    def check_seen(self, what, observers, probe):
        """All observers see it in time; they are asked side by side, so that the slowest counts."""
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(observers)) as pool:
            list(pool.map(lambda o: wait_until(what, lambda: probe(o), SEEN_WITHIN), observers))
        self.report(what, time.monotonic() - begun)


class Membership(Together):
    def test_joining_leaving_crashing_falling_silent_and_returning_are_seen_by_all(self):
        nodes = self.start(4)
        last = self.cluster.start(*BARE)
        nodes.append(last)
        self.report('joining seen by all', self.wait_together(nodes))

        silent = nodes[1]
        others = [n for n in nodes if n is not silent]
        silent.signal(signal.SIGSTOP)
        self.check_seen('silence seen by all', others, lambda o: o.state_of(silent) != 'alive')
        silent.signal(signal.SIGCONT)
        self.report('return from silence seen by all', self.wait_together(nodes))

        crashed = nodes[2]
        others = [n for n in nodes if n is not crashed]
        crashed.kill()
        self.check_seen('crash seen by all', others, lambda o: o.state_of(crashed) == 'dead')

        leaver = others.pop()
        leaver.process.terminate()
        self.check_seen('leaving seen by all', others, lambda o: o.state_of(leaver) == 'left')
        self.assertEqual(leaver.process.wait(20), 0, leaver.log())
        self.assertIn('node.stopped', leaver.log())
        self.check_quiet(others)

    def check_quiet(self, nodes):
        """After all the news, only heartbeats and the regular gossip go on."""
        def sent():
            return sum(int(re.search(rb'deepinfer_net_frames_sent_total (\d+)', call(
                node.console, 'GET', '/metrics')[2])[1]) for node in nodes)
        before = sent()
        time.sleep(2)
        frames = sent() - before
        print(f'{frames} frames in 2 s among {len(nodes)} nodes')
        self.assertLess(frames, 50 * len(nodes) ** 2)

    def test_a_node_told_to_stop_ends_with_exit_code_0(self):
        node = self.start(1)[0]
        self.assertEqual(node.terminate(), 0, node.log())
        self.assertNotIn('node.lost', node.log())

    def test_a_return_on_the_same_address_is_a_new_life(self):
        first = self.start(1)[0]
        # an address that no other test uses: its port is still free after the kill
        old = self.cluster.start(*BARE, '--listen', '127.0.0.7:0')
        self.wait_together([first, old])
        old_epoch = first.epoch_of(old)
        old.kill()
        new = self.cluster.start(*BARE, '--listen', old.fabric)
        self.wait_together([first, new])
        records = [n for n in first.topology()['nodes'] if n['address'] == old.fabric]
        self.assertEqual([n['id'] for n in records], [new.id])
        self.assertGreater(records[0]['epoch'], old_epoch)

    def test_clusters_of_different_names_never_meet(self):
        red = self.start(2, '--cluster', 'red')
        blue = self.cluster.start(*BARE, '--cluster', 'blue', '--join', red[0].fabric)
        # it knows the address, and is turned away each time it asks
        wait_until('several dials', lambda: blue.counter('membership', 'dials') >= 3)
        late = self.cluster.start(*BARE, '--cluster', 'red')
        self.wait_together([*red, late])
        self.assertEqual(set(blue.states()), {blue.id})
        self.assertNotIn('net.peer.up', blue.log())
        for node in red:
            self.assertNotIn(blue.id, node.states())
        self.assertEqual(blue.topology()['cluster'], 'blue')
        # two clusters in one folder: the console must be told which
        self.assertEqual(self.cluster.command('console', 'topology').returncode, 2)
        shown = self.cluster.command('console', 'topology', '--json', '--cluster', 'blue')
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(blue.id, shown.stdout.decode())


class Joining(Together):
    """Nodes of several machines: no folder in common, only addresses."""

    def machine(self, host, *arguments):
        folder = f'{self.cluster.folder}/machine{len(self.cluster.nodes)}'
        return self.cluster.start(*BARE, '--listen', f'{host}:0', *arguments,
                                  environment={'DEEPINFER_RUNTIME_DIR': folder})

    def test_any_living_address_is_enough_to_join(self):
        first = self.machine('127.0.0.2')
        second = self.machine('127.0.0.3', '--join', first.fabric)
        self.wait_together([first, second])
        third = self.machine('127.0.0.4', '--join', second.fabric)
        self.report('joined by one address', self.wait_together([first, second, third]))
        first.kill()
        fourth = self.machine('127.0.0.5', '--join', f'{first.fabric},{third.fabric}')
        self.wait_together([second, third, fourth], 2 * SEEN_WITHIN)

    def test_a_name_is_enough_to_join(self):
        first = self.machine('127.0.0.1')
        port = first.fabric.rsplit(':', 1)[1]
        second = self.machine('127.0.0.1', '--join', f'localhost:{port}')
        self.report('joined by name', self.wait_together([first, second]))

    def test_a_wrong_secret_is_turned_away(self):
        secret = ('--set', 'node.secret=the right one')
        first = self.machine('127.0.0.2', *secret)
        wrong = self.machine('127.0.0.3', '--join', first.fabric, '--set', 'node.secret=another')
        without = self.machine('127.0.0.3', '--join', first.fabric)
        for stranger in (wrong, without):
            wait_until('several dials', lambda s=stranger: s.counter('membership', 'dials') >= 3)
        right = self.machine('127.0.0.4', '--join', first.fabric, *secret)
        self.wait_together([first, right])
        for stranger in (wrong, without):
            self.assertEqual(set(stranger.states()), {stranger.id})
            self.assertNotIn('net.peer.up', stranger.log())
        self.assertIn('net.', first.log().replace('net.peer.up', ''), 'no event about strangers')

    def test_beyond_loopback_a_secret_is_required(self):
        got = self.cluster.command('node', *BARE, '--listen', '0.0.0.0:0')
        self.assertEqual(got.returncode, 2, got.stderr)
        self.assertIn(b'secret', got.stderr)


if __name__ == '__main__':
    cluster.main()
