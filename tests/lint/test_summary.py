#!/usr/bin/env python3
"""tests/run must not call a run green that was not: the rules of its summary."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'support'))
import summary  # noqa: E402


def record(name, result, stdout='', returncode=0):
    return {'name': f'deepinfer:unit / {name}', 'result': result, 'stdout': stdout, 'duration': 1.0,
            'returncode': returncode, 'command': ['./' + name]}


class Summary(unittest.TestCase):
    def last(self, records, may_skip=(), status=0):
        lines, code = summary.report(records, set(may_skip), status)
        return lines[-1], code

    def test_a_good_run_passes(self):
        self.assertEqual(self.last([record('a', 'OK'), record('b', 'OK')]), ('2 passed, 0 failed, 0 skipped', 0))

    def test_every_kind_of_failure_fails(self):
        for result in ('FAIL', 'TIMEOUT', 'ERROR', 'INTERRUPT', 'UNEXPECTEDPASS', 'something new'):
            with self.subTest(result):
                self.assertEqual(self.last([record('a', 'OK'), record('b', result)], status=1),
                                 ('1 passed, 1 failed, 0 skipped', 1))

    def test_only_listed_tests_may_be_skipped(self):
        skip = [record('a', 'OK'), record('b', 'SKIP')]
        self.assertEqual(self.last(skip, ['b']), ('1 passed, 0 failed, 1 skipped', 0))
        self.assertEqual(self.last(skip), ('1 passed, 1 failed, 0 skipped', 1))

    def test_a_run_without_tests_or_a_broken_runner_fails(self):
        self.assertEqual(self.last([])[1], 1)
        self.assertEqual(self.last([record('a', 'SKIP')], ['a'])[1], 1)
        self.assertEqual(self.last([record('a', 'OK')], status=2)[1], 1)
        self.assertEqual(self.last([record('a', 'OK')], status=124)[1], 1)

    def test_doctest_cases_are_added_up(self):
        said = '[doctest] test cases:  6 |  5 passed | 1 failed | 0 skipped\n'
        lines, _ = summary.report([record('a', 'OK', said), record('b', 'FAIL', said)], set(), 1)
        self.assertIn('doctest cases: 12 run, 10 good, 2 bad', lines)

    def test_a_failure_shows_the_end_of_its_output(self):
        lines, _ = summary.report([record('a', 'FAIL', 'start\n' + 'line\n' * 60 + 'the reason\n', 3)], set(), 1)
        self.assertIn('    the reason', lines)
        self.assertNotIn('    start', lines)
        self.assertIn('    run it alone: ./a', lines)


if __name__ == '__main__':
    unittest.main()
