#!/usr/bin/env python3
"""The console's web page in a headless browser: what it shows, and that text of others stays text.
page_test.py PAGE.html; skipped (exit 77) where no Chromium is installed."""

import html
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import fake_server

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
BROWSER = next((path for path in map(shutil.which, BROWSERS) if path), None)
PAGE = sys.argv.pop(1)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context = fake_server.running()
        cls.node = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        with open(PAGE, 'rb') as file:
            cls.node.page = file.read()
        cls.dom, cls.messages = cls.load()
        cls.text = html.unescape(re.sub(r'<[^>]*>', ' ', cls.dom))

    @classmethod
    def load(cls):
        """The document after some seconds of the page's own, virtual, time."""
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [BROWSER, '--headless=new', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
                 f'--user-data-dir={profile}', '--window-size=1400,1000', '--virtual-time-budget=6000',
                 '--dump-dom', f'http://{cls.node.address}/'],
                capture_output=True, text=True, timeout=90, check=False)
        return done.stdout, [line for line in done.stderr.splitlines() if ':CONSOLE' in line]

    def test_nodes_and_actors_are_shown(self):
        for word in ('local', '0c1d2e3f', '127.0.0.1:7400', 'membership', 'decode', 'live'):
            self.assertIn(word, self.text)
        self.assertEqual(len(re.findall(r'<article class="node', self.dom)), 3)
        self.assertEqual(len(re.findall(r'<article class="node[^"]*\bgone\b', self.dom)), 1)
        self.assertEqual(len(re.findall(r'<button class="chip', self.dom)), 5)

    def test_rates_come_from_the_difference_of_two_answers(self):
        self.assertGreater(self.node.polls, 2)
        self.assertRegex(self.text, r'\d+(\.\d)?k?/s')
        self.assertRegex(self.dom, r'<path [^>]*class="[^"]*\bactive\b')

    def test_text_of_others_stays_text(self):
        self.assertIn('<img src=x onerror=alert(1)>', self.text)
        self.assertNotRegex(self.dom, r'<img\b')

    def test_nothing_else_is_loaded_and_nothing_goes_wrong(self):
        self.assertEqual(set(self.node.paths) - {'/', '/api/topology', '/api/events'}, set())
        self.assertEqual(self.messages, [])


if __name__ == '__main__':
    if BROWSER is None:
        print('no Chromium: the page is not tried in a browser')
        sys.exit(77)
    unittest.main()
