"""What lies where: the top level, READMEs, sources that nobody builds."""

import os
import re

import tables
from findings import Finding
from tree import blank, line_of

ROOM_PARENTS = ('proto', 'kernels', 'storage', 'runtime', 'actors', 'tests')
WITHOUT_README = re.compile(r'tests/[a-z_]+/.+')  # a tests' room is one level deep


def top_level(tree):
    for entry in sorted({path.split('/')[0] for path in tree.paths}):
        if entry not in tables.TOP_LEVEL:
            yield Finding(entry, 1, 'top-level', 'is not in the house plan (tests/lint/tables.py '
                          'TOP_LEVEL); put it into a room')


def rooms(tree):
    """Each top-level folder and each folder right below those that hold rooms."""
    for folder in sorted(tree.folders):
        depth = folder.count('/') + 1 if folder else 0
        if depth == 1 and not folder.startswith('.'):
            yield folder
        elif depth == 2 and folder.split('/')[0] in ROOM_PARENTS:
            yield folder


def room_readmes(tree):
    least, most = tables.README_LINES
    for room in rooms(tree):
        path = f'{room}/README.md'
        if path not in tree.texts:
            yield Finding(path, 1, 'readme', f'missing; say in {least} to {most} lines what the '
                          'room is for, what it may include, what always holds, how it is tested')
            continue
        lines = len([line for line in tree.texts[path].splitlines() if line.strip()])
        if not least <= lines <= most:
            yield Finding(path, 1, 'readme', f'has {lines} lines with text; {least} to {most} are asked')


def built_sources(tree):
    """A source that no meson.build names is never compiled, and its tests never run."""
    names = {}
    for path in tree.paths:
        if os.path.basename(path) == 'meson.build':
            names[os.path.dirname(path)] = set(re.findall(r"'([^'\n]+)'", tree.texts[path]))
    for path in tree.cpp():
        if path.endswith(('.cpp', '.cu')):
            parts = path.split('/')
            places = (('/'.join(parts[:i]), '/'.join(parts[i:])) for i in range(len(parts)))
            if not any(rest in names.get(folder, ()) for folder, rest in places):
                yield Finding(path, 1, 'not-built', 'no meson.build names this source; add it')


def listed_packages(tree):
    """What the build asks for is what deploy/install brings."""
    listed = {line.split('#')[0].strip() for line in tree.texts.get('deploy/packages.txt', '').splitlines()}
    asked = re.compile(r"\b(dependency|find_library|find_program)\(\s*'([^']+)'")
    for path in tree.paths:
        if os.path.basename(path) != 'meson.build':
            continue
        for match in asked.finditer(re.sub(r'#[^\n]*', lambda m: blank(m.group()), tree.texts[path])):
            call, name = match.groups()
            line = line_of(tree.texts[path], match.start())
            table = {**tables.DEPENDENCIES, **(tables.PROGRAMS if call == 'find_program' else {})}
            if name not in table:
                yield Finding(path, line, 'package', f"'{name}' has no row in tests/lint/tables.py "
                              'DEPENDENCIES; name the Debian package that brings it')
            elif table[name] is not None and table[name] not in listed:
                yield Finding(path, line, 'package', f"'{name}' needs {table[name]}; add it to "
                              'deploy/packages.txt, or a fresh machine does not build')


def tests_once(tree):
    """A merge may register a test twice: it then costs its time twice."""
    call = re.compile(r"\btest\(\s*'([^']+)'\s*(?:\+\s*name\s*)?,\s*(\w+)([^)]*)\)")
    for path in tree.paths:
        if os.path.basename(path) != 'meson.build':
            continue
        text = re.sub(r'#[^\n]*', lambda m: blank(m.group()), tree.texts[path])
        seen = set()
        for match in call.finditer(text):
            name, program, rest = match.groups()
            suite = re.search(r"suite:\s*'(\w+)'", rest)
            keys = {(name, suite and suite.group(1))}
            if 'args' not in rest and program != 'python':
                keys.add(program)
            if keys & seen:
                yield Finding(path, line_of(text, match.start()), 'test-twice',
                              f"'{name}' is registered before, by name or by program; delete one")
            seen |= keys


RULES = [top_level, room_readmes, built_sources, listed_packages, tests_once]
