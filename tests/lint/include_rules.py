"""Who may include whom."""

import os
import re

import tables
from findings import Finding
from tree import HEADERS, line_of

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")', re.M)


def includes(tree, path):
    """(line, name, is it in quotes) of each include directive."""
    text = tree.uncommented(path)
    for match in INCLUDE.finditer(text):
        angle, quoted = match.groups()
        # The match may begin on an earlier, empty line: count from the name itself.
        yield line_of(text, match.start(1 if angle else 2)), angle or quoted, quoted is not None


def longest_room(path, table):
    rooms = [room for room in table if path.startswith(room)]
    return max(rooms, key=len) if rooms else None


def starts_with(path, prefixes):
    return any(path.startswith(prefix) for prefix in prefixes)


def our_includes(tree):
    """Layers: proto <- storage, kernels <- runtime <- actors <- examples."""
    for path in tree.cpp():
        room = longest_room(path, tables.OURS)
        if room is None:
            yield Finding(path, 1, 'room', 'lies in no room of tests/lint/tables.py OURS; add a row')
            continue
        for line, name, quoted in includes(tree, path):
            if not quoted:
                continue
            if name.endswith('.capnp.h'):
                if not starts_with(path, tables.GENERATED_MESSAGES):
                    yield Finding(path, line, 'layer', f'"{name}": only code that builds or reads '
                                  'messages includes generated headers; take plain values')
                elif name[:-2] not in tree.texts:
                    yield Finding(path, line, 'include', f'"{name}" has no schema in proto/wire')
            elif name not in tree.texts:
                yield Finding(path, line, 'include', f'"{name}" is no file of this repository; '
                              'write the path from the root, or <> for a foreign header')
            elif not starts_with(name, tables.OURS[room]):
                yield Finding(path, line, 'layer', f'{room} may not include "{name}" (it may: '
                              f'{" ".join(tables.OURS[room])}); move the code or pass a value in')


def room_of(path):
    return '/'.join(path.split('/')[:2])


def room_cycles(tree):
    """Rooms below actors/ know each other in one direction only. (Actors talk both ways, and so do
    the headers of their rooms.)"""
    edges = {}  # room -> {room it includes: the first place}
    for path in tree.cpp():
        if not starts_with(path, tables.BELOW_ACTORS):
            continue
        for line, name, quoted in includes(tree, path):
            if quoted and room_of(name) != room_of(path):
                edges.setdefault(room_of(path), {}).setdefault(room_of(name), (path, line))

    def way(start, goal, seen):
        """The rooms on a way from `start` to `goal`, or None."""
        for room in sorted(edges.get(start, {})):
            if room == goal:
                return [start, goal]
            if room not in seen:
                seen.add(room)
                rest = way(room, goal, seen)
                if rest:
                    return [start, *rest]
        return None

    told = set()
    for room in sorted(edges):
        cycle = way(room, room, set())
        if cycle and not told & set(cycle):
            told |= set(cycle)
            path, line = edges[room][cycle[1]]
            yield Finding(path, line, 'cycle', f'{" -> ".join(cycle)}: these rooms include each '
                          'other in a circle; move what both need into the lower one')


def foreign_includes(tree):
    """One foreign library, one room."""
    for path in tree.cpp():
        for line, name, quoted in includes(tree, path):
            if quoted or name in tables.STANDARD:
                continue
            if tables.SYSTEM.match(name):
                if not starts_with(path, tables.SYSTEM_ROOMS):
                    yield Finding(path, line, 'foreign', f'<{name}>: this room does not talk to '
                                  'the operating system')
                continue
            library = longest_room(name, tables.FOREIGN)
            if library is None:
                yield Finding(path, line, 'foreign', f'<{name}> is in no row of tests/lint/tables.py '
                              'FOREIGN; decide which one room owns that library and add it')
            elif not starts_with(path, tables.FOREIGN[library]):
                yield Finding(path, line, 'foreign', f'<{name}> belongs to '
                              f'{" ".join(tables.FOREIGN[library])}; call that room instead')


def cxx17_includes(tree):
    """nvcc and kernels/api stay with C++17."""
    for path in tree.cpp():
        if path.startswith('kernels/api/') or path.endswith(('.cu', '.cuh')):
            for line, name, _ in includes(tree, path):
                if name in tables.AFTER_CXX17:
                    yield Finding(path, line, 'cxx17', f'<{name}> is not C++17; kernels/api and '
                                  'device code use raw pointers and sizes')


def own_header_first(tree):
    """So that every header is compiled once with nothing before it."""
    for path in tree.cpp():
        if path.endswith(HEADERS):
            continue
        own = os.path.splitext(path)[0] + '.hpp'
        if own not in tree.texts:
            continue
        first = next(includes(tree, path), None)
        if first is None or first[1] != own:
            yield Finding(path, first[0] if first else 1, 'own-header', f'include "{own}" first')


def pragma_once(tree):
    for path in tree.cpp():
        if path.endswith(HEADERS) and not re.search(r'^#pragma once$', tree.uncommented(path), re.M):
            yield Finding(path, 1, 'pragma-once', 'add #pragma once')


RULES = [our_includes, room_cycles, foreign_includes, cxx17_includes, own_header_first, pragma_once]
