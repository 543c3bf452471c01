#!/usr/bin/env python3
"""Checks the house rules that a machine can check. Exit 1 if any is broken.

  tests/lint/lint.py                 the whole tree
  tests/lint/lint.py --format FILE   all rules, but only these files against clang-format
  tests/lint/lint.py --quiet         no warnings
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import format_rule
import include_rules
import layout_rules
import size_rules
import text_rules
import tree as tree_module

RULES = include_rules.RULES + size_rules.RULES + text_rules.RULES + layout_rules.RULES


def check(tree):
    """Every finding of every rule but the format, in the order of the files."""
    return sorted(finding for rule in RULES for finding in rule(tree))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--root', default=os.path.join(os.path.dirname(__file__), '..', '..'))
    parser.add_argument('--format', nargs='*', metavar='FILE', help='format-check only these files')
    parser.add_argument('--quiet', action='store_true', help='errors only')
    arguments = parser.parse_args()

    started = time.monotonic()
    root = os.path.abspath(arguments.root)
    tree = tree_module.load(root)
    chosen = arguments.format
    paths = [p for p in tree.cpp() if chosen is None or p in chosen]
    with ThreadPoolExecutor(1) as beside:  # clang-format works while the rules are checked
        format_findings = beside.submit(format_rule.unformatted, root, paths)
        findings = check(tree) + format_findings.result()
    errors = [f for f in findings if not f.warning]
    for finding in findings:
        if not (finding.warning and arguments.quiet):
            print(finding)
    missing = format_rule.tool()[1]
    if missing:
        print(f'lint: format not checked: {missing}')
    print(f'lint: {len(tree.paths)} files, {len(errors)} errors, {len(findings) - len(errors)} '
          f'warnings, {time.monotonic() - started:.1f} s')
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
