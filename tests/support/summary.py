#!/usr/bin/env python3
"""Says at the end of tests/run what failed and counts the rest, from Meson's testlog.json."""

import argparse
import json
import os
import re
import sys

PASSED = {'OK', 'EXPECTEDFAIL'}
TAIL = 40  # lines of a failed test's output
CASES = re.compile(r'^\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed', re.M)


def read(path):
    """One record per test that ran; none if the runner never got that far."""
    if not os.path.exists(path):
        return []
    with open(path, encoding='utf-8', errors='replace') as file:
        return [json.loads(line) for line in file if line.strip()]


def allowed_skips(path):
    with open(path, encoding='utf-8') as file:
        return {line.split('#')[0].strip() for line in file} - {''}


def short_name(record):
    return record['name'].split(' / ')[-1]


def output(record):
    return (record.get('stdout') or '') + (record.get('stderr') or '')


def sort_out(records, may_skip):
    """(passed, failed, skipped): lists of records; a skip that nobody allowed is a failure."""
    passed, failed, skipped = [], [], []
    for record in records:
        if record['result'] in PASSED:
            passed.append(record)
        elif record['result'] == 'SKIP' and short_name(record) in may_skip:
            skipped.append(record)
        else:
            failed.append(record)
    return passed, failed, skipped


def report(records, may_skip, status):
    """The lines to print, and the exit status."""
    passed, failed, skipped = sort_out(records, may_skip)
    lines = []
    for record in failed:
        result = record['result']
        why = 'skipped, but not listed in tests/may_skip.txt' if result == 'SKIP' else result
        lines.append(f'--- {record["name"]}: {why} after {record["duration"]:.1f} s, '
                     f'exit status {record["returncode"]}')
        lines.append('    run it alone: ' + ' '.join(record['command']))
        lines += ['    ' + line for line in output(record).rstrip().splitlines()[-TAIL:]]
    for record in skipped:
        said = output(record).strip().splitlines() or ['no reason given']
        lines.append(f'skipped {record["name"]}: {said[-1]}')
    cases = [tuple(map(int, match)) for r in records for match in CASES.findall(output(r))]
    if cases:
        run, good, bad = (sum(column) for column in zip(*cases))
        lines.append(f'doctest cases: {run} run, {good} good, {bad} bad')
    if failed:
        lines.append('failed: ' + ' '.join(short_name(r) for r in failed))
    if status not in (0, 1) or (status == 1 and not failed):
        lines.append(f'the test runner itself ended with status {status}')
    if not passed and not failed:
        lines.append('no test ran')
    lines.append(f'{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped')
    return lines, 0 if passed and not failed and status == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('log')
    parser.add_argument('--status', type=int, default=0, help='exit status of meson test')
    parser.add_argument('--may-skip', required=True)
    arguments = parser.parse_args()
    lines, status = report(read(arguments.log), allowed_skips(arguments.may_skip), arguments.status)
    print('\n'.join(lines))
    return status


if __name__ == '__main__':
    sys.exit(main())
