"""Words that are not written, and names that say nothing."""

import os
import re

import tables
from findings import Finding
from include_rules import starts_with
from tree import CPP, line_of

SKIPPED = ('tests/lint/', 'LICENSE')  # lint names what it forbids


def words(tree):
    for path in tree.text_files():
        if starts_with(path, SKIPPED):
            continue
        is_cpp = path.endswith(CPP)
        for word in tables.WORDS:
            if not starts_with(path, word.rooms) or starts_with(path, word.but):
                continue
            if word.code and not is_cpp:
                continue
            text = tree.code(path) if word.code else tree.texts[path]
            for match in word.pattern.finditer(text):
                yield Finding(path, line_of(text, match.start()), word.name,
                              f'"{match.group().strip()}": {word.advice}')


def vague_names(tree):
    for path in tree.paths + sorted(tree.folders):
        stem = os.path.basename(path).split('.')[0]
        if tables.VAGUE_NAME.search(stem) and path not in tables.VAGUE_ALLOWED:
            yield Finding(path, 1, 'vague-name', f'"{stem}" says nothing; name it after its idea')


def schema_ids(tree):
    """Two schemas with one id could not be told apart on the wire."""
    seen = {}
    for path in tree.text_files():
        if not path.endswith('.capnp'):
            continue
        text = re.sub(r'#[^\n]*', '', tree.texts[path])
        own = re.search(r'^\s*@(0x[0-9a-f]{16});', text, re.M)
        if own is None:
            yield Finding(path, 1, 'schema-id', 'has no file id; `capnp id` draws one')
        for match in re.finditer(r'@(0x[0-9a-fA-F]+)', text):
            key, line = match.group(1).lower(), line_of(text, match.start())
            if key in seen:
                yield Finding(path, line, 'schema-id', f'{key} is taken by {seen[key]}; '
                              '`capnp id` draws another')
            seen.setdefault(key, f'{path}:{line}')


def test_names(tree):
    """A suite is the path of the room (or source, without ending) it tests, or of a folder of
    tests/ that tests no single room (`sim`); a test's name is a sentence stating a rule."""
    known = tree.folders | {os.path.splitext(path)[0] for path in tree.paths}
    known |= {folder.removeprefix('tests/') for folder in tree.folders}
    for path in tree.cpp():
        if not path.startswith('tests/'):
            continue
        text = tree.uncommented(path)
        for match in re.finditer(r'\bTEST_SUITE(?:_BEGIN)?\(\s*"([^"]*)"', text):
            if match.group(1) not in known:
                yield Finding(path, line_of(text, match.start()), 'test-suite',
                              f'"{match.group(1)}" is no room; name the folder that is tested')
        for match in re.finditer(r'\bTEST_CASE(?:_FIXTURE\([^"]*|_TEMPLATE[A-Z_]*\(|\()\s*"([^"]*)"', text):
            if len(match.group(1).split()) < 3:
                yield Finding(path, line_of(text, match.start()), 'test-name',
                              f'"{match.group(1)}" is no sentence; state the rule that holds')


RULES = [words, vague_names, schema_ids, test_names]
