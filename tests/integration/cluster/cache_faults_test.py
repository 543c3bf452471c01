#!/usr/bin/env python3
"""Every duty of the KV cache is killed at random moments, under talks of several tenants: no answer
changes, and both stores are whole at the end.
cache_faults_test.py BINARY [ROUNDS [SEED]]; the long form is 60 rounds and more."""

import json
import os
import random
import signal
import sys
import threading
import time
import unittest

import cluster
from cache_test import LINES, Site, system
from cluster import wait_until

ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 6
SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1

TURNS = 3
TENANTS = ('alice', 'bob', 'carol')  # who say the same words, and share nothing
SUBJECTS = range(0, 2 if ROUNDS < 20 else 12, 2)  # first lines of talks
STORES = ('kvstore-a', 'kvstore-b')
ENGINES = ('prefill', 'decode')
GATEWAY = 'gateway,controller'


class Faults(cluster.ClusterTest):
    def setUp(self):
        super().setUp()
        self.site = Site(self, kvfetch__process='separate', kvstore__replicas=2,
                         kvstore__group_blocks=2, kvstore__segment_bytes='4MiB',
                         kvstore__capacity='24MiB')  # so small that blocks are evicted too

    def converse(self, subject, answer):
        """A talk from its first turn to its last; `answer` takes messages and says what came."""
        messages = [system(subject)]
        for turn in range(TURNS):
            messages.append({'role': 'user', 'content': LINES[30 + turn]})
            content = answer(messages)
            if content is None:
                return
            messages.append({'role': 'assistant', 'content': content})

    def expected(self):
        """What each prompt must be answered, by a cluster without cache."""
        known = {}
        with cluster.Cluster() as bare:
            mine, self.cluster = self.cluster, bare
            try:
                site = Site(self, kvcache__enabled='false').start(GATEWAY, *ENGINES)
                site.gateway.wait_ready()

                def answer(messages):
                    said = site.ask(messages)['choices'][0]['message']['content']
                    known[json.dumps(messages)] = said
                    return said
                for subject in SUBJECTS:
                    self.converse(subject, answer)
            finally:
                self.cluster = mine
        return known

    def talk_until(self, end, key, known, tally):
        """Talks over and over. A request may fail; an answer may not be another one."""
        def answer(messages):
            while not end.is_set():
                try:
                    body = cluster.chat_body(messages, max_tokens=24)
                    status, _, data = cluster.call(
                        self.site.gateway.http, 'POST', '/v1/chat/completions', body,
                        headers=[f'Authorization: Bearer {key}'], timeout=60)
                    got = json.loads(data)
                except (OSError, KeyError, ValueError, cluster.Broken):
                    got = {}
                if 'choices' not in got:  # a killed gateway, or no engine in time
                    tally['failed'] += 1
                    end.wait(0.1)
                    continue
                tally['answers'] += 1
                tally['cached'] += self.site.cached(got)
                said = got['choices'][0]['message']['content']
                if said != known[json.dumps(messages)]:
                    tally['wrong'].append((key, len(messages), said))
                    end.set()
                return said
            return None
        rng = random.Random(key)
        while not end.is_set():
            self.converse(rng.choice(SUBJECTS), answer)

    def fetch_process(self):
        """Its process id, 0 while there is none."""
        try:
            return self.site.sum('kv_fetch', 'process')
        except (OSError, KeyError, AssertionError, cluster.Broken):
            return 0

    def hurt(self, rng):
        """Kills something, and brings it back; says what it was."""
        what = rng.choice((*STORES, *STORES, *ENGINES, GATEWAY, 'fetch', 'all compute', 'stall'))
        if what == 'fetch':
            if process := self.fetch_process():
                os.kill(process, signal.SIGKILL)
        elif what == 'stall':  # too short for anybody to be declared dead
            node = self.site.nodes[rng.choice(STORES)]
            node.signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0.05, 0.5))
            node.signal(signal.SIGCONT)
        else:
            roles = (GATEWAY, *ENGINES) if what == 'all compute' else (what,)
            self.site.kill(*roles)
            time.sleep(rng.uniform(0, 1))
            self.site.start(*roles)
        return what

    def test_whatever_is_killed_no_answer_changes(self):
        known = self.expected()
        site = self.site.start(GATEWAY, *ENGINES, *STORES).ready(stores=2)
        rng = random.Random(SEED)
        end = threading.Event()
        tally = {'answers': 0, 'failed': 0, 'cached': 0, 'wrong': []}
        talkers = [threading.Thread(target=self.talk_until, args=(end, key, known, tally))
                   for key in TENANTS]
        for talker in talkers:
            talker.start()
        try:
            for number in range(ROUNDS):
                end.wait(rng.uniform(0.3, 3))
                answers = tally['answers']
                what = self.hurt(rng)
                # the cluster goes on: somebody gets an answer again
                wait_until(f'answers after {what}', lambda before=answers:
                           tally['answers'] > before or end.is_set(), within=90)
                print(f'round {number + 1} of {ROUNDS}: {what}; {tally["answers"]} answers, '
                      f'{tally["failed"]} failed, {tally["cached"]} tokens cached', file=sys.stderr)
                if end.is_set():
                    break
        finally:
            end.set()
            for talker in talkers:
                talker.join(90)
        self.assertEqual(tally['wrong'], [])
        self.assertGreater(tally['cached'], 0)
        self.assertEqual(site.sum('kv_store', 'diverged'), 0)
        for role in STORES:
            site.nodes.pop(role).terminate()
            got = self.cluster.command('kv', 'verify', os.path.join(self.cluster.folder, role, '0'),
                                       '--json', timeout=120)
            self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
            self.assertGreater(json.loads(got.stdout)['blocks'], 0)


if __name__ == '__main__':
    unittest.main(verbosity=2)
