#!/usr/bin/env python3
"""deploy/install asks apt for exactly what is missing, and says what to do when it cannot."""

import os
import re
import subprocess
import tempfile
import unittest

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'deploy')

# Stand-ins for Debian's tools; each call of apt-get leaves a line in $LOG.
TOOLS = {
    'dpkg-query': 'for p in "${@:3}"; do [[ " $MISSING " == *" $p "* ]] || echo "installed $p"; done; '
                  '[[ -z $MISSING ]]',
    'apt-get': 'echo "$DEBIAN_FRONTEND $*" >>"$LOG"; [[ " $* " != *" $BROKEN "* ]] || '
               '{ echo "E: Unable to fetch some archives"; exit 100; }',
    'sudo': 'exec "$@"',
}


def packages():
    with open(os.path.join(DEPLOY, 'packages.txt'), encoding='utf-8') as file:
        return [name for line in file if (name := line.split('#')[0].strip())]


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, body in TOOLS.items():
            path = os.path.join(self.folder.name, name)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(f'#!/bin/bash\n{body}\n')
            os.chmod(path, 0o755)
        self.log = os.path.join(self.folder.name, 'log')

    def install(self, *arguments, missing='', broken='none'):
        environment = dict(os.environ, MISSING=missing, BROKEN=broken, LOG=self.log,
                           PATH=self.folder.name + ':' + os.environ['PATH'])
        return subprocess.run([os.path.join(DEPLOY, 'install'), *arguments], env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60,
                              stderr=subprocess.STDOUT, check=False)

    def calls(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding='utf-8') as file:
            return file.read().splitlines()

    def test_nothing_missing_touches_nothing(self):
        done = self.install()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.calls(), [])

    def test_only_what_is_missing_is_asked_for_without_a_question(self):
        done = self.install(missing='meson curl')
        self.assertEqual(done.returncode, 0, done.stdout)
        update, install = self.calls()
        self.assertIn(' update', update)
        self.assertTrue(install.endswith('install --no-install-recommends meson curl'), install)
        self.assertTrue(install.startswith('noninteractive -q -y '), install)

    def test_check_says_what_is_missing_and_installs_nothing(self):
        done = self.install('--check', missing='meson')
        self.assertEqual(done.returncode, 1)
        self.assertIn('meson', done.stdout)
        self.assertEqual(self.calls(), [])

    def test_an_archive_out_of_reach_is_explained(self):
        done = self.install(missing='meson', broken='-q')
        self.assertEqual(done.returncode, 1)
        self.assertIn('Unable to fetch', done.stdout)
        self.assertIn('cannot reach the package archive', done.stdout)

    def test_an_old_index_is_good_enough_when_the_packages_come(self):
        self.assertEqual(self.install(missing='meson', broken='update').returncode, 0)

    def test_a_package_that_fails_is_named(self):
        done = self.install(missing='meson', broken='install')
        self.assertEqual(done.returncode, 1)
        self.assertIn('could not install: meson', done.stdout)

    def test_the_list_names_each_package_once(self):
        names = packages()
        self.assertEqual(sorted(set(names)), sorted(names))
        for name in names:
            self.assertTrue(re.fullmatch(r'[a-z0-9][a-z0-9+.-]+', name), name)


if __name__ == '__main__':
    unittest.main()
